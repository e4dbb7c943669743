//! The kinds of this group.

mod conversion;
mod horizontal_pod_autoscaler;
mod metrics;
#[cfg(test)]
mod tests;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![horizontal_pod_autoscaler::kind()]
}
