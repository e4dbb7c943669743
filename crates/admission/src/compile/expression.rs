//! Writes an exclusion rule as a CEL expression. No expression raises an error: optional fields of `request` (`name`,
//! `namespace`, `subResource`) are used only after `has()`.

use rhumb_meta::GroupVersionResource;

use super::namespace_selector::TranslatedSelector;
use crate::exclusion_rule::ExclusionRule;
use crate::match_attributes::{Operation, is_namespaces_resource};
use crate::rule::{RuleScope, RuleWithOperations, WildcardSet};

/// The field of `request` with the requested resource.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestField {
    Resource,
    /// The same for the conditions of webhooks on a kube-apiserver. With `matchPolicy: Equivalent` it says so, and does
    /// not depend on the server.
    RequestResource,
}

impl RequestField {
    const fn path(self) -> &'static str {
        match self {
            RequestField::Resource => "request.resource",
            RequestField::RequestResource => "request.requestResource",
        }
    }
}

pub(super) struct ExpressionWriter<'a> {
    pub(super) field: RequestField,
    /// Sets of resources that serve the same objects. Empty with `matchPolicy: Exact`.
    pub(super) equivalents: &'a [Vec<GroupVersionResource>],
}

impl ExpressionWriter<'_> {
    /// The condition under which the rule excludes a request; `None` if it never does.
    pub(super) fn rule(
        &self,
        exclusion: &ExclusionRule,
        selector: &TranslatedSelector,
    ) -> Option<String> {
        let rule = exclusion.rule();
        let mut parts = Vec::new();
        parts.extend(operations(rule)?);
        parts.extend(self.resource(rule)?);
        let is_namespaced = exclusion.depends_on_namespace_fields();
        match rule.scope() {
            RuleScope::Unknown => return None,
            RuleScope::Cluster if is_namespaced => return None,
            RuleScope::Cluster => parts.push(format!("!({})", self.namespaced(rule))),
            RuleScope::Namespaced => parts.push(self.namespaced(rule)),
            RuleScope::Any if is_namespaced => parts.push(self.namespaced(rule)),
            RuleScope::Any => {}
        }
        let names: Vec<&str> = exclusion.namespaces().collect();
        if !names.is_empty() {
            parts.push(one_of("request.namespace", &names));
        }
        match selector {
            TranslatedSelector::Never => return None,
            TranslatedSelector::Condition(conditions) => parts.extend(conditions.iter().cloned()),
            TranslatedSelector::Absent | TranslatedSelector::Moved(_) => {}
        }
        let names: Vec<&str> = rule.names().collect();
        if !names.is_empty() {
            parts.push("has(request.name)".to_owned());
            parts.push(one_of("request.name", &names));
        }
        Some(match parts.is_empty() {
            true => "true".to_owned(),
            false => parts.join(" && "),
        })
    }

    /// Whether the object is in a namespace. The namespace of a Namespace is its own name, but it is not in it.
    fn namespaced(&self, rule: &RuleWithOperations) -> String {
        let path = self.field.path();
        let namespaces = GroupVersionResource::new("", "v1", "namespaces");
        let may_be_namespaces = rule.groups().contains(&namespaces.group)
            && rule.versions().contains(&namespaces.version)
            && rule
                .resources()
                .iter()
                .any(|(resource, _)| resource.contains(&namespaces.resource));
        let is_equivalent_to_another = |set: &Vec<GroupVersionResource>| {
            set.len() > 1 && set.iter().any(is_namespaces_resource)
        };
        if may_be_namespaces || self.equivalents.iter().any(is_equivalent_to_another) {
            format!(
                "has(request.namespace) && !({path}.group == \"\" && {path}.resource == \"namespaces\")"
            )
        } else {
            "has(request.namespace)".to_owned()
        }
    }

    /// Group, version, resource and subresource; no text if all match. `None` if none matches.
    fn resource(&self, rule: &RuleWithOperations) -> Option<Option<String>> {
        let path = self.field.path();
        let mut parts = Vec::new();
        parts.extend(set(&format!("{path}.group"), rule.groups()));
        parts.extend(set(&format!("{path}.version"), rule.versions()));
        let patterns = rule.resources();
        if patterns.is_empty() {
            return None;
        }
        parts.extend(self.patterns(patterns));
        if parts.is_empty() {
            return Some(None);
        }
        let mut alternatives = vec![parts.join(" && ")];
        alternatives.extend(self.equivalent_resources(rule));
        Some(Some(any_of(&alternatives)))
    }

    /// Resource patterns such as `pods`, `pods/status` and `*/*`, grouped by subresource. No text if all match.
    fn patterns(&self, patterns: &[(WildcardSet, WildcardSet)]) -> Option<String> {
        let mut by_subresource: Vec<(&WildcardSet, Vec<&WildcardSet>)> = Vec::new();
        for (at, (resource, subresource)) in patterns.iter().enumerate() {
            if is_redundant(patterns, at) {
                continue;
            }
            match by_subresource
                .iter_mut()
                .find(|(known, _)| *known == subresource)
            {
                Some((_, resources)) => resources.push(resource),
                None => by_subresource.push((subresource, vec![resource])),
            }
        }
        let path = format!("{}.resource", self.field.path());
        let mut alternatives = Vec::new();
        for (subresource, resources) in by_subresource {
            let words = resources.iter().map(|resource| resource.words());
            let words: Option<Vec<&[Box<str>]>> = words.collect();
            let words = words.map(|words| words.concat());
            let resource = words.map(|words| {
                let words: Vec<&str> = words.iter().map(|word| &**word).collect();
                one_of(&path, &words)
            });
            let parts: Vec<String> = resource
                .into_iter()
                .chain(is_subresource(subresource))
                .collect();
            if parts.is_empty() {
                return None;
            }
            alternatives.push(parts.join(" && "));
        }
        Some(any_of(&alternatives))
    }

    /// The resources that the rule does not name, but which serve the objects of one that it names.
    fn equivalent_resources(&self, rule: &RuleWithOperations) -> Vec<String> {
        let path = self.field.path();
        let mut alternatives = Vec::new();
        for set in self.equivalents.iter().filter(|set| set.len() > 1) {
            for requested in set {
                let own = subresources(rule, requested);
                let mut through_others: Vec<&WildcardSet> = Vec::new();
                for other in set.iter().filter(|other| *other != requested) {
                    for subresource in subresources(rule, other) {
                        let is_known = own
                            .iter()
                            .chain(&through_others)
                            .any(|it| it.covers(subresource));
                        if !is_known {
                            through_others.push(subresource);
                        }
                    }
                }
                for subresource in through_others {
                    let mut parts = vec![
                        format!("{path}.group == {}", quoted(&requested.group)),
                        format!("{path}.version == {}", quoted(&requested.version)),
                        format!("{path}.resource == {}", quoted(&requested.resource)),
                    ];
                    parts.extend(is_subresource(subresource));
                    alternatives.push(parts.join(" && "));
                }
            }
        }
        alternatives
    }
}

