//! Names of groups, kinds and types in OpenAPI documents: operation ids, tags, schema names.

use rhumb_api::Kind;
use rhumb_meta::GroupVersionKind;

/// The schema name of a meta/v1 type.
pub(crate) fn meta_v1_type(name: &str) -> String {
    format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")
}

/// The path prefix of a group version, without a leading slash.
pub(crate) fn group_version_root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// A group within an operation id: `Core`, `RbacAuthorization`.
pub(crate) fn group_operation_id(group: &str) -> String {
    group_words(group).map(capitalize).collect()
}

/// A group as a tag: `core`, `rbacAuthorization`.
pub(crate) fn group_tag(group: &str) -> String {
    let mut words = group_words(group);
    let first = words.next().unwrap_or_default().to_string();
    words.fold(first, |tag, word| tag + &capitalize(word))
}

fn group_words(group: &str) -> impl Iterator<Item = &str> {
    let group = match group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    };
    group.split(['.', '-'])
}

pub(crate) fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
        .unwrap_or_default()
}

/// The schema name of a kind, from the kind list or else by upstream's naming scheme.
pub(crate) fn schema_name(kinds: &[Kind], gvk: &GroupVersionKind) -> String {
    let served = kinds
        .iter()
        .filter(|kind| kind.group == gvk.group && kind.name == gvk.kind)
        .find_map(|kind| kind.served_version(&gvk.version));
    match served {
        Some(served) => served.schema.to_string(),
        None => {
            let group = group_words(&gvk.group).next().unwrap_or_default();
            format!("io.k8s.api.{group}.{}.{}", gvk.version, gvk.kind)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_names_in_ids_and_tags_match_upstream() {
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
            assert_eq!(group_operation_id(group), in_id);
            assert_eq!(group_tag(group), tag);
        }
    }
}
