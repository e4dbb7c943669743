//! The kinds of this group.

mod event;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![event::kind()]
}
