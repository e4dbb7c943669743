//! The built-in resources: which serve the same objects, and which writes they support.

use rhumb_admission::Operation;
use rhumb_admission::compile::EquivalentResourceSets;
use rhumb_admission::critical_resources::ServedResource;
use rhumb_api::{Kind, Subresource, SubresourceKind, Verb};
use rhumb_registry::{EquivalentResources, equivalents_by_kind};

/// The resources of all built-in kinds.
pub(super) struct BuiltInResources {
    kinds: Vec<Kind>,
    /// For each kind and each of its versions: the object, then its subresources.
    endpoints: Vec<Vec<Vec<EquivalentResources>>>,
}

impl BuiltInResources {
    pub(super) fn new() -> BuiltInResources {
        let kinds = rhumb_api::kinds::all();
        BuiltInResources {
            endpoints: equivalents_by_kind(&kinds),
            kinds,
        }
    }

    /// The sets of resources that serve the same objects.
    pub(super) fn equivalent_sets(&self) -> EquivalentResourceSets {
        let objects = self
            .endpoints
            .iter()
            .flatten()
            .filter_map(|all| all.first());
        let mut sets: Vec<Vec<_>> = objects
            .map(|endpoint| {
                let all = std::iter::once(&endpoint.names).chain(&endpoint.equivalents);
                let mut set: Vec<_> = all.map(|names| names.resource.clone()).collect();
                set.sort();
                set
            })
            .collect();
        sets.sort();
        sets.dedup();
        EquivalentResourceSets(sets)
    }

    /// All resources and subresources that can be written, in all versions.
    pub(super) fn writable(&self) -> Vec<ServedResource<'_>> {
        let mut all = Vec::new();
        for (kind, versions) in self.kinds.iter().zip(&self.endpoints) {
            let subresources = kind.subresources.iter().map(|subresource| {
                let operations = operations(subresource.verbs, Some(subresource));
                (&*subresource.name, operations)
            });
            let main = ("", operations(kind.verbs, None));
            let endpoints: Vec<_> = std::iter::once(main).chain(subresources).collect();
            for version in versions {
                for ((subresource, operations), endpoint) in endpoints.iter().zip(version) {
                    all.push(ServedResource {
                        names: &endpoint.names,
                        equivalents: &endpoint.equivalents,
                        subresource,
                        is_namespaced: kind.is_namespaced(),
                        operations: operations.clone(),
                    });
                }
            }
        }
        all
    }
}

/// The admission operations that a resource or subresource supports. Subresources served by the kubelet are CONNECT,
/// except `log`, which is a read.
pub(super) fn operations(verbs: &[Verb], subresource: Option<&Subresource>) -> Vec<Operation> {
    let connects = |candidate: &Subresource| {
        candidate.kind == SubresourceKind::NodeProxied && candidate.name != "log"
    };
    if subresource.is_some_and(connects) {
        return vec![Operation::Connect];
    }
    let has_any = |expected: &[Verb]| verbs.iter().any(|verb| expected.contains(verb));
    [
        (Operation::Create, &[Verb::Create][..]),
        (Operation::Update, &[Verb::Update, Verb::Patch]),
        (Operation::Delete, &[Verb::Delete, Verb::DeleteCollection]),
    ]
    .into_iter()
    .filter(|(_, verbs_of_operation)| has_any(verbs_of_operation))
    .map(|(operation, _)| operation)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiled conditions list equivalent resources without regard to their subresources.
    #[test]
    fn equivalent_resources_have_the_same_subresources() {
        let resources = BuiltInResources::new();
        let mut sets = 0;
        for version in resources.endpoints.iter().flatten() {
            let counts: Vec<usize> = version.iter().map(|one| one.equivalents.len()).collect();
            assert!(
                counts.iter().all(|count| *count == counts[0]),
                "{version:?}"
            );
        }
        for set in resources.equivalent_sets().0 {
            sets += usize::from(set.len() > 1);
        }
        assert!(sets >= 2, "events and horizontalpodautoscalers");
    }
}
