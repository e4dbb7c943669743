//! The kinds of this group.

mod runtime_class;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![runtime_class::kind()]
}
