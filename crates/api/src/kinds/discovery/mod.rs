//! Built-in kinds of API group `discovery.k8s.io`, one module each.

mod endpoint_slice;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![endpoint_slice::kind()]
}
