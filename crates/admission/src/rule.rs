//! A rule of a webhook or policy: operations on resources (upstream: `RuleWithOperations`, `predicates/rules.Matcher`).

use rhumb_meta::GroupVersionResource;
use serde_json::Value;

use crate::match_attributes::{MatchAttributes, Operation, is_namespaces_resource};

/// A list in which `*` matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WildcardSet {
    Any,
    Only(Box<[Box<str>]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleScope {
    Any,
    Cluster,
    Namespaced,
    /// An unknown scope, which no request has.
    Unknown,
}

/// What an absent list in a rule means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OmittedListMeaning {
    Everything,
    Nothing,
}

/// Operations on resources, optionally restricted by object names.
#[derive(Debug, Clone)]
pub struct RuleWithOperations {
    operations: u8,
    groups: WildcardSet,
    versions: WildcardSet,
    /// Pairs of resource and subresource.
    resources: Box<[(WildcardSet, WildcardSet)]>,
    scope: RuleScope,
    /// `resourceNames`; empty for all.
    names: Box<[Box<str>]>,
}

impl RuleWithOperations {
    /// Parses a rule. Values of another JSON type count as absent.
    pub(crate) fn from_json(rule: &Value, absent: OmittedListMeaning) -> RuleWithOperations {
        RuleWithOperations {
            operations: parse_operations(&rule["operations"], absent),
            groups: WildcardSet::from_json(&rule["apiGroups"], absent),
            versions: WildcardSet::from_json(&rule["apiVersions"], absent),
            resources: parse_resources(&rule["resources"], absent),
            scope: match rule["scope"].as_str() {
                None | Some("" | "*") => RuleScope::Any,
                Some("Cluster") => RuleScope::Cluster,
                Some("Namespaced") => RuleScope::Namespaced,
                Some(_) => RuleScope::Unknown,
            },
            names: strings(&rule["resourceNames"]).map(Into::into).collect(),
        }
    }

    /// Whether it matches this request, taken as a request for `resource`.
    pub(crate) fn matches(
        &self,
        attributes: &MatchAttributes<'_>,
        resource: &GroupVersionResource,
    ) -> bool {
        self.has_operation(attributes.operation)
            && self.matches_resource(resource, attributes.subresource)
            && self.matches_scope(attributes, resource)
            && self.matches_name(attributes.name)
    }

    pub(crate) fn has_operation(&self, operation: Operation) -> bool {
        self.operations & operation_bit(operation) != 0
    }

    /// Whether its scope admits objects of this resource.
    pub(crate) fn has_scope_of(
        &self,
        resource: &GroupVersionResource,
        is_namespaced: bool,
    ) -> bool {
        let is_namespaced = is_namespaced && !is_namespaces_resource(resource);
        match self.scope {
            RuleScope::Any => true,
            RuleScope::Namespaced => is_namespaced,
            RuleScope::Cluster => !is_namespaced,
            RuleScope::Unknown => false,
        }
    }

    /// The object names it is restricted to; empty if it applies to all.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn groups(&self) -> &WildcardSet {
        &self.groups
    }

    pub(crate) fn versions(&self) -> &WildcardSet {
        &self.versions
    }

    /// Pairs of resource and subresource.
    pub(crate) fn resources(&self) -> &[(WildcardSet, WildcardSet)] {
        &self.resources
    }

    pub(crate) fn scope(&self) -> RuleScope {
        self.scope
    }

    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation> {
        let all = Operation::ALL.into_iter();
        all.filter(|operation| self.operations & operation_bit(*operation) != 0)
    }

    pub(crate) fn matches_resource(
        &self,
        resource: &GroupVersionResource,
        subresource: &str,
    ) -> bool {
        self.groups.contains(&resource.group)
            && self.versions.contains(&resource.version)
            && self
                .resources
                .iter()
                .any(|(own, sub)| own.contains(&resource.resource) && sub.contains(subresource))
    }

    /// A request for a namespace has the namespace's own name as its namespace, but is cluster-scoped.
    fn matches_scope(
        &self,
        attributes: &MatchAttributes<'_>,
        resource: &GroupVersionResource,
    ) -> bool {
        let is_namespaced =
            || !is_namespaces_resource(resource) && !attributes.namespace.is_empty();
        match self.scope {
            RuleScope::Any => true,
            RuleScope::Namespaced => is_namespaced(),
            RuleScope::Cluster => !is_namespaced(),
            RuleScope::Unknown => false,
        }
    }

    /// A name that is not known yet (`generateName`) matches none of the given names.
    fn matches_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|known| **known == *name)
    }
}

impl WildcardSet {
    fn from_json(list: &Value, absent: OmittedListMeaning) -> WildcardSet {
        let words: Box<[Box<str>]> = strings(list).map(Into::into).collect();
        let is_all = words.is_empty() && absent == OmittedListMeaning::Everything;
        if is_all || words.iter().any(|word| &**word == "*") {
            WildcardSet::Any
        } else {
            WildcardSet::Only(words)
        }
    }

    fn single(word: &str) -> WildcardSet {
        match word {
            "*" => WildcardSet::Any,
            word => WildcardSet::Only([word.into()].into()),
        }
    }

    pub(crate) fn contains(&self, word: &str) -> bool {
        match self {
            WildcardSet::Any => true,
            WildcardSet::Only(words) => words.iter().any(|known| **known == *word),
        }
    }

    /// The values; `None` if it contains everything.
    pub(crate) fn words(&self) -> Option<&[Box<str>]> {
        match self {
            WildcardSet::Any => None,
            WildcardSet::Only(words) => Some(words),
        }
    }

    /// Whether it contains everything that the other contains.
    pub(crate) fn covers(&self, other: &WildcardSet) -> bool {
        match (self, other) {
            (WildcardSet::Any, _) => true,
            (WildcardSet::Only(_), WildcardSet::Any) => false,
            (_, WildcardSet::Only(words)) => words.iter().all(|word| self.contains(word)),
        }
    }
}

fn parse_operations(list: &Value, absent: OmittedListMeaning) -> u8 {
    const ALL: u8 = 0b1111;
    if absent == OmittedListMeaning::Everything && strings(list).next().is_none() {
        return ALL;
    }
    strings(list).fold(0, |known, name| match name {
        "*" => ALL,
        name => known | Operation::from_name(name).map_or(0, operation_bit),
    })
}

/// Without a subresource, only the resource itself matches; `*` means all resources but no subresources.
fn parse_resources(list: &Value, absent: OmittedListMeaning) -> Box<[(WildcardSet, WildcardSet)]> {
    let patterns: Box<[(WildcardSet, WildcardSet)]> = strings(list)
        .map(|pattern| {
            let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
            (
                WildcardSet::single(resource),
                WildcardSet::single(subresource),
            )
        })
        .collect();
    if patterns.is_empty() && absent == OmittedListMeaning::Everything {
        return [(WildcardSet::Any, WildcardSet::single(""))].into();
    }
    patterns
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

const fn operation_bit(operation: Operation) -> u8 {
    1 << operation as u8
}
