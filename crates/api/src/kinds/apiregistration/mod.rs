//! The kinds of this group.

mod api_service;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![api_service::kind()]
}
