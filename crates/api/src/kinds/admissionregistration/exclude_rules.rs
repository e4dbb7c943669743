//! `excludeResourceRules` of webhooks, admission policies and their bindings (KEP-3693): dropping and validation.
//!
//! Webhooks have these rules only while the feature gate is enabled. Policies have them regardless, as upstream; for
//! them the gate controls `namespaces` in the rules and the validation that goes beyond upstream's.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::LabelSelectorValidationOptions;
use rhumb_meta::validation;
use serde_json::Value;

use super::matching::{self, EmptyRuleField};
use crate::feature_gates::Feature;
use crate::validation_helpers::checks;
use crate::{DroppedField, FeatureGates, FieldView, JsonObject, StrategyContext, object_edit};

const RULES: &str = "excludeResourceRules";
const ALL_OPERATIONS: &[&str] = &["CONNECT", "CREATE", "DELETE", "UPDATE"];
const EXCLUDES_ALL: &str = "must not exclude all requests: limit the rule by apiGroups, apiVersions, operations, \
                            resources, scope, resourceNames, namespaces or namespaceSelector, or delete what is to \
                            see no requests";

const GATE: Feature = Feature::AdmissionWebhookExclusionRules;

fn is_gate_enabled(request: &StrategyContext<'_>) -> bool {
    request.gates.enabled(GATE)
}

/// The rules that `drop_disabled_webhook_rules` drops.
pub(super) fn disabled_webhook_rules(
    object: &JsonObject,
    old: Option<&JsonObject>,
    gates: &FeatureGates,
) -> Vec<DroppedField> {
    if gates.enabled(GATE) || old.is_some_and(has_webhooks_with_rules) {
        return Vec::new();
    }
    let object = FieldView::root(object);
    let webhooks = object.field("webhooks");
    webhooks
        .items()
        .filter_map(|webhook| {
            let rules = webhook.field(RULES);
            (!rules.is_empty()).then(|| DroppedField {
                path: rules.path().to_string(),
                dropped: rules.path().to_string(),
                gate: GATE,
            })
        })
        .collect()
}

/// Drops the rules from webhooks while the gate is disabled, unless the old configuration already has some: it can
/// then still be updated without losing them.
pub(super) fn drop_disabled_webhook_rules(
    object: &mut JsonObject,
    old: Option<&JsonObject>,
    request: &StrategyContext<'_>,
) {
    if is_gate_enabled(request) || old.is_some_and(has_webhooks_with_rules) {
        return;
    }
    if let Some(Value::Array(webhooks)) = object.get_mut("webhooks") {
        for webhook in webhooks.iter_mut().filter_map(Value::as_object_mut) {
            webhook.remove(RULES);
        }
    }
}

fn has_webhooks_with_rules(object: &JsonObject) -> bool {
    let object = FieldView::root(object);
    let webhooks = object.field("webhooks");
    webhooks
        .items()
        .any(|webhook| !webhook.field(RULES).is_empty())
}

/// The fields because of which `drop_disabled_match_rules` drops rules.
pub(super) fn disabled_match_rules(
    object: &JsonObject,
    old: Option<&JsonObject>,
    matching: &str,
    gates: &FeatureGates,
) -> Vec<DroppedField> {
    if gates.enabled(GATE) || has_rules_with_namespaces(old, matching) {
        return Vec::new();
    }
    let rules = rules_of(object, matching);
    let list = format!("spec.{matching}.{RULES}");
    let is_list_dropped = rules.iter().all(has_namespaces);
    let mut fields = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{list}[{index}]");
        let dropped = if is_list_dropped { &list } else { &path };
        fields.extend(namespace_fields(rule).map(|field| DroppedField {
            path: format!("{path}.{field}"),
            dropped: dropped.clone(),
            gate: GATE,
        }));
    }
    fields
}

/// Like `drop_disabled_webhook_rules`, for the `matchConstraints` of a policy or the `matchResources` of a binding.
/// Drops only rules with namespaces, and drops them whole: without namespaces they would exclude too many requests.
pub(super) fn drop_disabled_match_rules(
    object: &mut JsonObject,
    old: Option<&JsonObject>,
    matching: &str,
    request: &StrategyContext<'_>,
) {
    if is_gate_enabled(request) || has_rules_with_namespaces(old, matching) {
        return;
    }
    let Some(matching) = object_edit::find_object(object, &["spec", matching]) else {
        return;
    };
    if let Some(Value::Array(rules)) = matching.get_mut(RULES) {
        rules.retain(|rule| !has_namespaces(rule));
        if rules.is_empty() {
            matching.remove(RULES);
        }
    }
}

