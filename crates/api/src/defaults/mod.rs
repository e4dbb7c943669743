//! Defaults by type: what is filled in wherever an object of that type stands, in a pod as in the template of
//! a deployment. A parent's comes before its children's. The schema table holds the constant ones.

mod cluster;
mod pods;
mod workloads;

use crate::gates::Feature;
use crate::{Gates, Object};

pub use cluster::{NAMESPACE_LABEL, label_namespace};

/// Fills in what was left out of one object of a type.
pub type Fill = fn(&mut Object);

/// The types that have defaults, by their names in the schema table.
pub fn by_type() -> impl Iterator<Item = (&'static str, Fill)> {
    [pods::TYPES, workloads::TYPES, cluster::TYPES]
        .into_iter()
        .flatten()
        .copied()
}

/// As [`by_type`], without those that feature gates have turned off.
pub fn by_type_for(gates: &Gates) -> impl Iterator<Item = (&'static str, Fill)> {
    let labels_namespaces = gates.enabled(Feature::NamespaceDefaultLabelName);
    by_type().filter(move |(name, _)| labels_namespaces || *name != cluster::NAMESPACE)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn no_type_is_filled_twice() {
        let mut names = HashSet::new();
        for (name, _) in super::by_type() {
            assert!(names.insert(name), "{name}");
        }
    }
}
