//! Printers of the admissionregistration group: webhook configurations and admission policies.

use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use super::json_view::JsonView;
use super::{AGE, NAME, age, name};
use crate::JsonObject;
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    Some(match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => WEBHOOKS,
        "MutatingAdmissionPolicy" => MUTATING_POLICY,
        "ValidatingAdmissionPolicy" => VALIDATING_POLICY,
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => BINDING,
        _ => return None,
    })
}

const PARAM_KIND: TableColumn =
    TableColumn::text("ParamKind", "The kind of the policy's parameters.");

const WEBHOOKS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::integer("Webhooks", "How many webhooks it declares."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let webhooks = object.key("webhooks").item_count();
        vec![name(object), json!(webhooks), age(object, now)]
    },
);

const MUTATING_POLICY: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::integer("Mutations", "How many mutations it makes."),
        PARAM_KIND,
        AGE,
    ],
    |object, now| policy(object, "mutations", now),
);

const VALIDATING_POLICY: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::integer("Validations", "How many rules it checks."),
        PARAM_KIND,
        AGE,
    ],
    |object, now| policy(object, "validations", now),
);

const BINDING: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("PolicyName", "The policy it binds."),
        TableColumn::text("ParamRef", "The parameter objects of the policy."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        vec![
            name(object),
            json!(object.at("spec.policyName").str()),
            params(object.at("spec.paramRef")).into(),
            age(object, now),
        ]
    },
);

fn policy(object: &JsonObject, rules: &str, now: Timestamp) -> Vec<Value> {
    let object = JsonView::Root(object);
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
        json!(object.key("spec").key(rules).item_count()),
        params.into(),
        age(object, now),
    ]
}

fn params(reference: JsonView<'_>) -> String {
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

/// A label selector as Go's generated `String` method formats it.
fn go_text(selector: JsonView<'_>) -> String {
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
