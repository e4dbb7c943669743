//! The kinds of this group.

mod conditions;
mod flow_schema;
mod priority_level_configuration;
#[cfg(test)]
mod tests;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![flow_schema::kind(), priority_level_configuration::kind()]
}
