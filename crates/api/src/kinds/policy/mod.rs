//! The kinds of this group.

mod pod_disruption_budget;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![pod_disruption_budget::kind()]
}
