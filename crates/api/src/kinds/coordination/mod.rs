//! Built-in kinds of API group `coordination.k8s.io`, one module each.

mod lease;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![lease::kind()]
}
