//! Decides whether a webhook, policy or binding matches a request: rules, exclusion rules and selectors (upstream
//! packages `webhook/predicates` and `policy/matching`).

use std::collections::BTreeMap;

use rhumb_meta::labels::Selector;
use rhumb_meta::{GroupVersionResource, Status};
use serde_json::Value;

use crate::exclusion_rule::{ExclusionRule, parse_selector};
use crate::match_attributes::{MatchAttributes, Operation, ResourceAndKind, SelectorLabels};
use crate::rule::{OmittedListMeaning, RuleWithOperations};

/// Feature gates that affect parsing.
#[derive(Debug, Clone, Copy)]
pub struct CriteriaFeatures {
    /// Whether exclusion rules of webhooks, and those of policies that name namespaces, are honoured. If not, such a
    /// rule is ignored as a whole.
    pub exclusion_rules: bool,
}

/// The rules, exclusion rules and selectors of a webhook, policy or binding.
#[derive(Debug, Clone)]
pub struct MatchCriteria {
    rules: Vec<RuleWithOperations>,
    /// Matches all resources: a binding without rules.
    matches_all_resources: bool,
    exclusions: Vec<ExclusionRule>,
    /// `matchPolicy: Equivalent`: rules may also match other group-versions of the same objects.
    match_equivalent: bool,
    namespace_selector: Result<Selector, String>,
    object_selector: Result<Selector, String>,
}

/// Whether a request matches, and if not, why.
#[derive(Debug, Clone, PartialEq)]
pub enum MatchOutcome {
    /// It matches, as this resource and kind.
    Matched(ResourceAndKind),
    /// A rule matches, but this exclusion rule excludes it.
    Excluded {
        rule: usize,
    },
    NoRule,
    NamespaceNotSelected,
    ObjectNotSelected,
    /// A rule matches, but a selector could not be evaluated.
    Failed(Status),
}

impl MatchCriteria {
    /// The criteria of a webhook.
    pub(crate) fn of_webhook(webhook: &Value, reading: CriteriaFeatures) -> MatchCriteria {
        MatchCriteria::parse(webhook, &webhook["rules"], |_| reading.exclusion_rules)
    }

    /// The `matchConstraints` of a policy.
    pub fn of_policy(matching: &Value, reading: CriteriaFeatures) -> MatchCriteria {
        let is_read =
            |rule: &Value| reading.exclusion_rules || !ExclusionRule::uses_namespace_fields(rule);
        MatchCriteria::parse(matching, &matching["resourceRules"], is_read)
    }

    /// The `matchResources` of a binding: without rules, it matches all that its policy matches.
    pub fn of_binding(matching: &Value, reading: CriteriaFeatures) -> MatchCriteria {
        let criteria = MatchCriteria::of_policy(matching, reading);
        MatchCriteria {
            matches_all_resources: criteria.rules.is_empty(),
            ..criteria
        }
    }

    fn parse(matching: &Value, rules: &Value, is_read: impl Fn(&Value) -> bool) -> MatchCriteria {
        let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let selector = |name: &str| match matching.get(name) {
            None | Some(Value::Null) => Ok(Selector::everything()),
            Some(selector) => parse_selector(selector),
        };
        MatchCriteria {
            rules: items(rules)
                .iter()
                .map(|rule| RuleWithOperations::from_json(rule, OmittedListMeaning::Nothing))
                .collect(),
            matches_all_resources: false,
            exclusions: items(&matching["excludeResourceRules"])
                .iter()
                .filter(|rule| is_read(rule))
                .map(ExclusionRule::from_json)
                .collect(),
            match_equivalent: matching["matchPolicy"].as_str() != Some("Exact"),
            namespace_selector: selector("namespaceSelector"),
            object_selector: selector("objectSelector"),
        }
    }

    /// Whether matching needs the labels of the namespace.
    pub fn needs_namespace_labels(&self) -> bool {
        let by_selector =
            !matches!(&self.namespace_selector, Ok(selector) if selector.is_everything());
        by_selector
            || self
                .exclusions
                .iter()
                .any(ExclusionRule::needs_namespace_labels)
    }

    /// Whether the outcome can depend on the namespace.
    pub fn depends_on_namespace(&self) -> bool {
        let by_exclusion = self
            .exclusions
            .iter()
            .any(ExclusionRule::depends_on_namespace);
        by_exclusion || self.needs_namespace_labels()
    }

    /// Whether the outcome can depend on the name or labels of the object.
    pub fn depends_on_object(&self) -> bool {
        let has_names = |rule: &RuleWithOperations| rule.names().next().is_some();
        let exclusions = self.exclusions.iter().map(ExclusionRule::rule);
        !matches!(&self.object_selector, Ok(selector) if selector.is_everything())
            || self.rules.iter().chain(exclusions).any(has_names)
    }

