//! What a type checker says about expressions when it knows what the objects are.

use rhumb_expressions::{Environment, Program, Schema, Variables, Want};
use rhumb_schema::Table;

fn of(name: &str) -> Option<(Schema, rhumb_schema::TypeId)> {
    let table = Table::builtin();
    Some((Schema::Builtin(table), table.named(name).expect("built in")))
}

fn deployment() -> Environment {
    let params = of("io.k8s.api.core.v1.ConfigMap");
    Environment::type_checking(of("io.k8s.api.apps.v1.Deployment"), Some(params))
}

fn check(environment: &Environment, expression: &str, expected: &str) {
    let found = Program::type_check(environment, expression)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert_eq!(found, expected, "{expression}");
}

#[test]
fn what_is_right_is_right() {
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
fn what_does_not_exist_or_fit_is_said() {
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
fn what_is_not_known_may_be_anything() {
    let environment = Environment::type_checking(None, None);
    check(&environment, "object.anything.at.all > 1", "");
    check(
        &environment,
        "params.x",
        "ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^",
    );
}

#[test]
fn variables_have_types_too() {
    let mut environment = deployment();
    let mut variables = Variables::new();
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
fn what_an_expression_must_evaluate_to() {
    let cases = [
        ("1", Want::Bool, "must evaluate to bool but got int"),
        ("object", Want::Bool, "must evaluate to bool but got dyn"),
        ("true", Want::Bool, ""),
        (
            "null",
            Want::String,
            "must evaluate to string but got null_type",
        ),
        ("null", Want::StringOrNull, ""),
        ("'a'", Want::StringOrNull, ""),
        (
            "1",
            Want::StringOrNull,
            "must evaluate to one of [string null_type] but got int",
        ),
        ("Object{}", Want::Object, ""),
        (
            "Object.spec{}",
            Want::Object,
            "must evaluate to Object but got Object.spec",
        ),
        ("[JSONPatch{op: 'add'}]", Want::Patches, ""),
        (
            "[]",
            Want::Patches,
            "must evaluate to list(JSONPatch) but got list(dyn)",
        ),
        (
            "{'a': timestamp('2020-01-01T00:00:00Z')}",
            Want::Bool,
            "must evaluate to bool but got map(string, google.protobuf.Timestamp)",
        ),
        (
            "variables.x",
            Want::Anything,
            "compilation failed: ERROR: <input>:1:10: undefined field 'x'\n | variables.x\n | .........^",
        ),
    ];
    for (expression, want, expected) in cases {
        let found = Program::compile(&Environment::mutation(false), expression, want)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert_eq!(found, expected, "{expression}");
    }
}

#[test]
fn names_that_an_environment_does_not_have() {
    for (environment, expression) in [
        (Environment::match_conditions(), "variables.x"),
        (Environment::match_conditions(), "params.x"),
        (Environment::policy(false), "params.x"),
        (Environment::policy(true), "Object{}"),
        (Environment::policy(true), "JSONPatch{}"),
        (Environment::policy(true), "jsonpatch.escapeKey('a')"),
    ] {
        let error = Program::compile(&environment, expression, Want::Anything)
            .expect_err(expression)
            .to_string();
        assert!(error.contains("undeclared reference to"), "{error}");
    }
}