fn rules_of<'a>(object: &'a JsonObject, matching: &str) -> &'a [Value] {
    let rules = object_edit::get(object, &["spec", matching, RULES]);
    rules.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn has_rules_with_namespaces(object: Option<&JsonObject>, matching: &str) -> bool {
    object.is_some_and(|object| rules_of(object, matching).iter().any(has_namespaces))
}

fn has_namespaces(rule: &Value) -> bool {
    namespace_fields(rule).next().is_some()
}

/// The fields of a rule that upstream's rules do not have.
fn namespace_fields(rule: &Value) -> impl Iterator<Item = &'static str> {
    let has_names = rule["namespaces"]
        .as_array()
        .is_some_and(|names| !names.is_empty());
    let has_selector = !rule["namespaceSelector"].is_null();
    let names = has_names.then_some("namespaces");
    names
        .into_iter()
        .chain(has_selector.then_some("namespaceSelector"))
}

/// Gate state and old rules, against which the rules of a policy or binding are validated.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExclusionValidationContext<'a> {
    is_gate_enabled: bool,
    old_rules: &'a [Value],
}

impl<'a> ExclusionValidationContext<'a> {
    pub(super) fn new(
        old: Option<&FieldView<'a>>,
        matching: &str,
        request: &StrategyContext<'_>,
    ) -> ExclusionValidationContext<'a> {
        let old = old.and_then(FieldView::object);
        ExclusionValidationContext {
            is_gate_enabled: is_gate_enabled(request),
            old_rules: old.map_or(&[], |old| rules_of(old, matching)),
        }
    }
}

/// Validates the rules of a policy or binding. Unchanged old rules are accepted, because upstream allows a rule that
/// excludes everything.
pub(super) fn validate_match_resources_rules(
    matching: &FieldView<'_>,
    context: ExclusionValidationContext<'_>,
    errors: &mut ErrorList,
) {
    for rule in matching.field(RULES).items() {
        let is_stored = context
            .old_rules
            .iter()
            .any(|old| Some(old) == rule.value());
        let empty = match context.is_gate_enabled || is_stored {
            true => EmptyRuleField::MatchesAll,
            false => EmptyRuleField::Rejected,
        };
        validate_rule(&rule, empty, errors);
        if context.is_gate_enabled && !is_stored {
            reject_empty_names(&rule, errors);
            reject_if_excludes_all(&rule, errors);
        }
    }
}

pub(super) fn validate_webhook_rules(webhook: &FieldView<'_>, errors: &mut ErrorList) {
    for rule in webhook.field(RULES).items() {
        validate_rule(&rule, EmptyRuleField::MatchesAll, errors);
        reject_empty_names(&rule, errors);
        reject_if_excludes_all(&rule, errors);
    }
}

/// No object has the empty name, so such a rule matches nothing.
fn reject_empty_names(rule: &FieldView<'_>, errors: &mut ErrorList) {
    let names = rule.field("resourceNames");
    for name in names.items().filter(FieldView::is_empty) {
        name.required(
            errors,
            "no object has an empty name; omit resourceNames to match all names",
        );
    }
}

/// Validates an exclusion rule as a webhook's. Error paths are relative to the rule.
pub fn exclusion_rule_problems(rule: &JsonObject) -> ErrorList {
    let rule = FieldView::root(rule);
    let mut errors = ErrorList::default();
    validate_rule(&rule, EmptyRuleField::MatchesAll, &mut errors);
    errors
}

fn validate_rule(rule: &FieldView<'_>, empty: EmptyRuleField, errors: &mut ErrorList) {
    matching::validate_named_rule(rule, empty, errors);
    let (namespaces, selector) = (rule.field("namespaces"), rule.field("namespaceSelector"));
    let mut seen = HashSet::new();
    for name in namespaces.items() {
        checks::push_problems(&name, validation::dns1123_label(name.str()), errors);
        if !seen.insert(name.str()) {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
    }
    checks::validate_selector(&selector, LabelSelectorValidationOptions::default(), errors);
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

fn reject_if_excludes_all(rule: &FieldView<'_>, errors: &mut ErrorList) {
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
