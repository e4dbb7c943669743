//! Built-in kinds of API group `autoscaling`, one module each.

mod horizontal_pod_autoscaler;
#[cfg(test)]
mod tests;
mod v1_conversion;
mod v1_metrics;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![horizontal_pod_autoscaler::kind()]
}
