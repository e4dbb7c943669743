//! Finds label selectors that no set of labels can match.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_meta::LabelSelector;
use rhumb_meta::labels::{Operator, REQUIREMENTS_MAX, Requirement, Selector};
use rhumb_meta::validation;

use super::LintWarning;

pub(super) fn lint_selector(
    selector: &LabelSelector,
    field_path: impl Fn() -> String,
    warnings: &mut Vec<LintWarning>,
) {
    if is_plain_match_labels(selector) {
        return;
    }
    let why = match LabelSelector::to_selector(Some(selector)) {
        Ok(selector) => find_contradiction(&selector),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why {
        let field_path = field_path();
        warnings.push(LintWarning {
            reason: "SelectorNeverMatches",
            message: format!("{field_path} can never match: {why}"),
        });
    }
}

/// Whether the selector has only `matchLabels` with valid keys and values, as most have: it cannot be contradictory.
fn is_plain_match_labels(selector: &LabelSelector) -> bool {
    let mut labels = selector.match_labels.iter();
    let is_possible = |(key, value): (&String, &String)| {
        validation::qualified_name(key).is_empty() && validation::label_value(value).is_empty()
    };
    let count = selector.match_labels.len();
    selector.match_expressions.is_empty() && count <= REQUIREMENTS_MAX && labels.all(is_possible)
}

/// All requirements of a selector on one label key.
#[derive(Default)]
struct LabelConstraints<'a> {
    must_exist: bool,
    must_not_exist: bool,
    /// The values that all `In` requirements permit; `None` if there is no such requirement.
    allowed_values: Option<BTreeSet<&'a str>>,
    excluded_values: BTreeSet<&'a str>,
}

/// Labels are independent, and some value is never excluded. So it suffices to check each required key with the values
/// that the selector lists.
fn find_contradiction(selector: &Selector) -> Option<String> {
    let mut labels: BTreeMap<&str, LabelConstraints<'_>> = BTreeMap::new();
    for requirement in selector.requirements().unwrap_or_default() {
        let demands = labels.entry(requirement.key()).or_default();
        demands.add(requirement);
    }
    let mut labels = labels.iter();
    labels.find_map(|(key, demands)| demands.contradiction(key))
}

impl<'a> LabelConstraints<'a> {
    fn add(&mut self, requirement: &'a Requirement) {
        let values = || requirement.values().iter().map(AsRef::as_ref);
        match requirement.operator() {
            Operator::NotIn | Operator::NotEquals => self.excluded_values.extend(values()),
            Operator::DoesNotExist => self.must_not_exist = true,
            _ => self.must_exist = true,
        }
        if requirement.exact_values().is_some() {
            let values: BTreeSet<&str> = values().collect();
            self.allowed_values = Some(match &self.allowed_values {
                Some(left) => left.intersection(&values).copied().collect(),
                None => values,
            });
        }
    }

    fn contradiction(&self, key: &str) -> Option<String> {
        let is_spent = |left: &BTreeSet<&str>| left.is_subset(&self.excluded_values);
        if self.must_exist && self.must_not_exist {
            Some(format!(
                "the label {key} is required both to exist and not to exist"
            ))
        } else if self.allowed_values.as_ref().is_some_and(is_spent) {
            Some(format!(
                "no value of the label {key} satisfies all requirements"
            ))
        } else {
            None
        }
    }
}
