//! Webhooks and policies that look at requests.

use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use super::part::Part;
use super::{AGE, NAME, age, name};
use crate::Object;
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    Some(match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => WEBHOOKS,
        "MutatingAdmissionPolicy" => MUTATING_POLICY,
        "ValidatingAdmissionPolicy" => VALIDATING_POLICY,
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => BINDING,
        _ => return None,
    })
}

const PARAM_KIND: Column = Column::text("ParamKind", "The kind of objects that tune the policy.");

const WEBHOOKS: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Webhooks", "How many webhooks it declares."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        let webhooks = object.key("webhooks").len();
        vec![name(object), json!(webhooks), age(object, now)]
    },
);

const MUTATING_POLICY: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Mutations", "How many mutations it makes."),
        PARAM_KIND,
        AGE,
    ],
    |object, now| policy(object, "mutations", now),
);

const VALIDATING_POLICY: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Validations", "How many rules it checks."),
        PARAM_KIND,
        AGE,
    ],
    |object, now| policy(object, "validations", now),
);

const BINDING: Printer = Printer::new(
    &[
        NAME,
        Column::text("PolicyName", "The policy it puts to use."),
        Column::text("ParamRef", "The objects that tune the policy."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        vec![
            name(object),
            json!(object.at("spec.policyName").str()),
            params(object.at("spec.paramRef")).into(),
            age(object, now),
        ]
    },
);

fn policy(object: &Object, rules: &str, now: Timestamp) -> Vec<Value> {
    let object = Part::Root(object);
    let params = object.at("spec.paramKind");
    let params = if params.exists() {
        format!(
            "{}/{}",
            params.key("apiVersion").str(),
            params.key("kind").str()
        )
    } else {
        "<unset>".to_string()
    };
    vec![
        name(object),
        json!(object.key("spec").key(rules).len()),
        params.into(),
        age(object, now),
    ]
}

fn params(reference: Part<'_>) -> String {
    let name = reference.key("name").str();
    if !name.is_empty() {
        return format!("{}/{name}", reference.key("namespace").str_or("*"));
    }
    let selector = reference.key("selector");
    if selector.exists() {
        go_text(selector)
    } else {
        "<unset>".to_string()
    }
}

/// A label selector the way Go's generated code writes it.
fn go_text(selector: Part<'_>) -> String {
    let labels: String = selector
        .key("matchLabels")
        .object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: String = selector
        .key("matchExpressions")
        .items()
        .map(|expression| {
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                expression.key("key").str(),
                expression.key("operator").str(),
                expression.key("values").join(None, " "),
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