    /// Labels of an object that the object selector selects; `None` if it selects none. With an invalid selector every
    /// object fails, so the labels do not matter.
    pub(crate) fn selected_object_labels(&self) -> Option<BTreeMap<String, String>> {
        let mut labels = BTreeMap::new();
        let Ok(selector) = &self.object_selector else {
            return Some(labels);
        };
        let requirements = selector.requirements()?;
        for requirement in requirements.iter().filter(|it| it.needs_label()) {
            let of_key = || {
                requirements
                    .iter()
                    .filter(|it| it.key() == requirement.key())
            };
            let candidates = of_key()
                .flat_map(|it| it.exact_values().unwrap_or_default())
                .map(|value| &**value)
                .chain(["", "0", "1", "a", "a-value"]);
            let value = candidates
                .into_iter()
                .find(|value| of_key().all(|it| it.matches_value(Some(value))))?;
            labels.insert(requirement.key().to_owned(), value.to_owned());
        }
        requirements
            .iter()
            .all(|it| it.matches(&labels))
            .then_some(labels)
    }

    /// Evaluates the criteria. The result is the same as if selectors were evaluated first, then exclusion rules, then
    /// rules; the cheapest checks come first. A selector that cannot be evaluated is a failure only if nothing else
    /// excludes the request.
    pub fn evaluate(
        &self,
        attributes: &MatchAttributes<'_>,
        labels: &SelectorLabels<'_>,
    ) -> MatchOutcome {
        let Some(names) = self.matching_resource(attributes) else {
            return MatchOutcome::NoRule;
        };
        let excluded = self.matching_exclusion(attributes, labels);
        let failure = match self.selects_namespace(attributes, labels) {
            Ok(false) => return MatchOutcome::NamespaceNotSelected,
            Ok(true) => None,
            Err(status) => Some(status),
        };
        let failure = match self.selects_object(attributes, labels) {
            Ok(false) => return MatchOutcome::ObjectNotSelected,
            Ok(true) => failure,
            Err(status) => failure.or(Some(status)),
        };
        match (excluded, failure) {
            (Some(rule), _) => MatchOutcome::Excluded { rule },
            (None, Some(status)) => MatchOutcome::Failed(status),
            (None, None) => MatchOutcome::Matched(names.clone()),
        }
    }

    /// The resource and kind as which a rule matches: the requested one, else the first equivalent that matches, in the
    /// order of the rules.
    fn matching_resource<'a>(
        &self,
        attributes: &MatchAttributes<'a>,
    ) -> Option<&'a ResourceAndKind> {
        let fits = |rule: &RuleWithOperations, names: &ResourceAndKind| {
            rule.matches(attributes, &names.resource)
        };
        if self.matches_all_resources
            || self
                .rules
                .iter()
                .any(|rule| fits(rule, attributes.requested))
        {
            return Some(attributes.requested);
        }
        if !self.match_equivalent {
            return None;
        }
        self.rules.iter().find_map(|rule| {
            attributes
                .equivalents
                .iter()
                .find(|names| fits(rule, names))
        })
    }

    /// The first exclusion rule that matches.
    fn matching_exclusion(
        &self,
        attributes: &MatchAttributes<'_>,
        labels: &SelectorLabels<'_>,
    ) -> Option<usize> {
        let excludes = |resource: &GroupVersionResource| {
            self.exclusions
                .iter()
                .position(|rule| rule.matches(attributes, labels, resource))
        };
        excludes(&attributes.requested.resource).or_else(|| {
            let others = self.match_equivalent.then_some(attributes.equivalents)?;
            others.iter().find_map(|names| excludes(&names.resource))
        })
    }

    /// Cluster-scoped objects always match, except namespaces, which are selected by their own labels.
    fn selects_namespace(
        &self,
        attributes: &MatchAttributes<'_>,
        labels: &SelectorLabels<'_>,
    ) -> Result<bool, Status> {
        if attributes.namespace.is_empty() && attributes.requested.resource.resource != "namespaces"
        {
            return Ok(true);
        }
        let selector = self
            .namespace_selector
            .as_ref()
            .map_err(Status::internal_error)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let labels = labels.namespace.map_err(Clone::clone)?;
        Ok(selector.matches(labels))
    }

    /// The selector must match the new or the old object. The options of a CONNECT request have no metadata, so only the
    /// empty selector matches them.
    fn selects_object(
        &self,
        attributes: &MatchAttributes<'_>,
        labels: &SelectorLabels<'_>,
    ) -> Result<bool, Status> {
        let selector = self
            .object_selector
            .as_ref()
            .map_err(Status::internal_error)?;
        if selector.is_everything() {
            return Ok(true);
        }
        if attributes.operation == Operation::Connect {
            return Ok(false);
        }
        let states = [labels.object, labels.old_object];
        Ok(states
            .into_iter()
            .flatten()
            .any(|labels| selector.matches(labels)))
    }
}
