//! Type checks the CEL expressions of a ValidatingAdmissionPolicy, for the warnings in its status. Has no effect on
//! admission. Upstream counterpart: `policy/validating.TypeChecker`.

use std::collections::BTreeSet;

use rhumb_expressions::{CompositedVariables, Environment, Program};
use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use rhumb_schema::SchemaRef;
use serde_json::{Value, json};

use super::array_items;
use crate::Object;
use crate::match_conditions::str_or_empty;

/// Maximum number of kinds to check against, as upstream.
const MAX_CHECKED_KINDS: usize = 10;

/// Resolves resources to kinds, and kinds to their schemas (upstream: `RESTMapper` and `SchemaResolver`).
pub trait SchemaResolver {
    /// The kind of a resource.
    fn kind_of(&self, resource: &GroupVersionResource) -> Option<GroupVersionKind>;

    /// The schema of the kind's objects.
    fn schema_of(&self, kind: &GroupVersionKind) -> Option<SchemaRef>;
}

/// The type check warnings of a policy, in the form of `status.typeChecking.expressionWarnings`.
pub fn expression_warnings(policy: &Object, kinds: &dyn SchemaResolver) -> Vec<Value> {
    let nothing = Value::Null;
    let spec = policy.get("spec").unwrap_or(&nothing);
    let checked = kinds_to_check(spec, kinds);
    let params = spec["paramKind"].is_object().then(|| {
        let kind = &spec["paramKind"];
        let (version, kind) = (
            str_or_empty(&kind["apiVersion"]),
            str_or_empty(&kind["kind"]),
        );
        let kind = GroupVersionKind::from_type_meta(version, kind).ok()?;
        kinds.schema_of(&kind)
    });
    let mut warnings = Vec::new();
    for (number, validation) in array_items(&spec["validations"]).iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let text = str_or_empty(&validation[field]);
            if text.is_empty() {
                continue;
            }
            let problems: Vec<String> = checked
                .iter()
                .filter_map(|(kind, schema)| {
                    let of = (schema.clone(), params.clone());
                    let problem = type_check_error(text, &spec["variables"], of)?;
                    Some(format!("{kind}: {problem}\n"))
                })
                .collect();
            if !problems.is_empty() {
                warnings.push(json!({
                    "fieldRef": format!("spec.validations[{number}].{field}"),
                    "warning": problems.join("\n"),
                }));
            }
        }
    }
    warnings
}

type ObjectAndParamsSchemas = (SchemaRef, Option<Option<SchemaRef>>);

fn type_check_error(
    text: &str,
    variables: &Value,
    (object, params): ObjectAndParamsSchemas,
) -> Option<String> {
    let mut environment = Environment::type_checking(Some(object), params);
    let mut declared = CompositedVariables::new();
    for variable in array_items(variables) {
        let (name, text) = (
            str_or_empty(&variable["name"]),
            str_or_empty(&variable["expression"]),
        );
        // An error in a variable is reported by the expressions that use it.
        let _ = declared.declare(&mut environment, name, text);
    }
    let problem = Program::type_check(&environment, text).err()?;
    Some(problem.to_string())
}

/// The kinds to check against: those that rules name without wildcards.
fn kinds_to_check(spec: &Value, kinds: &dyn SchemaResolver) -> Vec<(GroupVersionKind, SchemaRef)> {
    let mut found = BTreeSet::new();
    for rule in array_items(&spec["matchConstraints"]["resourceRules"]) {
        let (Some(groups), Some(versions)) = (
            without_wildcards(&rule["apiGroups"]),
            without_wildcards(&rule["apiVersions"]),
        ) else {
            continue;
        };
        let resources = array_items(&rule["resources"])
            .iter()
            .filter_map(Value::as_str);
        let mut resources: Vec<&str> = resources
            .filter(|resource| !resource.contains(['*', '/']))
            .collect();
        resources.sort_unstable();
        for group in &groups {
            for version in &versions {
                for resource in &resources {
                    let (group, version) = ((*group).to_owned(), (*version).to_owned());
                    let resource =
                        GroupVersionResource::new(group, version, (*resource).to_owned());
                    found.extend(kinds.kind_of(&resource));
                    if found.len() == MAX_CHECKED_KINDS {
                        return with_schemas(found, kinds);
                    }
                }
            }
        }
    }
    with_schemas(found, kinds)
}

fn with_schemas(
    found: BTreeSet<GroupVersionKind>,
    kinds: &dyn SchemaResolver,
) -> Vec<(GroupVersionKind, SchemaRef)> {
    found
        .into_iter()
        .filter_map(|kind| {
            let schema = kinds.schema_of(&kind)?;
            Some((kind, schema))
        })
        .collect()
}

/// The strings of a list, sorted; `None` if one of them has a wildcard.
fn without_wildcards(list: &Value) -> Option<Vec<&str>> {
    let mut words: Vec<&str> = array_items(list).iter().filter_map(Value::as_str).collect();
    words.sort_unstable();
    words
        .iter()
        .all(|word| !word.contains('*'))
        .then_some(words)
}
