//! Built-in kinds of API group `apiextensions.k8s.io`, one module each.

mod custom_resource_definition;
#[cfg(test)]
mod tests;
mod versions;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![custom_resource_definition::kind()]
}
