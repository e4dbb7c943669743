//! Operations on resources.

use rhumb_meta::GroupVersionResource;
use serde_json::Value;

use crate::facts::{Facts, Operation, is_namespaces};

/// A list in which a star stands for everything.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Words {
    Any,
    Only(Box<[Box<str>]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
    /// One that nobody knows: no request has it.
    Unknown,
}

/// What a rule makes of a list that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    MeansAll,
    MeansNone,
}

/// Operations on resources, and names of objects where those are given.
#[derive(Debug, Clone)]
pub struct Rule {
    operations: u8,
    groups: Words,
    versions: Words,
    /// Each with its subresource.
    resources: Box<[(Words, Words)]>,
    scope: Scope,
    /// All of them if there is none.
    names: Box<[Box<str>]>,
}

impl Rule {
    /// What the JSON of a rule says. What is no text is not there.
    pub(crate) fn read(rule: &Value, absent: Absent) -> Rule {
        Rule {
            operations: read_operations(&rule["operations"], absent),
            groups: Words::read(&rule["apiGroups"], absent),
            versions: Words::read(&rule["apiVersions"], absent),
            resources: read_resources(&rule["resources"], absent),
            scope: match rule["scope"].as_str() {
                None | Some("" | "*") => Scope::Any,
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                Some(_) => Scope::Unknown,
            },
            names: texts(&rule["resourceNames"]).map(Into::into).collect(),
        }
    }

    /// Whether it is about this write, if that were about `resource`.
    pub(crate) fn matches(&self, facts: &Facts<'_>, resource: &GroupVersionResource) -> bool {
        self.operations & bit(facts.operation) != 0
            && self.matches_resource(resource, facts.subresource)
            && self.matches_scope(facts, resource)
            && self.matches_name(facts.name)
    }

    /// The names it gives; none if it is about all.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn matches_resource(
        &self,
        resource: &GroupVersionResource,
        subresource: &str,
    ) -> bool {
        self.groups.has(&resource.group)
            && self.versions.has(&resource.version)
            && self
                .resources
                .iter()
                .any(|(own, sub)| own.has(&resource.resource) && sub.has(subresource))
    }

    /// A namespace has its own name as its namespace, and is not in one.
    fn matches_scope(&self, facts: &Facts<'_>, resource: &GroupVersionResource) -> bool {
        let is_namespaced = || !is_namespaces(resource) && !facts.namespace.is_empty();
        match self.scope {
            Scope::Any => true,
            Scope::Namespaced => is_namespaced(),
            Scope::Cluster => !is_namespaced(),
            Scope::Unknown => false,
        }
    }

    /// A name that nobody knows yet is none of those that are given.
    fn matches_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|known| **known == *name)
    }
}

impl Words {
    fn read(list: &Value, absent: Absent) -> Words {
        let words: Box<[Box<str>]> = texts(list).map(Into::into).collect();
        let is_all = words.is_empty() && absent == Absent::MeansAll;
        if is_all || words.iter().any(|word| &**word == "*") {
            Words::Any
        } else {
            Words::Only(words)
        }
    }

    fn of(word: &str) -> Words {
        match word {
            "*" => Words::Any,
            word => Words::Only([word.into()].into()),
        }
    }

    fn has(&self, word: &str) -> bool {
        match self {
            Words::Any => true,
            Words::Only(words) => words.iter().any(|known| **known == *word),
        }
    }
}

fn read_operations(list: &Value, absent: Absent) -> u8 {
    const ALL: u8 = 0b1111;
    if absent == Absent::MeansAll && texts(list).next().is_none() {
        return ALL;
    }
    texts(list).fold(0, |known, name| match name {
        "*" => ALL,
        name => known | Operation::named(name).map_or(0, bit),
    })
}

/// Without a subresource, only the resource itself is meant; `*` is all resources and none of their subresources.
fn read_resources(list: &Value, absent: Absent) -> Box<[(Words, Words)]> {
    let patterns: Box<[(Words, Words)]> = texts(list)
        .map(|pattern| {
            let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
            (Words::of(resource), Words::of(subresource))
        })
        .collect();
    if patterns.is_empty() && absent == Absent::MeansAll {
        return [(Words::Any, Words::of(""))].into();
    }
    patterns
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

const fn bit(operation: Operation) -> u8 {
    1 << operation as u8
}
