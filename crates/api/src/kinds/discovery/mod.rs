//! The kinds of this group.

mod endpoint_slice;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![endpoint_slice::kind()]
}
