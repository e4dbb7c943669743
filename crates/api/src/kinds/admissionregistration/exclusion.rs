//! Rules that take requests away from webhooks and policies again (KEP-3693).
//!
//! Webhooks have them only while the gate is on. Policies have had them all along, upstream too: there the gate is
//! about the namespaces in them, and about what is allowed and refused beyond upstream.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::ValidationOptions;
use rhumb_meta::validation;
use serde_json::Value;

use super::matching::{self, Empty};
use crate::gates::Feature;
use crate::workloads::checks;
use crate::{Object, Request, View, edit};

const RULES: &str = "excludeResourceRules";
const ALL_OPERATIONS: &[&str] = &["CONNECT", "CREATE", "DELETE", "UPDATE"];
const EXCLUDES_ALL: &str = "must not exclude all requests: limit the rule by apiGroups, apiVersions, operations, \
                            resources, scope, resourceNames, namespaces or namespaceSelector, or delete what is to \
                            see no requests";

fn is_on(request: &Request<'_>) -> bool {
    let feature = Feature::AdmissionWebhookExclusionRules;
    request.gates.enabled(feature)
}

/// Takes the rules out of webhooks while the gate is off. A configuration that was written while it was on keeps
/// them, so that it can be changed without losing them.
pub(super) fn drop_from_webhooks(object: &mut Object, old: Option<&Object>, request: &Request<'_>) {
    if is_on(request) || old.is_some_and(has_webhooks_with_rules) {
        return;
    }
    if let Some(Value::Array(webhooks)) = object.get_mut("webhooks") {
        for webhook in webhooks.iter_mut().filter_map(Value::as_object_mut) {
            webhook.remove(RULES);
        }
    }
}

fn has_webhooks_with_rules(object: &Object) -> bool {
    let object = View::root(object);
    let webhooks = object.field("webhooks");
    webhooks
        .items()
        .any(|webhook| !webhook.field(RULES).is_empty())
}

/// The same for the `matchConstraints` of a policy or the `matchResources` of a binding, where only rules with
/// namespaces go. They go as a whole: without their namespaces they would exclude more than they should.
pub(super) fn drop_from_matching(
    object: &mut Object,
    old: Option<&Object>,
    matching: &str,
    request: &Request<'_>,
) {
    let stored = old.map_or(&[][..], |old| rules_of(old, matching));
    if is_on(request) || stored.iter().any(has_namespaces) {
        return;
    }
    let Some(matching) = edit::find(object, &["spec", matching]) else {
        return;
    };
    if let Some(Value::Array(rules)) = matching.get_mut(RULES) {
        rules.retain(|rule| !has_namespaces(rule));
        if rules.is_empty() {
            matching.remove(RULES);
        }
    }
}

fn rules_of<'a>(object: &'a Object, matching: &str) -> &'a [Value] {
    let rules = edit::get(object, &["spec", matching, RULES]);
    rules.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn has_namespaces(rule: &Value) -> bool {
    let has_names = rule["namespaces"]
        .as_array()
        .is_some_and(|names| !names.is_empty());
    has_names || !rule["namespaceSelector"].is_null()
}

/// What decides about the rules of a policy or binding, beside themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    is_on: bool,
    stored: &'a [Value],
}

impl<'a> Context<'a> {
    pub(super) fn new(
        old: Option<&View<'a>>,
        matching: &str,
        request: &Request<'_>,
    ) -> Context<'a> {
        let old = old.and_then(View::object);
        Context {
            is_on: is_on(request),
            stored: old.map_or(&[], |old| rules_of(old, matching)),
        }
    }
}

/// A rule that is stored may stay as it is: upstream has no objection to one that excludes everything.
pub(super) fn validate_of_matching(
    matching: &View<'_>,
    context: Context<'_>,
    errors: &mut ErrorList,
) {
    for rule in matching.field(RULES).items() {
        let is_stored = context.stored.iter().any(|old| Some(old) == rule.value());
        let empty = match context.is_on || is_stored {
            true => Empty::IsAll,
            false => Empty::IsMissing,
        };
        validate_rule(&rule, empty, errors);
        if context.is_on && !is_stored {
            refuse_if_all(&rule, errors);
        }
    }
}

pub(super) fn validate_of_webhook(webhook: &View<'_>, errors: &mut ErrorList) {
    for rule in webhook.field(RULES).items() {
        validate_rule(&rule, Empty::IsAll, errors);
        refuse_if_all(&rule, errors);
    }
}

/// What a webhook could not have in an exclusion rule. Paths begin at the rule.
pub fn exclusion_rule_problems(rule: &Object) -> ErrorList {
    let rule = View::root(rule);
    let mut errors = ErrorList::default();
    validate_rule(&rule, Empty::IsAll, &mut errors);
    errors
}

fn validate_rule(rule: &View<'_>, empty: Empty, errors: &mut ErrorList) {
    matching::validate_named_rule(rule, empty, errors);
    let (namespaces, selector) = (rule.field("namespaces"), rule.field("namespaceSelector"));
    let mut seen = HashSet::new();
    for name in namespaces.items() {
        checks::problems(&name, validation::dns1123_label(name.str()), errors);
        if !seen.insert(name.str()) {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
    }
    checks::validate_selector(&selector, ValidationOptions::default(), errors);
    if rule.text("scope") == "Cluster" {
        let is_set = [!namespaces.is_empty(), selector.exists()];
        for (field, _) in [namespaces, selector]
            .iter()
            .zip(is_set)
            .filter(|(_, set)| *set)
        {
            field.forbidden(errors, "may not be set when scope is Cluster");
        }
    }
}

fn refuse_if_all(rule: &View<'_>, errors: &mut ErrorList) {
    let has_star = |name: &str, stars: &[&str]| {
        let list = rule.field(name);
        list.is_empty() || list.items().any(|item| stars.contains(&item.str()))
    };
    let operations = rule.field("operations");
    let has_operation = |name: &&str| operations.items().any(|item| item.str() == *name);
    let is_limited = ["resourceNames", "namespaces", "namespaceSelector"]
        .iter()
        .any(|name| !rule.field(name).is_empty());
    if !is_limited
        && matches!(rule.text("scope"), "" | "*")
        && has_star("apiGroups", &["*"])
        && has_star("apiVersions", &["*"])
        && has_star("resources", &["*", "*/*"])
        && (has_star("operations", &["*"]) || ALL_OPERATIONS.iter().all(has_operation))
    {
        rule.invalid(errors, EXCLUDES_ALL);
    }
}
