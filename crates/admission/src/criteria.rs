//! Which writes a webhook or a policy wants to see.

use rhumb_meta::labels::Selector;
use rhumb_meta::{GroupVersionResource, Status};
use serde_json::Value;

use crate::exclusion::{Exclusion, read_selector};
use crate::facts::{Facts, LabelSets, Names};
use crate::rule::{Absent, Rule};

/// How configurations are read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Whether webhooks may have exclusion rules, and policies such as name namespaces. A rule that may not be read
    /// whole leaves out nothing.
    pub exclusions: bool,
}

/// Selectors, exclusions and rules.
#[derive(Debug, Clone)]
pub struct Criteria {
    rules: Vec<Rule>,
    /// Whether no rule at all means everything.
    open: bool,
    exclusions: Vec<Exclusion>,
    /// Whether rules may also fit other names of the same objects.
    equivalent: bool,
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
}

/// Whether a write is seen, and if not, why.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is seen, under these names.
    Seen(Names),
    /// A rule is about it, and this exclusion leaves it out.
    Excluded {
        rule: usize,
    },
    NoRule,
    OtherNamespace,
    OtherObject,
    /// A rule is about it, but nobody can say whether the selectors are.
    Failed(Status),
}

impl Criteria {
    /// Those of a webhook.
    pub(crate) fn of_webhook(webhook: &Value, reading: Reading) -> Criteria {
        Criteria::read(webhook, &webhook["rules"], |_| reading.exclusions)
    }

    /// The `matchConstraints` of a policy. A binding without `matchResources` has none of its own.
    pub fn of_policy(matching: &Value, reading: Reading) -> Criteria {
        let is_read = |rule: &Value| reading.exclusions || !Exclusion::is_extended(rule);
        Criteria::read(matching, &matching["resourceRules"], is_read)
    }

    /// The `matchResources` of a binding: without rules, all that its policy is about.
    pub fn of_binding(matching: &Value, reading: Reading) -> Criteria {
        let criteria = Criteria::of_policy(matching, reading);
        Criteria {
            open: criteria.rules.is_empty(),
            ..criteria
        }
    }

    fn read(matching: &Value, rules: &Value, is_read: impl Fn(&Value) -> bool) -> Criteria {
        let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let selector = |name: &str| match matching.get(name) {
            None | Some(Value::Null) => Ok(Selector::everything()),
            Some(selector) => read_selector(selector),
        };
        Criteria {
            rules: items(rules)
                .iter()
                .map(|rule| Rule::read(rule, Absent::MeansNone))
                .collect(),
            open: false,
            exclusions: items(&matching["excludeResourceRules"])
                .iter()
                .filter(|rule| is_read(rule))
                .map(Exclusion::read)
                .collect(),
            equivalent: matching["matchPolicy"].as_str() != Some("Exact"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Whether labels of namespaces are asked for.
    pub fn needs_namespace(&self) -> bool {
        let by_selector = !matches!(&self.namespaces, Ok(selector) if selector.is_everything());
        by_selector || self.exclusions.iter().any(Exclusion::needs_namespace)
    }

    /// Whether two writes may be told apart by their namespaces.
    pub fn tells_namespaces_apart(&self) -> bool {
        let by_exclusion = self
            .exclusions
            .iter()
            .any(Exclusion::tells_namespaces_apart);
        by_exclusion || self.needs_namespace()
    }

    /// Whether two writes may be told apart by the names or the labels of their objects.
    pub fn tells_objects_apart(&self) -> bool {
        let has_names = |rule: &Rule| rule.names().next().is_some();
        let exclusions = self.exclusions.iter().map(Exclusion::rule);
        !matches!(&self.objects, Ok(selector) if selector.is_everything())
            || self.rules.iter().chain(exclusions).any(has_names)
    }

    /// Who sees a write is the same as if selectors were asked first, then exclusions, then rules; what costs least
    /// is asked first. A selector that cannot be asked is a failure only where nothing else keeps the write away.
    pub fn decide(&self, facts: &Facts<'_>, labels: &LabelSets<'_>) -> Outcome {
        let Some(names) = self.named(facts) else {
            return Outcome::NoRule;
        };
        let excluded = self.excluded(facts, labels);
        let failure = match self.selects_namespace(facts, labels) {
            Ok(false) => return Outcome::OtherNamespace,
            Ok(true) => None,
            Err(status) => Some(status),
        };
        let failure = match self.selects_object(labels) {
            Ok(false) => return Outcome::OtherObject,
            Ok(true) => failure,
            Err(status) => failure.or(Some(status)),
        };
        match (excluded, failure) {
            (Some(rule), _) => Outcome::Excluded { rule },
            (None, Some(status)) => Outcome::Failed(status),
            (None, None) => Outcome::Seen(names.clone()),
        }
    }

    /// The names under which a rule is about the write: as asked, or else the first that fits an earlier rule.
    fn named<'a>(&self, facts: &Facts<'a>) -> Option<&'a Names> {
        let fits = |rule: &Rule, names: &Names| rule.matches(facts, &names.resource);
        if self.open || self.rules.iter().any(|rule| fits(rule, facts.asked)) {
            return Some(facts.asked);
        }
        if !self.equivalent {
            return None;
        }
        self.rules
            .iter()
            .find_map(|rule| facts.equivalents.iter().find(|names| fits(rule, names)))
    }

    /// The first exclusion that is about the write.
    fn excluded(&self, facts: &Facts<'_>, labels: &LabelSets<'_>) -> Option<usize> {
        let excludes = |resource: &GroupVersionResource| {
            self.exclusions
                .iter()
                .position(|rule| rule.matches(facts, labels, resource))
        };
        excludes(&facts.asked.resource).or_else(|| {
            let others = self.equivalent.then_some(facts.equivalents)?;
            others.iter().find_map(|names| excludes(&names.resource))
        })
    }

    /// What is outside of namespaces is always selected, but for namespaces, which are by their own labels.
    fn selects_namespace(&self, facts: &Facts<'_>, labels: &LabelSets<'_>) -> Result<bool, Status> {
        if facts.namespace.is_empty() && facts.asked.resource.resource != "namespaces" {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal_error)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let labels = labels.namespace.map_err(Clone::clone)?;
        Ok(selector.matches(labels))
    }

    /// Either state of the object will do.
    fn selects_object(&self, labels: &LabelSets<'_>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal_error)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let states = [labels.object, labels.old];
        Ok(states
            .into_iter()
            .flatten()
            .any(|labels| selector.matches(labels)))
    }
}
