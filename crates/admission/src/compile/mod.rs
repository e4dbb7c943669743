//! Compiles exclusion rules into upstream's `matchConditions`, for servers without KEP-3693. Entry point:
//! [`compile_webhook`]; used by `rhumb admission compile` and `rhumb admission lint`.
//!
//! All rules of a webhook become one CEL expression, `!(rule1 || rule2)`, over `request`. Match conditions of webhooks
//! do not see the labels of namespaces, so a `namespaceSelector` of a rule is translated only where its requirements
//! are about the name of the namespace. Otherwise it is moved to the `namespaceSelector` of the webhook, if that is
//! equivalent, or the rule is refused.

mod expression;
mod namespace_selector;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod tests;

use std::fmt;

use rhumb_expressions::{Environment, Program, ReturnTypes};
use rhumb_meta::GroupVersionResource;
use serde_json::{Map, Value, json};

use crate::exclusion_rule::ExclusionRule;
use expression::{ExpressionWriter, RequestField};
use namespace_selector::TranslatedSelector;

const RULES: &str = "excludeResourceRules";
const CONDITION_NAME: &str = "exclude-resource-rules";
/// Upstream's limit for one webhook.
const MATCH_CONDITIONS_MAX: usize = 64;

/// The resources that a server is known to serve. Each set lists the group-versions that serve the same objects, which
/// matter for `matchPolicy: Equivalent`.
#[derive(Debug, Clone, Default)]
pub struct EquivalentResourceSets(pub Vec<Vec<GroupVersionResource>>);

/// A webhook without exclusion rules that is called for the same requests.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledWebhook {
    pub webhook: Map<String, Value>,
    /// Differences and changes that the user should know.
    pub notes: Vec<String>,
}

/// Why a webhook cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileRefusal {
    /// The index of the rule, if it is about one.
    pub rule: Option<usize>,
    pub reason: String,
}

impl fmt::Display for CompileRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            Some(rule) => write!(f, "{RULES}[{rule}]: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl EquivalentResourceSets {
    /// Whether resources of this group are listed.
    fn has_group(&self, group: &str) -> bool {
        self.0
            .iter()
            .flatten()
            .any(|resource| resource.group == group)
    }
}

/// Replaces the exclusion rules of a webhook, which must be valid, by a match condition.
pub fn compile_webhook(
    webhook: &Map<String, Value>,
    resources: &EquivalentResourceSets,
) -> Result<CompiledWebhook, CompileRefusal> {
    let mut compiled = CompiledWebhook {
        webhook: webhook.clone(),
        notes: Vec::new(),
    };
    let Some(Value::Array(rules)) = compiled.webhook.remove(RULES) else {
        return Ok(compiled);
    };
    let is_equivalent = webhook
        .get("matchPolicy")
        .is_none_or(|policy| policy != "Exact");
    let writer = ExpressionWriter {
        field: match is_equivalent {
            true => RequestField::RequestResource,
            false => RequestField::Resource,
        },
        equivalents: match is_equivalent {
            true => &resources.0,
            false => &[],
        },
    };
    let mut expressions = Vec::new();
    for (index, json) in rules.iter().enumerate() {
        let rule = ExclusionRule::from_json(json);
        let selector =
            TranslatedSelector::new(&rule, webhook).map_err(|reason| CompileRefusal {
                rule: Some(index),
                reason,
            })?;
        if let TranslatedSelector::Moved(requirement) = &selector {
            compiled.notes.push(format!(
                "{RULES}[{index}]: its namespaceSelector is moved to the namespaceSelector of the webhook, as {requirement}"
            ));
            namespace_selector::add_requirement(&mut compiled.webhook, requirement.clone());
            continue;
        }
        if is_equivalent {
            compiled.notes.extend(version_note(index, &rule, resources));
        }
        expressions.extend(writer.rule(&rule, &selector));
    }
    if !expressions.is_empty() {
        add_condition(&mut compiled.webhook, &negated(&expressions))?;
    }
    Ok(compiled)
}

/// `!(a || b)`, with a line for each rule.
fn negated(rules: &[String]) -> String {
    match rules {
        [only] => format!("!({only})"),
        several => format!("!(\n  {}\n)", several.join(" ||\n  ")),
    }
}

/// Versions of custom resources are not known, so equivalent versions cannot be listed in the expression.
fn version_note(
    index: usize,
    rule: &ExclusionRule,
    resources: &EquivalentResourceSets,
) -> Option<String> {
    let rule = rule.rule();
    rule.versions().words()?;
    let groups = rule.groups().words()?.iter();
    let unknown: Vec<&str> = groups
        .map(|group| &**group)
        .filter(|group| !resources.has_group(group))
        .collect();
    (!unknown.is_empty()).then(|| {
        format!(
            "{RULES}[{index}]: requests for {} are excluded only in the apiVersions of the rule, although matchPolicy is \
             Equivalent: list all versions that are served",
            unknown.join(", ")
        )
    })
}

fn add_condition(webhook: &mut Map<String, Value>, expression: &str) -> Result<(), CompileRefusal> {
    let refuse = |reason: String| CompileRefusal { rule: None, reason };
    Program::compile(
        &Environment::match_conditions(),
        expression,
        ReturnTypes::Bool,
    )
    .map_err(|error| {
        refuse(format!(
            "the match condition of {RULES} would be invalid: {error}"
        ))
    })?;
    let conditions = webhook.entry("matchConditions").or_insert(Value::Null);
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else {
        return Err(refuse("matchConditions is not a list".to_owned()));
    };
    if conditions.len() >= MATCH_CONDITIONS_MAX {
        return Err(refuse(format!(
            "the webhook already has {MATCH_CONDITIONS_MAX} matchConditions, which is the maximum: combine some"
        )));
    }
    let is_taken = |name: &str| conditions.iter().any(|one| one["name"] == name);
    let mut name = CONDITION_NAME.to_owned();
    let mut number = 1;
    while is_taken(&name) {
        number += 1;
        name = format!("{CONDITION_NAME}-{number}");
    }
    conditions.push(json!({"name": name, "expression": expression}));
    Ok(())
}
