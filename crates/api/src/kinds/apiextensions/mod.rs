//! The kinds of this group.

mod custom_resource_definition;
#[cfg(test)]
mod tests;
mod versions;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![custom_resource_definition::kind()]
}
