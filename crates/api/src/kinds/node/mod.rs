//! Built-in kinds of API group `node.k8s.io`, one module each.

mod runtime_class;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![runtime_class::kind()]
}
