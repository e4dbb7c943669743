//! The kinds of this group.

mod lease;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![lease::kind()]
}
