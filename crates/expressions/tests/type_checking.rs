//! Type checking of expressions with and without object schemas, and of the required return types.

use rhumb_expressions::{CompositedVariables, Environment, Program, ReturnTypes};
use rhumb_schema::{SchemaRef, Table};

fn object_schema(name: &str) -> Option<SchemaRef> {
    Some(SchemaRef::find(Table::builtin(), name).expect("built in"))
}

fn deployment() -> Environment {
    let params = object_schema("io.k8s.api.core.v1.ConfigMap");
    Environment::type_checking(object_schema("io.k8s.api.apps.v1.Deployment"), Some(params))
}

fn check(environment: &Environment, expression: &str, expected: &str) {
    let found = Program::type_check(environment, expression)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert_eq!(found, expected, "{expression}");
}

#[test]
fn well_typed_expressions_pass() {
    for expression in [
        "object.spec.replicas > 1",
        "object.metadata.namespace == 'a'",
        "object.metadata.__namespace__ == 'a'",
        "object.metadata.labels['a'] == 'b'",
        "object.metadata.labels.a == 'b'",
        "object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
        "object.spec.template.spec.containers.all(c, c.image.contains('/'))",
        "object.spec.strategy.rollingUpdate.maxSurge == 1 || object.spec.strategy.rollingUpdate.maxSurge == '10%'",
        "object.spec.template.spec.containers[0].resources.limits['cpu'] == '1'",
        "oldObject == null || oldObject.spec.replicas <= object.spec.replicas",
        "params.data['max'] == 'x'",
        "has(object.spec.paused) && object.spec.paused",
        "object.spec.?minReadySeconds.orValue(0) > 5",
        "authorizer.path('/x').check('get').allowed()",
    ] {
        check(&deployment(), expression, "");
    }
}

#[test]
fn undefined_fields_and_type_mismatches_are_reported() {
    let cases = [
        (
            "object.spec.replicaz > 1",
            "ERROR: <input>:1:12: undefined field 'replicaz'\n | object.spec.replicaz > 1\n | ...........^",
        ),
        (
            "object.metadata.name > 1",
            "ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(string, int)'\n | object.metadata.name > 1\n | .....................^",
        ),
        (
            "object.spec.template.spec.containers.all(c, c.imge == 'a')",
            "ERROR: <input>:1:46: undefined field 'imge'\n | object.spec.template.spec.containers.all(c, c.imge == 'a')\n | .............................................^",
        ),
        (
            "has(object.spec.nothing)",
            "ERROR: <input>:1:4: undefined field 'nothing'\n | has(object.spec.nothing)\n | ...^",
        ),
        (
            "params.spec.x",
            "ERROR: <input>:1:7: undefined field 'spec'\n | params.spec.x\n | ......^",
        ),
        (
            "object.spec.replicas.x",
            "ERROR: <input>:1:21: type 'int' does not support field selection\n | object.spec.replicas.x\n | ....................^",
        ),
        (
            "object.metadata.labels['a'] == 1",
            "ERROR: <input>:1:29: found no matching overload for '_==_' applied to '(string, int)'\n | object.metadata.labels['a'] == 1\n | ............................^",
        ),
    ];
    for (expression, expected) in cases {
        check(&deployment(), expression, expected);
    }
}

#[test]
fn objects_without_a_schema_are_dyn() {
    let environment = Environment::type_checking(None, None);
    check(&environment, "object.anything.at.all > 1", "");
    check(
        &environment,
        "params.x",
        "ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^",
    );
}

#[test]
fn composited_variables_have_types() {
    let mut environment = deployment();
    let mut variables = CompositedVariables::new();
    variables
        .declare(&mut environment, "count", "object.spec.replicas")
        .expect("compiles");
    check(
        &environment,
        "variables.count == 'a'",
        "ERROR: <input>:1:17: found no matching overload for '_==_' applied to '(int, string)'\n | variables.count == 'a'\n | ................^",
    );
}

#[test]
fn return_types_are_checked() {
    let cases = [
        ("1", ReturnTypes::Bool, "must evaluate to bool but got int"),
        (
            "object",
            ReturnTypes::Bool,
            "must evaluate to bool but got dyn",
        ),
        ("true", ReturnTypes::Bool, ""),
        (
            "null",
            ReturnTypes::String,
            "must evaluate to string but got null_type",
        ),
        ("null", ReturnTypes::StringOrNull, ""),
        ("'a'", ReturnTypes::StringOrNull, ""),
        (
            "1",
            ReturnTypes::StringOrNull,
            "must evaluate to one of [string null_type] but got int",
        ),
        ("Object{}", ReturnTypes::Object, ""),
        (
            "Object.spec{}",
            ReturnTypes::Object,
            "must evaluate to Object but got Object.spec",
        ),
        ("[JSONPatch{op: 'add'}]", ReturnTypes::JsonPatchList, ""),
        (
            "[]",
            ReturnTypes::JsonPatchList,
            "must evaluate to list(JSONPatch) but got list(dyn)",
        ),
        (
            "{'a': timestamp('2020-01-01T00:00:00Z')}",
            ReturnTypes::Bool,
            "must evaluate to bool but got map(string, google.protobuf.Timestamp)",
        ),
        (
            "variables.x",
            ReturnTypes::Any,
            "compilation failed: ERROR: <input>:1:10: undefined field 'x'\n | variables.x\n | .........^",
        ),
    ];
    for (expression, return_types, expected) in cases {
        let found = Program::compile(&Environment::mutation(false), expression, return_types)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert_eq!(found, expected, "{expression}");
    }
}

#[test]
fn undeclared_names_are_rejected() {
    for (environment, expression) in [
        (Environment::match_conditions(), "variables.x"),
        (Environment::match_conditions(), "params.x"),
        (Environment::policy(false), "params.x"),
        (Environment::policy(true), "Object{}"),
        (Environment::policy(true), "JSONPatch{}"),
        (Environment::policy(true), "jsonpatch.escapeKey('a')"),
    ] {
        let error = Program::compile(&environment, expression, ReturnTypes::Any)
            .expect_err(expression)
            .to_string();
        assert!(error.contains("undeclared reference to"), "{error}");
    }
}
