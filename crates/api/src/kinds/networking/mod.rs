//! Built-in kinds of API group `networking.k8s.io`, one module each.

mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        ingress::kind(),
        ingress_class::kind(),
        ip_address::kind(),
        network_policy::kind(),
        service_cidr::kind(),
    ]
}
