//! The kinds of this group.

mod priority_class;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![priority_class::kind()]
}
