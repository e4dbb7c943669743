//! Built-in kinds of API group `policy`, one module each.

mod pod_disruption_budget;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![pod_disruption_budget::kind()]
}
