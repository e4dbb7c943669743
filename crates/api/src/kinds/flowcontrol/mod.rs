//! Built-in kinds of API group `flowcontrol.apiserver.k8s.io`, one module each.

mod conditions;
mod flow_schema;
mod priority_level_configuration;
#[cfg(test)]
mod tests;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![flow_schema::kind(), priority_level_configuration::kind()]
}
