//! What OpenAPI calls groups, kinds and types.

use rhumb_api::Kind;
use rhumb_meta::GroupVersionKind;

/// A type that every API server has, by its last name.
pub(crate) fn meta(name: &str) -> String {
    format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")
}

/// The path below which a version of a group is served, without a slash in front.
pub(crate) fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// A group as a part of an operation's id: `Core`, `RbacAuthorization`.
pub(crate) fn group_in_id(group: &str) -> String {
    words(group).map(capital).collect()
}

/// A group as a tag: `core`, `rbacAuthorization`.
pub(crate) fn group_tag(group: &str) -> String {
    let mut words = words(group);
    let first = words.next().unwrap_or_default().to_string();
    words.fold(first, |tag, word| tag + &capital(word))
}

fn words(group: &str) -> impl Iterator<Item = &str> {
    let group = match group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    };
    group.split(['.', '-'])
}

pub(crate) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
        .unwrap_or_default()
}

/// The type of objects that a subresource takes and gives, if it is not the kind itself.
pub(crate) fn type_of(kinds: &[Kind], gvk: &GroupVersionKind) -> String {
    let served = kinds
        .iter()
        .filter(|kind| kind.group == gvk.group && kind.name == gvk.kind)
        .find_map(|kind| kind.served(&gvk.version));
    match served {
        Some(served) => served.schema.to_string(),
        None => {
            let group = words(&gvk.group).next().unwrap_or_default();
            format!("io.k8s.api.{group}.{}.{}", gvk.version, gvk.kind)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_words_in_ids_and_tags() {
        for (group, in_id, tag) in [
            ("", "Core", "core"),
            ("apps", "Apps", "apps"),
            (
                "rbac.authorization.k8s.io",
                "RbacAuthorization",
                "rbacAuthorization",
            ),
            (
                "flowcontrol.apiserver.k8s.io",
                "FlowcontrolApiserver",
                "flowcontrolApiserver",
            ),
            ("stable.example.com", "StableExampleCom", "stableExampleCom"),
        ] {
            assert_eq!(group_in_id(group), in_id);
            assert_eq!(group_tag(group), tag);
        }
    }
}
