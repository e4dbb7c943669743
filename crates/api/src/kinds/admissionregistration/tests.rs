//! Tests of the validation errors of webhook configurations.

use serde_json::{Value, json};

use super::{
    mutating_webhook_configuration, validating_admission_policy, validating_webhook_configuration,
};
use crate::validation_helpers::testing::{check_create, check_update, warnings, with};

fn rule() -> Value {
    json!({
        "operations": ["CREATE"],
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
        "scope": "*",
    })
}

fn configuration() -> Value {
    json!({
        "metadata": {"name": "hooks"},
        "webhooks": [{
            "name": "a.example.com",
            "clientConfig": {"url": "https://hooks.example.com/a"},
            "rules": [rule()],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10,
        }],
    })
}

fn check_webhook(path: &str, value: Value, expect: &[&str]) {
    let object = with(&configuration(), &format!("webhooks.0.{path}"), value);
    check_create(&validating_webhook_configuration::kind(), &object, expect);
    check_create(&mutating_webhook_configuration::kind(), &object, expect);
}

#[test]
fn webhook_name_side_effects_and_versions_are_required() {
    check_webhook("timeoutSeconds", json!(30), &[]);
    check_webhook("name", Value::Null, &["webhooks[0].name: Required value"]);
    check_webhook(
        "name",
        json!("a.b"),
        &[
            "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        ],
    );
    check_webhook(
        "sideEffects",
        Value::Null,
        &["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
    );
    check_webhook(
        "sideEffects",
        json!("Some"),
        &[
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        ],
    );
    check_webhook(
        "timeoutSeconds",
        json!(31),
        &[
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ],
    );
    check_webhook(
        "failurePolicy",
        json!("Shrug"),
        &[
            "webhooks[0].failurePolicy: Unsupported value: \"Shrug\": supported values: \"Fail\", \"Ignore\"",
        ],
    );
    check_webhook(
        "matchPolicy",
        json!("About"),
        &[
            "webhooks[0].matchPolicy: Unsupported value: \"About\": supported values: \"Equivalent\", \"Exact\"",
        ],
    );
    check_webhook(
        "reinvocationPolicy",
        json!("Twice"),
        &[
            "webhooks[0].reinvocationPolicy: Unsupported value: \"Twice\": supported values: \"IfNeeded\", \"Never\"",
        ],
    );
}

#[test]
fn review_versions_include_a_known_one() {
    let check = |versions: Value, expect: &[&str]| {
        check_webhook("admissionReviewVersions", versions, expect);
    };
    let at = "webhooks[0].admissionReviewVersions";
    check(json!(["v1beta1", "v9"]), &[]);
    check(
        json!([]),
        &[&format!(
            "{at}: Required value: must specify one of v1, v1beta1"
        )],
    );
    check(
        json!(["v9"]),
        &[&format!(
            "{at}: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1"
        )],
    );
    check(
        json!(["v1", "v1"]),
        &[&format!(
            "{at}[1]: Invalid value: \"v1\": duplicate version"
        )],
    );
}

#[test]
fn client_config_has_either_url_or_service() {
    let check = |config: Value, expect: &[&str]| check_webhook("clientConfig", config, expect);
    let at = "webhooks[0].clientConfig";
    check(
        json!({}),
        &[&format!(
            "{at}: Required value: exactly one of url or service is required"
        )],
    );
    check(
        json!({"url": "http://me@host?a=b#c"}),
        &[
            &format!(
                "{at}.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"
            ),
            &format!(
                "{at}.url: Invalid value: \"me\": user information is not permitted in the URL"
            ),
            &format!("{at}.url: Invalid value: \"c\": fragments are not permitted in the URL"),
            &format!(
                "{at}.url: Invalid value: \"a=b\": query parameters are not permitted in the URL"
            ),
        ],
    );
    check(
        json!({"url": "https:///path"}),
        &[&format!(
            "{at}.url: Invalid value: \"\": host must be specified; desired format: https://host[/path]"
        )],
    );
    let service =
        |path: &str| json!({"service": {"name": "a", "namespace": "b", "port": 443, "path": path}});
    check(service("/apis/run.me/"), &[]);
    check(
        service("/a//b"),
        &[&format!(
            "{at}.service.path: Invalid value: \"/a//b\": segment[1] may not be empty"
        )],
    );
    check(
        service("//"),
        &[&format!(
            "{at}.service.path: Invalid value: \"//\": segment[0] may not be empty"
        )],
    );
    check(
        json!({"service": {"port": 0}}),
        &[
            &format!("{at}.service.name: Required value"),
            &format!("{at}.service.namespace: Required value"),
            &format!(
                "{at}.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"
            ),
        ],
    );
}

#[test]
fn webhook_rules_are_validated() {
    let check = |name: &str, value: Value, expect: &[&str]| {
        let expect: Vec<String> = expect
            .iter()
            .map(|text| format!("webhooks[0].rules[0].{text}"))
            .collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        check_webhook(&format!("rules.0.{name}"), value, &expect);
    };
    check("resources", json!(["pods", "pods/*", "*/scale"]), &[]);
    check("operations", json!([]), &["operations: Required value"]);
    check(
        "operations",
        json!(["*", "READ"]),
        &[
            "operations: Invalid value: [\"*\",\"READ\"]: if '*' is present, must not specify other operations",
            "operations[1]: Unsupported value: \"READ\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
        ],
    );
    check(
        "apiGroups",
        json!(["*", "apps"]),
        &[
            "apiGroups: Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups",
        ],
    );
    check(
        "apiVersions",
        json!(["", "*"]),
        &[
            "apiVersions: Invalid value: [\"\",\"*\"]: if '*' is present, must not specify other API versions",
            "apiVersions[0]: Required value",
        ],
    );
    check(
        "resources",
        json!(["a/*", "a/b", "*/c", "d/c"]),
        &[
            "resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b",
            "resources[3]: Invalid value: \"d/c\": if '*/c' is present, must not specify d/c",
        ],
    );
    check(
        "resources",
        json!(["*", "a"]),
        &[
            "resources: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other resources without subresources",
        ],
    );
    check(
        "resources",
        json!(["*/*", "*"]),
        &[
            "resources: Invalid value: [\"*/*\",\"*\"]: if '*/*' is present, must not specify other resources",
        ],
    );
    check(
        "scope",
        json!("Galaxy"),
        &[
            "scope: Unsupported value: \"Galaxy\": supported values: \"*\", \"Cluster\", \"Namespaced\"",
        ],
    );
}

#[test]
fn match_conditions_are_validated() {
    let check = |conditions: Value, expect: &[&str]| {
        check_webhook("matchConditions", conditions, expect);
    };
    let at = "webhooks[0].matchConditions";
    check(json!([{"name": "a", "expression": "true"}]), &[]);
    check(
        json!([{"name": "a", "expression": " "}, {"expression": "true"}, {"name": "a", "expression": "true"}]),
        &[
            &format!("{at}[0].expression: Required value"),
            &format!("{at}[1].name: Required value"),
            &format!("{at}[2].name: Duplicate value: \"a\""),
        ],
    );
    let many: Vec<Value> = (0..65)
        .map(|n| json!({"name": format!("c{n}"), "expression": "true"}))
        .collect();
    check(
        json!(many),
        &[&format!("{at}: Too many: 65: must have at most 64 items")],
    );
}

#[test]
fn existing_invalid_fields_are_accepted_on_update() {
    let kind = validating_webhook_configuration::kind();
    let hook = configuration()["webhooks"][0].clone();
    let twice = with(&configuration(), "webhooks", json!([hook, hook]));
    let expect = ["webhooks[1].name: Duplicate value: \"a.example.com\""];
    check_create(&kind, &twice, &expect);
    check_update(&kind, &twice, &configuration(), &expect);
    check_update(&kind, &twice, &twice, &[]);

    let loud = with(&configuration(), "webhooks.0.sideEffects", json!("Some"));
    check_update(&kind, &loud, &loud, &[]);
    let nameless = json!([{"expression": "true"}]);
    let odd = with(&configuration(), "webhooks.0.matchConditions", nameless);
    check_update(&kind, &odd, &odd, &[]);
}

#[test]
fn reserved_names_cause_a_warning() {
    let object = json!({"metadata": {"name": "a.static.k8s.io"}});
    let expect = "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based \
                  configurations and cannot be managed via the API";
    assert_eq!(
        warnings(&mutating_webhook_configuration::kind(), &object),
        [expect]
    );
    assert_eq!(
        warnings(&validating_admission_policy::kind(), &object),
        [expect]
    );
}
