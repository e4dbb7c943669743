//! What a webhook or a policy leaves out although its rules are about it.

use rhumb_meta::GroupVersionResource;
use rhumb_meta::labels::{LabelSelector, Selector};
use serde_json::Value;

use crate::facts::{Facts, LabelSets};
use crate::rule::{Absent, Rule};

/// A rule whose requests are not seen. What it leaves open is everything: an absent list of groups, versions,
/// operations or resources, of names and of namespaces.
#[derive(Debug, Clone)]
pub struct Exclusion {
    rule: Rule,
    namespaces: Box<[Box<str>]>,
    /// `None` if namespaces are not chosen by their labels.
    selector: Option<Selector>,
}

impl Exclusion {
    pub(crate) fn read(rule: &Value) -> Exclusion {
        let selector = rule.get("namespaceSelector").filter(|it| !it.is_null());
        Exclusion {
            rule: Rule::read(rule, Absent::MeansAll),
            namespaces: rule["namespaces"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(Into::into)
                .collect(),
            // What cannot be read chooses nothing: in doubt the request is seen.
            selector: selector.map(|it| read_selector(it).unwrap_or_else(|_| Selector::nothing())),
        }
    }

    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Those it names; none if it is about all.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(|name| &**name)
    }

    /// Whether it has what only rhumb knows.
    pub(crate) fn is_extended(rule: &Value) -> bool {
        let has_names = rule["namespaces"]
            .as_array()
            .is_some_and(|it| !it.is_empty());
        has_names
            || rule
                .get("namespaceSelector")
                .is_some_and(|it| !it.is_null())
    }

    /// Whether it leaves out this write, if that were about `resource`.
    pub(crate) fn matches(
        &self,
        facts: &Facts<'_>,
        labels: &LabelSets<'_>,
        resource: &GroupVersionResource,
    ) -> bool {
        self.rule.matches(facts, resource) && self.matches_namespace(facts, labels)
    }

    /// Who names namespaces means what is in them: nothing outside of namespaces, and not the namespaces themselves.
    fn matches_namespace(&self, facts: &Facts<'_>, labels: &LabelSets<'_>) -> bool {
        if self.namespaces.is_empty() && self.selector.is_none() {
            return true;
        }
        if !facts.is_namespaced() {
            return false;
        }
        let is_named = self.namespaces.is_empty()
            || self
                .namespaces
                .iter()
                .any(|name| **name == *facts.namespace);
        let is_selected = || match (&self.selector, labels.namespace) {
            (None, _) => true,
            (Some(selector), _) if selector.is_everything() => true,
            (Some(selector), Ok(labels)) => selector.matches(labels),
            (Some(_), Err(_)) => false,
        };
        is_named && is_selected()
    }

    /// Whether it is about some namespaces only.
    pub(crate) fn tells_namespaces_apart(&self) -> bool {
        !self.namespaces.is_empty() || self.needs_namespace()
    }

    /// Whether labels of namespaces are asked for.
    pub(crate) fn needs_namespace(&self) -> bool {
        self.selector.as_ref().is_some_and(|it| !it.is_everything())
    }
}

pub(crate) fn read_selector(selector: &Value) -> Result<Selector, String> {
    let selector: LabelSelector =
        serde_json::from_value(selector.clone()).map_err(|error| error.to_string())?;
    LabelSelector::to_selector(Some(&selector)).map_err(|error| error.to_string())
}
