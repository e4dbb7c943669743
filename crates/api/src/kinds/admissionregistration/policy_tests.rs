//! Tests of the validation errors of admission policies and their bindings.

use serde_json::{Value, json};

use super::{
    mutating_admission_policy, mutating_admission_policy_binding, validating_admission_policy,
    validating_admission_policy_binding,
};
use crate::validation_helpers::testing::{check_create, check_status_update, with};

fn rule() -> Value {
    json!({
        "operations": ["CREATE"],
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
        "scope": "*",
    })
}

fn constraints() -> Value {
    json!({
        "matchPolicy": "Exact",
        "namespaceSelector": {},
        "objectSelector": {},
        "resourceRules": [rule()],
    })
}

fn policy() -> Value {
    json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": constraints(),
            "validations": [{"expression": "true"}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/x'}]"}}],
            "reinvocationPolicy": "Never",
        },
    })
}

#[test]
fn validating_policies_are_validated() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        let object = with(&policy(), path, value);
        check_create(&validating_admission_policy::kind(), &object, expect);
    };
    check(
        "spec.paramKind",
        json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        &[],
    );
    check(
        "spec.paramKind",
        json!({"apiVersion": "a/b/c"}),
        &[
            "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            "spec.paramKind.kind: Required value",
        ],
    );
    check(
        "spec.matchConstraints",
        Value::Null,
        &["spec.matchConstraints: Required value"],
    );
    check(
        "spec.matchConstraints",
        json!({}),
        &[
            "spec.matchConstraints.matchPolicy: Required value",
            "spec.matchConstraints.namespaceSelector: Required value",
            "spec.matchConstraints.objectSelector: Required value",
            "spec.matchConstraints.resourceRules: Required value",
        ],
    );
    check(
        "spec.matchConstraints.resourceRules.0.resourceNames",
        json!(["a/b", "c", "c"]),
        &[
            "spec.matchConstraints.resourceRules[0].resourceNames[0]: Invalid value: \"a/b\": may not contain '/'",
            "spec.matchConstraints.resourceRules[0].resourceNames[2]: Duplicate value: \"c\"",
        ],
    );
    check(
        "spec.validations",
        Value::Null,
        &[
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ],
    );
    check(
        "spec.validations.0",
        json!({"message": "a\nb", "messageExpression": " ", "reason": "Boredom"}),
        &[
            "spec.validations[0].expression: Required value: expression is not specified",
            "spec.validations[0].messageExpression: Invalid value: \" \": must be non-empty if specified",
            "spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
            "spec.validations[0].reason: Unsupported value: \"Boredom\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
        ],
    );
    check(
        "spec.variables",
        json!([{"name": "if", "expression": "1"}, {"name": "ok"}]),
        &[
            "spec.variables[0].name: Invalid value: \"if\": must be a valid CEL identifier",
            "spec.variables[1].expression: Required value: expression is not specified",
        ],
    );
    check(
        "spec.auditAnnotations",
        json!([{"key": "a", "valueExpression": "'x'"}, {"key": "a"}]),
        &[
            "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
            "spec.auditAnnotations[1].key: Duplicate value: \"a\"",
        ],
    );
}

