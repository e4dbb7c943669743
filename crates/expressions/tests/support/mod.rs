//! Conformance harness: evaluates expressions whose upstream results are recorded.

use rhumb_expressions::{
    Activation, AuthorizationCheck, AuthorizationDecision, AuthorizationSubject,
    AuthorizationTarget, COST_PER_POLICY_MAX, CompositedVariables, Environment, EvaluationBudget,
    JsonInput, MapKey, OpaqueValue, PermissionChecker, Program, RequestInputs, ResourceCheck,
    ReturnTypes, Value,
};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Evaluates expressions with the inputs shared by all recorded expressions.
pub(crate) struct ConformanceHarness {
    inputs: Json,
    variables: Vec<(String, String)>,
    authorizer: TableAuthorizer,
}

/// Decisions by `user verb group/resource/subresource namespace/name` or `user verb path`.
#[derive(Debug, Default)]
struct TableAuthorizer(BTreeMap<String, String>);

impl ConformanceHarness {
    pub(crate) fn read(text: &str) -> ConformanceHarness {
        let json: Json = serde_json::from_str(text).expect("inputs are JSON");
        let text = |value: &Json| value.as_str().expect("a string").to_owned();
        let variables = json["variables"].as_array().expect("a list");
        let authorizer = json["authorizer"].as_object().expect("an object");
        ConformanceHarness {
            inputs: json["inputs"].clone(),
            variables: variables
                .iter()
                .map(|variable| (text(&variable["name"]), text(&variable["expression"])))
                .collect(),
            authorizer: TableAuthorizer(
                authorizer
                    .iter()
                    .map(|(check, decision)| (check.clone(), text(decision)))
                    .collect(),
            ),
        }
    }

    /// Evaluates an expression; the result has the format of the recorded upstream results.
    pub(crate) fn evaluate(&self, expression: &str) -> Json {
        let mut environment = Environment::mutation(true);
        let mut variables = CompositedVariables::new();
        for (name, text) in &self.variables {
            let _ = variables.declare(&mut environment, name, text);
        }
        let program = match Program::compile(&environment, expression, ReturnTypes::Any) {
            Ok(program) => program,
            Err(error) => return json!({"compile": error.to_string()}),
        };
        let inputs = RequestInputs {
            object: JsonInput::new(&self.inputs["object"]),
            old_object: JsonInput::new(&self.inputs["oldObject"]),
            request: JsonInput::new(&self.inputs["request"]),
            namespace_object: JsonInput::new(&self.inputs["namespaceObject"]),
            authorizer: Some(&self.authorizer),
            request_resource: ResourceCheck {
                group: "apps".to_owned(),
                resource: "deployments".to_owned(),
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                ..ResourceCheck::default()
            },
        };
        let params = JsonInput::new(&self.inputs["params"]);
        let mut activation = Activation::new(&inputs)
            .with_params(&params)
            .with_variables(&variables);
        let mut budget = EvaluationBudget::for_policy(None);
        match program.evaluate(&mut activation, &mut budget) {
            Ok(value) => json!({
                "value": to_conformance_json(&value),
                "cost": COST_PER_POLICY_MAX - budget.cost_left(),
            }),
            Err(error) => json!({"error": error.to_string()}),
        }
    }
}

impl PermissionChecker for TableAuthorizer {
    fn check(&self, check: &AuthorizationCheck<'_>) -> AuthorizationDecision {
        let user = match check.subject {
            AuthorizationSubject::RequestUser => "ada".to_owned(),
            AuthorizationSubject::ServiceAccount { namespace, name } => {
                format!("system:serviceaccount:{namespace}:{name}")
            }
        };
        let verb = check.verb;
        let line = match check.target {
            AuthorizationTarget::Path(path) => format!("{user} {verb} {path}"),
            AuthorizationTarget::Resource(check) => {
                let ResourceCheck {
                    group,
                    resource,
                    subresource,
                    namespace,
                    name,
                    ..
                } = check;
                let selectors = selectors(check);
                format!(
                    "{user} {verb} {group}/{resource}/{subresource} {namespace}/{name}{selectors}"
                )
            }
        };
        let decision = |allowed: bool, reason: &str| AuthorizationDecision {
            allowed,
            reason: reason.to_owned(),
            error: None,
        };
        match self.0.get(&line).map(String::as_str) {
            Some("allow") => decision(true, "allowed by the table"),
            Some("deny") => decision(false, "denied by the table"),
            None => decision(false, &format!("not in the table: {line}")),
            Some(error) => AuthorizationDecision {
                error: Some(error.to_owned()),
                ..AuthorizationDecision::default()
            },
        }
    }
}

