//! Built-in kinds of API group `authorization.k8s.io`, one module each.

mod local_subject_access_review;
mod self_subject_access_review;
mod self_subject_rules_review;
mod subject_access_review;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        local_subject_access_review::kind(),
        self_subject_access_review::kind(),
        self_subject_rules_review::kind(),
        subject_access_review::kind(),
    ]
}
