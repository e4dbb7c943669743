//! The resources that can be written and the admission operations on them, for warnings about webhooks and policies.

use rhumb_admission::critical_resources::ServedResource;
use rhumb_api::{Subresource, SubresourceKind, Verb};
use rhumb_registry::ResourceTable;
use rhumb_registry::admission::Operation;

/// The API group of webhook configurations and policies.
pub(super) const ADMISSION_REGISTRATION_GROUP: &str = "admissionregistration.k8s.io";

/// All resources and subresources that can be written, in all versions.
pub(super) fn writable_resources(resources: &ResourceTable) -> Vec<ServedResource<'_>> {
    let mut all = Vec::new();
    for resource in resources.iter() {
        let kind = &resource.kind;
        let main_resource = ("", operations(kind.verbs, None));
        let subresources = kind.subresources.iter().map(|subresource| {
            let operations = operations(subresource.verbs, Some(subresource));
            (&*subresource.name, operations)
        });
        for (subresource, operations) in std::iter::once(main_resource).chain(subresources) {
            for version in &resource.versions {
                if let Some(resource_names) = resource.equivalent_resources(version, subresource) {
                    all.push(ServedResource {
                        names: &resource_names.names,
                        equivalents: &resource_names.equivalents,
                        subresource,
                        is_namespaced: kind.is_namespaced(),
                        operations: operations.clone(),
                    });
                }
            }
        }
    }
    all
}

/// The admission operations of verbs. Subresources served by the kubelet are CONNECT, except `log`, which is a read.
fn operations(verbs: &[Verb], subresource: Option<&Subresource>) -> Vec<Operation> {
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
