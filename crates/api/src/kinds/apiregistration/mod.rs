//! Built-in kinds of API group `apiregistration.k8s.io`, one module each.

mod api_service;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![api_service::kind()]
}
