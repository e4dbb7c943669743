//! Defaulting functions by type, applied wherever an object of that type occurs: in a pod as in the template of a
//! deployment. A parent is defaulted before its children. Constant defaults are in the schema table.
//!
//! Corresponds to upstream's `SetDefaults_*` functions. Entry point: [`by_type`].

mod cluster;
mod pods;
mod workloads;

use crate::feature_gates::Feature;
use crate::{FeatureGates, JsonObject};

pub use cluster::{NAMESPACE_LABEL, label_namespace};

/// Sets the defaults of one object of a type.
pub type DefaultingFn = fn(&mut JsonObject);

/// All defaulting functions, by the name of their type in the schema table.
pub fn by_type() -> impl Iterator<Item = (&'static str, DefaultingFn)> {
    [pods::DEFAULTERS, workloads::DEFAULTERS, cluster::DEFAULTERS]
        .into_iter()
        .flatten()
        .copied()
}

/// Like [`by_type`], without functions whose feature gate is off.
pub fn enabled_by_type(gates: &FeatureGates) -> impl Iterator<Item = (&'static str, DefaultingFn)> {
    let labels_namespaces = gates.enabled(Feature::NamespaceDefaultLabelName);
    by_type().filter(move |(name, _)| labels_namespaces || *name != cluster::NAMESPACE)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn every_type_has_one_defaulting_function() {
        let mut names = HashSet::new();
        for (name, _) in super::by_type() {
            assert!(names.insert(name), "{name}");
        }
    }
}
