//! The kinds of this group.

mod self_subject_review;
mod token_review;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![self_subject_review::kind(), token_review::kind()]
}
