//! The kinds of this group.

mod horizontal_pod_autoscaler;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![horizontal_pod_autoscaler::kind()]
}