fn selectors(check: &ResourceCheck) -> String {
    let mut displayed = String::new();
    if !check.field_selector.is_empty() {
        let parsed = rhumb_meta::fields::Selector::parse(&check.field_selector);
        let count = parsed
            .as_ref()
            .ok()
            .and_then(|s| s.requirements())
            .map_or(0, <[_]>::len);
        displayed.push_str(&format!(" fields {count} {}", parsed.is_err()));
    }
    if !check.label_selector.is_empty() {
        let parsed = rhumb_meta::labels::Selector::parse(&check.label_selector);
        let count = parsed
            .as_ref()
            .ok()
            .and_then(|s| s.requirements())
            .map_or(0, <[_]>::len);
        displayed.push_str(&format!(" labels {count} {}", parsed.is_err()));
    }
    displayed
}

fn to_conformance_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(bool) => json!(bool),
        Value::Int(int) => json!({"int": int.to_string()}),
        Value::Uint(uint) => json!({"uint": uint.to_string()}),
        Value::Double(double) => json!({"double": rhumb_meta::gotext::float(*double)}),
        Value::String(text) => json!(**text),
        Value::Bytes(bytes) => {
            json!({"bytes": bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()})
        }
        Value::Timestamp(seconds, nanos) => {
            let time = Value::Timestamp(*seconds, *nanos)
                .to_json()
                .expect("convertible to JSON");
            json!({"timestamp": time})
        }
        Value::Duration(nanos) => json!({"duration": nanos}),
        Value::Optional(inner) => {
            json!({"optional": inner.iter().map(|v| to_conformance_json(v)).collect::<Vec<_>>()})
        }
        Value::Type(name) => json!({"type": **name}),
        Value::JsonPatch(patch) => {
            let mut fields = json!({"op": *patch.op, "from": *patch.from, "path": *patch.path});
            if let Some(value) = &patch.value {
                fields["value"] = to_conformance_json(value);
            }
            json!({"patch": fields})
        }
        Value::List(list) => {
            json!({"list": list.items().iter().map(to_conformance_json).collect::<Vec<_>>()})
        }
        Value::Map(map) => {
            let entries = map.entries().iter().map(|(key, value)| {
                let key = match key {
                    MapKey::Bool(bool) => json!(bool),
                    MapKey::Int(int) => json!({"int": int.to_string()}),
                    MapKey::Uint(uint) => json!({"uint": uint.to_string()}),
                    MapKey::String(text) => json!(**text),
                };
                json!([key, to_conformance_json(value)])
            });
            json!({"map": entries.collect::<Vec<_>>()})
        }
        Value::Object(_) => json!({"object": value.to_json().expect("convertible to JSON")}),
        Value::Opaque(opaque) => opaque_to_json(opaque),
    }
}

fn opaque_to_json(opaque: &OpaqueValue) -> Json {
    json!({"other": Value::Opaque(opaque.clone()).type_name()})
}

/// The fields of a recorded result that apply: the compile error, the evaluation error, or the value and cost.
pub(crate) fn expected_result(mut answer: Json) -> Json {
    let fields = answer.as_object_mut().expect("an object");
    let keep: &[&str] = if fields["compile"] != "" {
        &["compile"]
    } else if fields["error"] != "" {
        &["error"]
    } else {
        &["value", "cost"]
    };
    fields.retain(|name, _| keep.contains(&name.as_str()));
    answer
}

/// The expressions with a different result in rhumb, and the reasons.
pub(crate) fn differences(text: &str) -> BTreeMap<&str, &str> {
    let mut reason = "";
    let mut differences = BTreeMap::new();
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(heading) => reason = heading,
            None if line.is_empty() => {}
            None => {
                differences.insert(line, reason);
            }
        }
    }
    differences
}
