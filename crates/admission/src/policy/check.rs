//! What a type checker has to say about the expressions of a policy. It changes nothing about what the policy does.

use std::collections::BTreeSet;

use rhumb_expressions::{Environment, Program, Schema, Variables};
use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use rhumb_schema::TypeId;
use serde_json::{Value, json};

use super::items;
use crate::Object;
use crate::conditions::text_of;

/// So many kinds are looked at, as upstream does.
const KINDS_MAX: usize = 10;

/// Knows kinds and their types.
pub trait Kinds {
    /// The kind of a resource.
    fn kind_of(&self, resource: &GroupVersionResource) -> Option<GroupVersionKind>;

    /// What its objects look like.
    fn schema_of(&self, kind: &GroupVersionKind) -> Option<(Schema, TypeId)>;
}

/// The warnings about a policy, as its status has them.
pub fn expression_warnings(policy: &Object, kinds: &dyn Kinds) -> Vec<Value> {
    let nothing = Value::Null;
    let spec = policy.get("spec").unwrap_or(&nothing);
    let checked = kinds_to_check(spec, kinds);
    let params = spec["paramKind"].is_object().then(|| {
        let kind = &spec["paramKind"];
        let (version, kind) = (text_of(&kind["apiVersion"]), text_of(&kind["kind"]));
        let kind = GroupVersionKind::from_type_meta(version, kind).ok()?;
        kinds.schema_of(&kind)
    });
    let mut warnings = Vec::new();
    for (number, validation) in items(&spec["validations"]).iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let text = text_of(&validation[field]);
            if text.is_empty() {
                continue;
            }
            let problems: Vec<String> = checked
                .iter()
                .filter_map(|(kind, schema)| {
                    let of = (schema.clone(), params.clone());
                    let problem = problem_of(text, &spec["variables"], of)?;
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

type Types = ((Schema, TypeId), Option<Option<(Schema, TypeId)>>);

fn problem_of(text: &str, variables: &Value, (object, params): Types) -> Option<String> {
    let mut environment = Environment::type_checking(Some(object), params);
    let mut declared = Variables::new();
    for variable in items(variables) {
        let (name, text) = (text_of(&variable["name"]), text_of(&variable["expression"]));
        // What is wrong with it is told where it is used.
        let _ = declared.declare(&mut environment, name, text);
    }
    let problem = Program::type_check(&environment, text).err()?;
    Some(problem.to_string())
}

/// The kinds that rules name outright: who asks for all of them cannot mean any in particular.
fn kinds_to_check(spec: &Value, kinds: &dyn Kinds) -> Vec<(GroupVersionKind, (Schema, TypeId))> {
    let mut found = BTreeSet::new();
    for rule in items(&spec["matchConstraints"]["resourceRules"]) {
        let (Some(groups), Some(versions)) =
            (plain(&rule["apiGroups"]), plain(&rule["apiVersions"]))
        else {
            continue;
        };
        let resources = items(&rule["resources"]).iter().filter_map(Value::as_str);
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
                    if found.len() == KINDS_MAX {
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
    kinds: &dyn Kinds,
) -> Vec<(GroupVersionKind, (Schema, TypeId))> {
    found
        .into_iter()
        .filter_map(|kind| {
            let schema = kinds.schema_of(&kind)?;
            Some((kind, schema))
        })
        .collect()
}

/// The words of a list, sorted; `None` if a star is among them.
fn plain(list: &Value) -> Option<Vec<&str>> {
    let mut words: Vec<&str> = items(list).iter().filter_map(Value::as_str).collect();
    words.sort_unstable();
    words
        .iter()
        .all(|word| !word.contains('*'))
        .then_some(words)
}
