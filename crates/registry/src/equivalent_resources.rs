//! Group, version, resource and kind of every served endpoint, and which endpoints serve the same objects (upstream:
//! `runtime.EquivalentResourceMapper`). Admission uses this to match rules with `matchPolicy: Equivalent`.

use std::collections::HashMap;

use rhumb_admission::ResourceAndKind;
use rhumb_api::{Kind, KindVersion};
use rhumb_meta::{GroupKind, GroupVersion, GroupVersionKind};

/// The names of one endpoint (a resource or subresource in one version), and of all equivalent endpoints.
#[derive(Debug, Clone)]
pub struct EquivalentResources {
    pub names: ResourceAndKind,
    /// Other endpoints that serve the same objects: in other versions or other groups.
    pub equivalents: Vec<ResourceAndKind>,
}

/// For each kind and each of its versions: the endpoint of the object, then those of its subresources in their order.
/// Kinds that share a storage path serve the same objects.
pub fn equivalents_by_kind(kinds: &[Kind]) -> Vec<Vec<Vec<EquivalentResources>>> {
    let identity = |kind: &Kind| match &kind.storage {
        Some(path) => path.to_string(),
        None => format!("{}/{}", kind.group, kind.plural),
    };
    let mut all: HashMap<(String, &str), Vec<ResourceAndKind>> = HashMap::new();
    for kind in kinds {
        for served in &kind.versions {
            for (subresource, names) in names_by_subresource(kind, served) {
                let of_kind = all.entry((identity(kind), subresource)).or_default();
                of_kind.push(names);
            }
        }
    }
    let of_kind = |kind: &Kind| {
        let id = identity(kind);
        let with_equivalents =
            |(subresource, names): (&str, ResourceAndKind)| EquivalentResources {
                equivalents: all
                    .get(&(id.clone(), subresource))
                    .into_iter()
                    .flatten()
                    .filter(|other| other.resource != names.resource)
                    .cloned()
                    .collect(),
                names,
            };
        let versions = kind.versions.iter();
        versions
            .map(|served| {
                names_by_subresource(kind, served)
                    .into_iter()
                    .map(with_equivalents)
                    .collect()
            })
            .collect()
    };
    kinds.iter().map(of_kind).collect()
}

/// The index of a subresource in the lists of `equivalents_by_kind`; 0 is the object itself.
pub fn subresource_index(kind: &Kind, subresource: &str) -> Option<usize> {
    if subresource.is_empty() {
        return Some(0);
    }
    let mut all = kind.subresources.iter();
    Some(1 + all.position(|candidate| candidate.name == subresource)?)
}

/// The names of the object and of each subresource in a version, with the name of the subresource.
fn names_by_subresource<'k>(
    kind: &'k Kind,
    served: &KindVersion,
) -> Vec<(&'k str, ResourceAndKind)> {
    let resource = GroupVersion::new(kind.group.clone(), served.version.clone())
        .with_resource(kind.plural.clone());
    let main_kind = gvk(kind, served);
    let all = kind.subresources.iter();
    std::iter::once(("", None))
        .chain(all.map(|subresource| (&*subresource.name, subresource.object.clone())))
        .map(|(subresource, object)| {
            let names = ResourceAndKind {
                resource: resource.clone(),
                kind: object.unwrap_or_else(|| main_kind.clone()),
            };
            (subresource, names)
        })
        .collect()
}

pub(super) fn gvk(kind: &Kind, served: &KindVersion) -> GroupVersionKind {
    GroupKind::new(kind.group.clone(), kind.name.clone()).with_version(served.version.clone())
}
