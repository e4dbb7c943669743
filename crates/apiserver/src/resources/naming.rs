//! All names of everything that may be asked for.

use std::collections::HashMap;

use rhumb_admission::Names;
use rhumb_api::{Kind, Served};
use rhumb_meta::{GroupKind, GroupVersion, GroupVersionKind};

/// The names of what a path leads to.
#[derive(Debug, Clone)]
pub struct Asked {
    pub names: Names,
    /// The names of other paths that lead to the same: other versions, other groups.
    pub equivalents: Vec<Names>,
}

/// What may be asked for in each version of each kind: the object, then its subresources in their order. Objects that
/// are stored in one place are the same objects.
pub fn name_all(kinds: &[Kind]) -> Vec<Vec<Vec<Asked>>> {
    let identity = |kind: &Kind| match &kind.storage {
        Some(path) => path.to_string(),
        None => format!("{}/{}", kind.group, kind.plural),
    };
    let mut all: HashMap<(String, &'static str), Vec<Names>> = HashMap::new();
    for kind in kinds {
        for served in &kind.versions {
            for (subresource, names) in names(kind, served) {
                let same = all.entry((identity(kind), subresource)).or_default();
                same.push(names);
            }
        }
    }
    let of_kind = |kind: &Kind| {
        let id = identity(kind);
        let asked = |(subresource, names): (&'static str, Names)| Asked {
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
            .map(|served| names(kind, served).into_iter().map(asked).collect())
            .collect()
    };
    kinds.iter().map(of_kind).collect()
}

/// Where a subresource is among all that may be asked for of a kind.
pub fn place(kind: &Kind, subresource: &str) -> Option<usize> {
    if subresource.is_empty() {
        return Some(0);
    }
    let mut all = kind.subresources.iter();
    Some(1 + all.position(|known| known.name == subresource)?)
}

/// What names each thing that may be asked for in a version.
fn names(kind: &Kind, served: &Served) -> Vec<(&'static str, Names)> {
    let resource = GroupVersion::new(kind.group.clone(), served.version.clone())
        .with_resource(kind.plural.clone());
    let own = gvk(kind, served);
    let all = kind.subresources.iter();
    std::iter::once(("", None))
        .chain(all.map(|subresource| (subresource.name, subresource.object.clone())))
        .map(|(subresource, object)| {
            let names = Names {
                resource: resource.clone(),
                kind: object.unwrap_or_else(|| own.clone()),
            };
            (subresource, names)
        })
        .collect()
}

pub(super) fn gvk(kind: &Kind, served: &Served) -> GroupVersionKind {
    GroupKind::new(kind.group.clone(), kind.name.clone()).with_version(served.version.clone())
}
