//! Built-in kinds of API group `scheduling.k8s.io`, one module each.

mod priority_class;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![priority_class::kind()]
}
