//! Time to compile an expression, to convert a pod to a CEL value, and to evaluate the expression.

use rhumb_expressions::{
    Activation, Environment, EvaluationBudget, JsonInput, Program, RequestInputs, ReturnTypes,
};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;

const EXPRESSIONS: [&str; 5] = [
    "object.metadata.name == 'web'",
    "has(object.spec.hostNetwork) && object.spec.hostNetwork",
    "object.spec.containers.all(c, c.image.startsWith('registry.test/'))",
    "object.spec.containers.all(c, has(c.resources.limits) && quantity(c.resources.limits.cpu).isLessThan(quantity('2')))",
    "object.metadata.labels.exists(k, k.matches('^team-[a-z]+$'))",
];
const TIMES: u32 = 20_000;

fn pod() -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.test/{name}:1.2.3"),
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "team-blue": "yes"}},
        "spec": {"containers": [container("main"), container("log"), container("proxy")],
                 "volumes": [{"name": "data", "emptyDir": {}}], "serviceAccountName": "default"}
    })
}

fn report(what: &str, times: u32, work: impl Fn()) {
    let started = Instant::now();
    for _ in 0..times {
        work();
    }
    let each = started.elapsed() / times;
    println!("{each:>10.2?}  {what}");
}

fn main() {
    let pod = pod();
    let environment = Environment::policy(false);
    report("convert a pod", TIMES, || {
        let inputs = RequestInputs {
            object: JsonInput::new(&pod),
            ..RequestInputs::default()
        };
        let program = Program::compile(&environment, "object", ReturnTypes::Any);
        let program = program.expect("compiles");
        let value = program.evaluate(
            &mut Activation::new(&inputs),
            &mut EvaluationBudget::for_policy(None),
        );
        black_box(value.is_ok());
    });
    let inputs = RequestInputs {
        object: JsonInput::new(&pod),
        ..RequestInputs::default()
    };
    for expression in EXPRESSIONS {
        report(&format!("compile {expression}"), TIMES / 10, || {
            let program = Program::compile(&environment, black_box(expression), ReturnTypes::Bool);
            black_box(program.is_ok());
        });
        let program =
            Program::compile(&environment, expression, ReturnTypes::Bool).expect("compiles");
        report(&format!("evaluate {expression}"), TIMES, || {
            let value = program.evaluate(
                &mut Activation::new(&inputs),
                &mut EvaluationBudget::for_policy(None),
            );
            black_box(value.is_ok());
        });
    }
}