/// Whether another pattern includes the one at this index, as `pods/*` includes `pods`.
fn is_redundant(patterns: &[(WildcardSet, WildcardSet)], at: usize) -> bool {
    let (resource, subresource) = &patterns[at];
    let mut others = patterns.iter().enumerate();
    others.any(|(other, (others_resource, others_subresource))| {
        let is_covered = others_resource.covers(resource) && others_subresource.covers(subresource);
        let is_equal = others_resource == resource && others_subresource == subresource;
        is_covered && (!is_equal || other < at)
    })
}

/// The subresources with which a rule matches a resource.
fn subresources<'r>(
    rule: &'r RuleWithOperations,
    resource: &GroupVersionResource,
) -> Vec<&'r WildcardSet> {
    if !(rule.groups().contains(&resource.group) && rule.versions().contains(&resource.version)) {
        return Vec::new();
    }
    let patterns = rule.resources().iter();
    patterns
        .filter(|(own, _)| own.contains(&resource.resource))
        .map(|(_, subresource)| subresource)
        .collect()
}

/// No text if all subresources match, and requests without one.
fn is_subresource(subresource: &WildcardSet) -> Option<String> {
    let words = subresource.words()?;
    Some(match words {
        [none] if none.is_empty() => "!has(request.subResource)".to_owned(),
        words => {
            let words: Vec<&str> = words.iter().map(|word| &**word).collect();
            format!(
                "has(request.subResource) && {}",
                one_of("request.subResource", &words)
            )
        }
    })
}

/// No text if all operations match; `None` if none does.
fn operations(rule: &RuleWithOperations) -> Option<Option<String>> {
    let names: Vec<&str> = rule.operations().map(Operation::as_str).collect();
    match names.len() {
        0 => None,
        all if all == Operation::ALL.len() => Some(None),
        _ => Some(Some(one_of("request.operation", &names))),
    }
}

/// No text if all values match.
fn set(path: &str, set: &WildcardSet) -> Option<String> {
    let words = set.words()?;
    let words: Vec<&str> = words.iter().map(|word| &**word).collect();
    Some(one_of(path, &words))
}

/// `path == "a"`, or `path in ["a", "b"]`
pub(super) fn one_of(path: &str, values: &[&str]) -> String {
    match values {
        [value] => format!("{path} == {}", quoted(value)),
        values => {
            let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            format!("{path} in [{}]", values.join(", "))
        }
    }
}

/// `&&` binds tighter than `||`, so the alternatives need no parentheses.
fn any_of(alternatives: &[String]) -> String {
    match alternatives {
        [only] => only.clone(),
        several => format!("({})", several.join(" || ")),
    }
}

/// A CEL string literal. JSON's escapes are valid in CEL.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