#[test]
fn mutating_policies_are_validated() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        let object = with(&policy(), path, value);
        check_create(&mutating_admission_policy::kind(), &object, expect);
    };
    check("spec.reinvocationPolicy", json!("IfNeeded"), &[]);
    check(
        "spec.matchConstraints.resourceRules.0.operations",
        json!(["DELETE"]),
        &[
            "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
        ],
    );
    check(
        "spec.mutations",
        json!([]),
        &["spec.mutations: Required value: mutations must contain at least one item"],
    );
    check(
        "spec.mutations.0",
        json!({"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}}),
        &[
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
        ],
    );
    check(
        "spec.mutations.0.patchType",
        json!("Glue"),
        &[
            "spec.mutations[0].patchType: Unsupported value: \"Glue\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
        ],
    );
}

#[test]
fn policy_bindings_are_validated() {
    let binding = json!({"spec": {
        "policyName": "p",
        "validationActions": ["Deny"],
        "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"},
        "matchResources": constraints(),
    }});
    let check = |path: &str, value: Value, expect: &[&str]| {
        let object = with(&binding, path, value);
        check_create(
            &validating_admission_policy_binding::kind(),
            &object,
            expect,
        );
    };
    check("spec.validationActions", json!(["Warn", "Audit"]), &[]);
    check(
        "spec.policyName",
        json!(""),
        &["spec.policyName: Required value"],
    );
    check(
        "spec.validationActions",
        json!(["Deny", "Warn", "Deny", "Cry"]),
        &[
            "spec.validationActions[2]: Duplicate value: \"Deny\"",
            "spec.validationActions[3]: Unsupported value: \"Cry\": supported values: \"Audit\", \"Deny\", \"Warn\"",
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Deny\",\"Cry\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        ],
    );
    check(
        "spec.validationActions",
        Value::Null,
        &["spec.validationActions: Required value: at least one validation action is required"],
    );
    check(
        "spec.paramRef",
        json!({"name": "x", "selector": {}}),
        &[
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.parameterNotFoundAction: Required value",
        ],
    );
    let deleting = with(
        &binding,
        "spec.matchResources.resourceRules.0.operations",
        json!(["DELETE"]),
    );
    check_create(
        &mutating_admission_policy_binding::kind(),
        &deleting,
        &[
            "spec.matchResources.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
        ],
    );
}

#[test]
fn policy_status_conditions_are_validated() {
    let kind = validating_admission_policy::kind();
    let condition = json!({"type": "Ready", "status": "Maybe", "observedGeneration": -1});
    check_status_update(
        &kind,
        &json!({"status": {"conditions": [condition], "typeChecking": {"expressionWarnings": [{"warning": "w"}]}}}),
        &json!({}),
        &[
            "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
            "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
            "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
            "status.conditions[0].lastTransitionTime: Required value",
            "status.conditions[0].reason: Required value",
        ],
    );
}

#[test]
fn expressions_that_do_not_compile_are_rejected() {
    let undeclared = |path: &str| {
        format!(
            "{path}: Invalid value: \"nope\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^"
        )
    };
    let validating = |path: &str, value: Value, expect: String| {
        let object = with(&policy(), path, value);
        check_create(&validating_admission_policy::kind(), &object, &[&expect]);
    };
    validating(
        "spec.validations",
        json!([{"expression": "nope"}]),
        undeclared("spec.validations[0].expression"),
    );
    validating(
        "spec.validations",
        json!([{"expression": "1 + 1"}]),
        "spec.validations[0].expression: Invalid value: \"1 + 1\": must evaluate to bool but got int".into(),
    );
    validating(
        "spec.validations",
        json!([{"expression": "true", "messageExpression": "nope"}]),
        undeclared("spec.validations[0].messageExpression"),
    );
    validating(
        "spec.variables",
        json!([{"name": "a", "expression": "nope"}]),
        undeclared("spec.variables[0].expression"),
    );
    validating(
        "spec.matchConditions",
        json!([{"name": "a", "expression": " nope "}]),
        undeclared("spec.matchConditions[0].expression"),
    );
    validating(
        "spec.auditAnnotations",
        json!([{"key": "a", "valueExpression": "nope"}]),
        undeclared("spec.auditAnnotations[0].valueExpression"),
    );
    let mutating = |value: Value, expect: String| {
        let object = with(&policy(), "spec.mutations", value);
        check_create(&mutating_admission_policy::kind(), &object, &[&expect]);
    };
    mutating(
        json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "nope"}}]),
        undeclared("spec.mutations[0].applyConfiguration.expression"),
    );
    mutating(
        json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": "nope"}}]),
        undeclared("spec.mutations[0].jsonPatch.expression"),
    );
}

#[test]
fn expressions_may_use_variables_declared_earlier() {
    let object = with(
        &policy(),
        "spec.variables",
        json!([{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.a + 1"}]),
    );
    let object = with(
        &object,
        "spec.validations",
        json!([{"expression": "variables.b == 2 && params.x"}]),
    );
    let object = with(
        &object,
        "spec.paramKind",
        json!({"apiVersion": "v1", "kind": "ConfigMap"}),
    );
    check_create(&validating_admission_policy::kind(), &object, &[]);
}
