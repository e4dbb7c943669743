//! Translates the `namespaceSelector` of an exclusion rule, which match conditions cannot evaluate: `namespaceObject`
//! is null for webhooks.

use rhumb_meta::GroupVersionResource;
use rhumb_meta::labels::{Operator, Requirement, Selector};
use serde_json::{Map, Value, json};

use super::expression::one_of;
use crate::exclusion_rule::ExclusionRule;
use crate::rule::{OmittedListMeaning, RuleScope, RuleWithOperations};

/// Every namespace has this label with its name as value.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TranslatedSelector {
    Absent,
    /// Conditions on `request.namespace`, which must all be true. Without any, every namespace is selected.
    Condition(Vec<String>),
    /// It selects no namespace.
    Never,
    /// A requirement for the `namespaceSelector` of the webhook, in JSON. It stands for the whole rule.
    Moved(Value),
}

impl TranslatedSelector {
    /// The translation, or the reason why there is none.
    pub(super) fn new(
        exclusion: &ExclusionRule,
        webhook: &Map<String, Value>,
    ) -> Result<TranslatedSelector, String> {
        let Some(selector) = exclusion.namespace_selector() else {
            return Ok(TranslatedSelector::Absent);
        };
        let has_namespaces = matches!(
            exclusion.rule().scope(),
            RuleScope::Any | RuleScope::Namespaced
        );
        let Some(requirements) = selector.requirements().filter(|_| has_namespaces) else {
            return Ok(TranslatedSelector::Never);
        };
        if requirements.iter().all(|one| one.key() == NAME_LABEL) {
            let conditions: Option<Vec<_>> = requirements.iter().map(name_condition).collect();
            if let Some(conditions) = conditions {
                return Ok(match conditions.into_iter().collect::<Option<Vec<_>>>() {
                    None => TranslatedSelector::Never,
                    Some(conditions) => TranslatedSelector::Condition(conditions.concat()),
                });
            }
        }
        match cannot_be_moved(exclusion, selector, webhook) {
            Some(reason) => Err(format!(
                "its namespaceSelector cannot be translated: match conditions do not see the labels of namespaces, and it \
                 cannot be moved to the namespaceSelector of the webhook, because {reason}"
            )),
            None => match requirements {
                [requirement] => negated(requirement).map(TranslatedSelector::Moved),
                _ => Err(SEVERAL_REQUIREMENTS.to_owned()),
            },
        }
    }
}

const SEVERAL_REQUIREMENTS: &str = "it has several requirements, whose negation is not a selector: split the rule, or list the namespaces";

/// A requirement on the name label as conditions; `Some(None)` if no namespace meets it, `None` if it cannot be
/// written.
fn name_condition(requirement: &Requirement) -> Option<Option<Vec<String>>> {
    let values: Vec<&str> = requirement.values().iter().map(AsRef::as_ref).collect();
    let is_named = || one_of("request.namespace", &values);
    match requirement.operator() {
        Operator::In | Operator::Equals | Operator::DoubleEquals => Some(Some(vec![is_named()])),
        Operator::NotIn | Operator::NotEquals => Some(Some(vec![format!("!({})", is_named())])),
        Operator::Exists => Some(Some(Vec::new())),
        Operator::DoesNotExist => Some(None),
        Operator::GreaterThan | Operator::LessThan => None,
    }
}

/// Why excluding the selected namespaces from the whole webhook is not the same as the rule. The selector of a webhook
/// also applies to namespaces themselves, which exclusion rules by namespace never exclude.
fn cannot_be_moved(
    exclusion: &ExclusionRule,
    selector: &Selector,
    webhook: &Map<String, Value>,
) -> Option<&'static str> {
    if selector.requirements().is_some_and(|all| all.len() > 1) {
        return Some(SEVERAL_REQUIREMENTS);
    }
    if exclusion.namespaces().next().is_some() {
        return Some("the rule has namespaces too");
    }
    let rules = webhook.get("rules").and_then(Value::as_array);
    let rules = rules.into_iter().flatten();
    let rules = rules.map(|rule| RuleWithOperations::from_json(rule, OmittedListMeaning::Nothing));
    let rules: Vec<RuleWithOperations> = rules.collect();
    // Rules about cluster-scoped objects need no cover: their requests have no namespace.
    let mut namespaced = rules
        .iter()
        .filter(|rule| rule.scope() != RuleScope::Cluster);
    if !namespaced.all(|rule| covers(exclusion.rule(), rule)) {
        return Some("the rule excludes only a part of what the webhook is called for");
    }
    rules.iter().any(may_match_namespaces).then_some(
        "the webhook is also called for namespaces themselves: limit its rules to scope Namespaced, or list the namespaces",
    )
}

/// Whether an exclusion rule applies to all namespaced objects that a rule of the webhook matches.
fn covers(exclusion: &RuleWithOperations, rule: &RuleWithOperations) -> bool {
    let is_resource_covered = rule.resources().iter().all(|(resource, subresource)| {
        exclusion.resources().iter().any(|(own, own_subresource)| {
            own.covers(resource) && own_subresource.covers(subresource)
        })
    });
    exclusion.names().next().is_none()
        && matches!(exclusion.scope(), RuleScope::Any | RuleScope::Namespaced)
        && exclusion.groups().covers(rule.groups())
        && exclusion.versions().covers(rule.versions())
        && is_resource_covered
        && rule
            .operations()
            .all(|operation| exclusion.operations().any(|own| own == operation))
}

fn may_match_namespaces(rule: &RuleWithOperations) -> bool {
    let namespaces = GroupVersionResource::new("", "v1", "namespaces");
    let has_pattern = rule
        .resources()
        .iter()
        .any(|(own, _)| own.contains(&namespaces.resource));
    has_pattern
        && rule.scope() != RuleScope::Namespaced
        && rule.groups().contains(&namespaces.group)
        && rule.versions().contains(&namespaces.version)
}

/// The requirement that exactly the other namespaces meet. `NotIn` also matches namespaces without the label.
fn negated(requirement: &Requirement) -> Result<Value, String> {
    let operator = match requirement.operator() {
        Operator::In | Operator::Equals | Operator::DoubleEquals => "NotIn",
        Operator::NotIn | Operator::NotEquals => "In",
        Operator::Exists => "DoesNotExist",
        Operator::DoesNotExist => "Exists",
        Operator::GreaterThan | Operator::LessThan => {
            return Err("its namespaceSelector compares numbers".to_owned());
        }
    };
    let mut negated = json!({"key": requirement.key(), "operator": operator});
    let values: Vec<&str> = requirement.values().iter().map(AsRef::as_ref).collect();
    if !values.is_empty() {
        negated["values"] = json!(values);
    }
    Ok(negated)
}

/// Adds a requirement to the `namespaceSelector` of a webhook.
pub(super) fn add_requirement(webhook: &mut Map<String, Value>, requirement: Value) {
    let selector = webhook.entry("namespaceSelector").or_insert(Value::Null);
    if !selector.is_object() {
        *selector = json!({});
    }
    let expressions = &mut selector["matchExpressions"];
    match expressions {
        Value::Array(expressions) => expressions.push(requirement),
        expressions => *expressions = json!([requirement]),
    }
}
