//! Selectors that no labels can meet.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_meta::LabelSelector;
use rhumb_meta::labels::{Operator, REQUIREMENTS_MAX, Requirement, Selector};
use rhumb_meta::validation;

use super::Flaw;

pub(super) fn find(selector: &LabelSelector, place: impl Fn() -> String, flaws: &mut Vec<Flaw>) {
    if is_plain(selector) {
        return;
    }
    let why = match LabelSelector::to_selector(Some(selector)) {
        Ok(selector) => contradiction(&selector),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why {
        let place = place();
        flaws.push(Flaw {
            reason: "SelectorNeverMatches",
            message: format!("{place} can never match: {why}"),
        });
    }
}

/// Whether it asks for one possible value of each of several labels, as most do: nothing can be wrong then.
fn is_plain(selector: &LabelSelector) -> bool {
    let mut labels = selector.match_labels.iter();
    let is_possible = |(key, value): (&String, &String)| {
        validation::qualified_name(key).is_empty() && validation::label_value(value).is_empty()
    };
    let count = selector.match_labels.len();
    selector.match_expressions.is_empty() && count <= REQUIREMENTS_MAX && labels.all(is_possible)
}

/// What is asked of one label.
#[derive(Default)]
struct Demands<'a> {
    must_exist: bool,
    must_not_exist: bool,
    /// The only values that are left; `None` as long as any will do.
    left: Option<BTreeSet<&'a str>>,
    excluded: BTreeSet<&'a str>,
}

/// Labels are independent, and there is always a value that is not excluded: so it suffices to look at each label that
/// something is asked of, and at the values that are named.
fn contradiction(selector: &Selector) -> Option<String> {
    let mut labels: BTreeMap<&str, Demands<'_>> = BTreeMap::new();
    for requirement in selector.requirements().unwrap_or_default() {
        let demands = labels.entry(requirement.key()).or_default();
        demands.add(requirement);
    }
    let mut labels = labels.iter();
    labels.find_map(|(key, demands)| demands.contradiction(key))
}

impl<'a> Demands<'a> {
    fn add(&mut self, requirement: &'a Requirement) {
        let values = || requirement.values().iter().map(AsRef::as_ref);
        match requirement.operator() {
            Operator::NotIn | Operator::NotEquals => self.excluded.extend(values()),
            Operator::DoesNotExist => self.must_not_exist = true,
            _ => self.must_exist = true,
        }
        if requirement.exact_values().is_some() {
            let values: BTreeSet<&str> = values().collect();
            self.left = Some(match &self.left {
                Some(left) => left.intersection(&values).copied().collect(),
                None => values,
            });
        }
    }

    fn contradiction(&self, key: &str) -> Option<String> {
        let is_spent = |left: &BTreeSet<&str>| left.is_subset(&self.excluded);
        if self.must_exist && self.must_not_exist {
            Some(format!(
                "the label {key} is to be there and not to be there"
            ))
        } else if self.left.as_ref().is_some_and(is_spent) {
            Some(format!(
                "no value of the label {key} meets all that is asked of it"
            ))
        } else {
            None
        }
    }
}
