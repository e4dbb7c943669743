//! PolicyRule: the rules of roles, and whether they allow a request (upstream: `rbac.RuleAllows`).

use std::fmt;

use rhumb_meta::gotext::quote;
use serde::{Deserialize, Deserializer, Serialize};

use crate::authz::Attributes;

/// One of a role's `rules`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub api_groups: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_names: Vec<String>,
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resources: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub verbs: Vec<String>,
}

/// Deserializes `null` as the default value, as the API does.
pub(super) fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl PolicyRule {
    /// Whether this rule alone allows the request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, attributes.verb) {
            return false;
        }
        if !attributes.is_resource {
            return self
                .non_resource_urls
                .iter()
                .any(|url| url_covers(url, attributes.path));
        }
        has_or_all(&self.api_groups, attributes.api_group)
            && self
                .resources
                .iter()
                .any(|own| resource_matches(own, attributes.resource, attributes.subresource))
            && (self.resource_names.is_empty()
                || self.resource_names.iter().any(|own| own == attributes.name))
    }
}

fn has_or_all(own: &[String], requested: &str) -> bool {
    own.iter().any(|own| own == requested || own == "*")
}

/// Whether a rule's resource (`pods`, `pods/log`, `*/scale`, `*`) matches the requested resource.
fn resource_matches(own: &str, resource: &str, subresource: &str) -> bool {
    if own == "*" {
        return true;
    }
    if subresource.is_empty() {
        return own == resource;
    }
    let Some(rest) = own
        .strip_suffix(subresource)
        .and_then(|it| it.strip_suffix('/'))
    else {
        return false;
    };
    rest == resource || rest == "*"
}

/// Whether a rule's path, which may end in `*`, covers another path.
pub(super) fn url_covers(own: &str, requested: &str) -> bool {
    own == requested || (own.ends_with('*') && requested.starts_with(own.trim_end_matches('*')))
}

/// The format of rules in error messages: `{APIGroups:[""], Resources:["pods"], Verbs:["list"]}`.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        f.write_str("{")?;
        let mut separator = "";
        for (name, values) in parts.into_iter().filter(|(_, values)| !values.is_empty()) {
            write!(f, "{separator}{name}:{}", QuotedList(values))?;
            separator = ", ";
        }
        f.write_str("}")
    }
}

/// A list of strings as Go's `%q` prints it.
pub(crate) struct QuotedList<'a>(pub(crate) &'a [String]);

impl fmt::Display for QuotedList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, value) in self.0.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}", quote(value))?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::User;

    fn words(text: &str) -> Vec<String> {
        let word = |word: &str| {
            if word == "core" {
                String::new()
            } else {
                word.to_owned()
            }
        };
        text.split_whitespace().map(word).collect()
    }

    #[test]
    fn rule_allows_named_resources() {
        let cases = [
            // verbs, groups, resources, names; verb, group, resource/subresource, name; allowed
            (["get", "core", "pods", ""], ["get", "", "pods", "a"], true),
            (["get", "core", "pods", ""], ["list", "", "pods", ""], false),
            (
                ["get", "core", "pods", ""],
                ["get", "apps", "pods", ""],
                false,
            ),
            (["*", "*", "*", ""], ["any", "apps", "x/y", "z"], true),
            (
                ["get", "core", "pods", ""],
                ["get", "", "pods/log", "a"],
                false,
            ),
            (
                ["get", "core", "pods/log", ""],
                ["get", "", "pods/log", "a"],
                true,
            ),
            (
                ["get", "core", "pods/log", ""],
                ["get", "", "pods", "a"],
                false,
            ),
            (
                ["get", "*", "*/scale", ""],
                ["get", "apps", "deployments/scale", "a"],
                true,
            ),
            (
                ["get", "*", "*/scale", ""],
                ["get", "apps", "deployments", "a"],
                false,
            ),
            (
                ["get", "*", "*/scale", ""],
                ["get", "apps", "deployments/upscale", "a"],
                false,
            ),
            (
                ["get", "*", "x/*", ""],
                ["get", "apps", "x/scale", "a"],
                false,
            ),
            (
                ["get", "core", "pods", "a b"],
                ["get", "", "pods", "b"],
                true,
            ),
            (
                ["get", "core", "pods", "a b"],
                ["get", "", "pods", "c"],
                false,
            ),
            (
                ["list", "core", "pods", "a"],
                ["list", "", "pods", ""],
                false,
            ),
            (["get", "core", "ods", ""], ["get", "", "pods", ""], false),
        ];
        let ann = User::new("ann", &[]);
        for ([verbs, groups, resources, names], [verb, group, resource, name], want) in cases {
            let rule = PolicyRule {
                verbs: words(verbs),
                api_groups: words(groups),
                resources: words(resources),
                resource_names: words(names),
                ..PolicyRule::default()
            };
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let attributes = Attributes {
                subresource,
                name,
                ..Attributes::resource(&ann, verb, group, resource)
            };
            assert_eq!(rule.allows(&attributes), want, "{rule} {attributes:?}");
        }
    }

    #[test]
    fn rule_allows_non_resource_urls() {
        let cases = [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/etcd", false),
            ("/healthz/*", "/healthz/etcd", true),
            ("/healthz/*", "/healthz", false),
            ("/healthz*", "/healthz", true),
            ("*", "/any", true),
            ("/api*", "/apis/apps", true),
        ];
        let ann = User::new("ann", &[]);
        for (url, path, want) in cases {
            let rule = PolicyRule {
                verbs: words("get"),
                non_resource_urls: words(url),
                ..PolicyRule::default()
            };
            let allows = |verb| rule.allows(&Attributes::path(&ann, verb, path));
            assert_eq!(allows("get"), want, "{url} {path}");
            assert!(!allows("post"));
        }
    }

    #[test]
    fn rule_display_matches_upstream() {
        let rule = PolicyRule {
            verbs: words("get list"),
            api_groups: words("core apps"),
            resources: words("pods"),
            resource_names: words("a"),
            ..PolicyRule::default()
        };
        assert_eq!(
            rule.to_string(),
            r#"{APIGroups:["" "apps"], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}"#
        );
    }
}
