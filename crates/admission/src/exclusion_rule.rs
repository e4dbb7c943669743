//! `excludeResourceRules`: requests that a webhook or policy does not see although its rules match.

use rhumb_meta::GroupVersionResource;
use rhumb_meta::labels::{LabelSelector, Selector};
use serde_json::Value;

use crate::match_attributes::{MatchAttributes, SelectorLabels};
use crate::rule::{OmittedListMeaning, RuleWithOperations};

/// An exclusion rule. An absent list of groups, versions, operations, resources, names or namespaces means all.
#[derive(Debug, Clone)]
pub struct ExclusionRule {
    rule: RuleWithOperations,
    namespaces: Box<[Box<str>]>,
    /// `None` if the rule has no `namespaceSelector`.
    namespace_selector: Option<Selector>,
}

impl ExclusionRule {
    pub(crate) fn from_json(rule: &Value) -> ExclusionRule {
        let selector = rule.get("namespaceSelector").filter(|it| !it.is_null());
        ExclusionRule {
            rule: RuleWithOperations::from_json(rule, OmittedListMeaning::Everything),
            namespaces: rule["namespaces"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(Into::into)
                .collect(),
            // An invalid selector matches nothing: in doubt the request is not excluded.
            namespace_selector: selector
                .map(|it| parse_selector(it).unwrap_or_else(|_| Selector::nothing())),
        }
    }

    pub(crate) fn rule(&self) -> &RuleWithOperations {
        &self.rule
    }

    /// The namespaces it names; empty if it applies to all.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(|name| &**name)
    }

    /// `None` if it has no `namespaceSelector`.
    pub(crate) fn namespace_selector(&self) -> Option<&Selector> {
        self.namespace_selector.as_ref()
    }

    /// Whether the rule uses `namespaces` or `namespaceSelector`, which are rhumb's extensions to upstream's rules.
    pub fn uses_namespace_fields(rule: &Value) -> bool {
        let has_names = rule["namespaces"]
            .as_array()
            .is_some_and(|it| !it.is_empty());
        has_names
            || rule
                .get("namespaceSelector")
                .is_some_and(|it| !it.is_null())
    }

    /// Whether it excludes this request, taken as a request for `resource`.
    pub(crate) fn matches(
        &self,
        attributes: &MatchAttributes<'_>,
        labels: &SelectorLabels<'_>,
        resource: &GroupVersionResource,
    ) -> bool {
        self.rule.matches(attributes, resource) && self.matches_namespace(attributes, labels)
    }

    /// A rule that names namespaces applies to the objects in them: not to cluster-scoped objects, and not to the
    /// namespaces themselves.
    fn matches_namespace(
        &self,
        attributes: &MatchAttributes<'_>,
        labels: &SelectorLabels<'_>,
    ) -> bool {
        if !self.depends_on_namespace_fields() {
            return true;
        }
        if !attributes.is_namespaced() {
            return false;
        }
        let is_named = self.namespaces.is_empty()
            || self
                .namespaces
                .iter()
                .any(|name| **name == *attributes.namespace);
        let is_selected = || match (&self.namespace_selector, labels.namespace) {
            (None, _) => true,
            (Some(selector), _) if selector.is_everything() => true,
            (Some(selector), Ok(labels)) => selector.matches(labels),
            (Some(_), Err(_)) => false,
        };
        is_named && is_selected()
    }

    /// Whether it has `namespaces` or a `namespaceSelector`, and so applies only to objects in namespaces.
    pub(crate) fn depends_on_namespace_fields(&self) -> bool {
        !self.namespaces.is_empty() || self.namespace_selector.is_some()
    }

    /// Whether it applies to some namespaces only.
    pub(crate) fn depends_on_namespace(&self) -> bool {
        !self.namespaces.is_empty() || self.needs_namespace_labels()
    }

    /// Whether matching needs the labels of the namespace.
    pub(crate) fn needs_namespace_labels(&self) -> bool {
        self.namespace_selector
            .as_ref()
            .is_some_and(|it| !it.is_everything())
    }
}

pub(crate) fn parse_selector(selector: &Value) -> Result<Selector, String> {
    let selector: LabelSelector =
        serde_json::from_value(selector.clone()).map_err(|error| error.to_string())?;
    LabelSelector::to_selector(Some(&selector)).map_err(|error| error.to_string())
}
