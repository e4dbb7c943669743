//! Built-in kinds of API group `resource.k8s.io`, one module each.

mod device_class;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;
#[cfg(test)]
mod tests;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        device_class::kind(),
        resource_claim::kind(),
        resource_claim_template::kind(),
        resource_slice::kind(),
    ]
}
