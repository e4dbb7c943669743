//! What rhumb answers to the questions that upstream has answered.

use rhumb_expressions::{
    Authorizer, Budget, COST_PER_POLICY_MAX, Decision, Environment, Input, Inputs, Key, Opaque,
    Program, Question, ResourceCheck, Scope, Subject, Target, Value, Variables, Want,
};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Everything that is the same for all questions.
pub(crate) struct World {
    inputs: Json,
    variables: Vec<(String, String)>,
    rules: Rules,
}

#[derive(Debug, Default)]
struct Rules(BTreeMap<String, String>);

impl World {
    pub(crate) fn read(text: &str) -> World {
        let json: Json = serde_json::from_str(text).expect("inputs are JSON");
        let text = |value: &Json| value.as_str().expect("a string").to_owned();
        let variables = json["variables"].as_array().expect("a list");
        let rules = json["authorizer"].as_object().expect("an object");
        World {
            inputs: json["inputs"].clone(),
            variables: variables
                .iter()
                .map(|variable| (text(&variable["name"]), text(&variable["expression"])))
                .collect(),
            rules: Rules(
                rules
                    .iter()
                    .map(|(question, verdict)| (question.clone(), text(verdict)))
                    .collect(),
            ),
        }
    }

    /// The answer in the form in which upstream's is recorded.
    pub(crate) fn reply(&self, expression: &str) -> Json {
        let mut environment = Environment::mutation(true);
        let mut variables = Variables::new();
        for (name, text) in &self.variables {
            let _ = variables.declare(&mut environment, name, text);
        }
        let program = match Program::compile(&environment, expression, Want::Anything) {
            Ok(program) => program,
            Err(error) => return json!({"compile": error.to_string()}),
        };
        let inputs = Inputs {
            object: Input::new(&self.inputs["object"]),
            old_object: Input::new(&self.inputs["oldObject"]),
            request: Input::new(&self.inputs["request"]),
            namespace_object: Input::new(&self.inputs["namespaceObject"]),
            authorizer: Some(&self.rules),
            request_resource: ResourceCheck {
                group: "apps".to_owned(),
                resource: "deployments".to_owned(),
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                ..ResourceCheck::default()
            },
        };
        let params = Input::new(&self.inputs["params"]);
        let mut scope = Scope::new(&inputs)
            .with_params(&params)
            .with_variables(&variables);
        let mut budget = Budget::for_policy(None);
        match program.evaluate(&mut scope, &mut budget) {
            Ok(value) => json!({
                "value": plain(&value),
                "cost": COST_PER_POLICY_MAX - budget.cost_left(),
            }),
            Err(error) => json!({"error": error.to_string()}),
        }
    }
}

impl Authorizer for Rules {
    fn check(&self, question: &Question<'_>) -> Decision {
        let who = match question.subject {
            Subject::Requester => "ada".to_owned(),
            Subject::ServiceAccount { namespace, name } => {
                format!("system:serviceaccount:{namespace}:{name}")
            }
        };
        let verb = question.verb;
        let line = match question.target {
            Target::Path(path) => format!("{who} {verb} {path}"),
            Target::Resource(check) => {
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
                    "{who} {verb} {group}/{resource}/{subresource} {namespace}/{name}{selectors}"
                )
            }
        };
        let decision = |allowed: bool, reason: &str| Decision {
            allowed,
            reason: reason.to_owned(),
            error: None,
        };
        match self.0.get(&line).map(String::as_str) {
            Some("allow") => decision(true, "allowed by the table"),
            Some("deny") => decision(false, "denied by the table"),
            None => decision(false, &format!("not in the table: {line}")),
            Some(error) => Decision {
                error: Some(error.to_owned()),
                ..Decision::default()
            },
        }
    }
}

fn selectors(check: &ResourceCheck) -> String {
    let mut shown = String::new();
    if !check.field_selector.is_empty() {
        let parsed = rhumb_meta::fields::Selector::parse(&check.field_selector);
        let count = parsed
            .as_ref()
            .ok()
            .and_then(|s| s.requirements())
            .map_or(0, <[_]>::len);
        shown.push_str(&format!(" fields {count} {}", parsed.is_err()));
    }
    if !check.label_selector.is_empty() {
        let parsed = rhumb_meta::labels::Selector::parse(&check.label_selector);
        let count = parsed
            .as_ref()
            .ok()
            .and_then(|s| s.requirements())
            .map_or(0, <[_]>::len);
        shown.push_str(&format!(" labels {count} {}", parsed.is_err()));
    }
    shown
}

fn plain(value: &Value) -> Json {
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
                .expect("has a form");
            json!({"timestamp": time})
        }
        Value::Duration(nanos) => json!({"duration": nanos}),
        Value::Optional(inner) => {
            json!({"optional": inner.iter().map(|v| plain(v)).collect::<Vec<_>>()})
        }
        Value::Type(name) => json!({"type": **name}),
        Value::Patch(patch) => {
            let mut fields = json!({"op": *patch.op, "from": *patch.from, "path": *patch.path});
            if let Some(value) = &patch.value {
                fields["value"] = plain(value);
            }
            json!({"patch": fields})
        }
        Value::List(list) => {
            json!({"list": list.items().iter().map(plain).collect::<Vec<_>>()})
        }
        Value::Map(map) => {
            let entries = map.entries().iter().map(|(key, value)| {
                let key = match key {
                    Key::Bool(bool) => json!(bool),
                    Key::Int(int) => json!({"int": int.to_string()}),
                    Key::Uint(uint) => json!({"uint": uint.to_string()}),
                    Key::String(text) => json!(**text),
                };
                json!([key, plain(value)])
            });
            json!({"map": entries.collect::<Vec<_>>()})
        }
        Value::Object(_) => json!({"object": value.to_json().expect("has a form")}),
        Value::Opaque(opaque) => other(opaque),
    }
}

fn other(opaque: &Opaque) -> Json {
    json!({"other": Value::Opaque(opaque.clone()).type_name()})
}

/// The recorded answer, without what does not apply.
pub(crate) fn recorded(mut answer: Json) -> Json {
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

/// Expressions by the reason why rhumb answers otherwise.
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
