//! Built-in kinds of API group `authentication.k8s.io`, one module each.

mod self_subject_review;
mod token_review;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![self_subject_review::kind(), token_review::kind()]
}
