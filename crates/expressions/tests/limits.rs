//! No expression blocks a thread, exhausts the stack or memory, or panics.

use rhumb_expressions::{
    Activation, COST_PER_POLICY_MAX, CompositedVariables, Environment, EvaluationBudget,
    EvaluationError, JsonInput, Program, RequestInputs, ReturnTypes, Value,
};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

/// The stack size of the server's threads.
const STACK_BYTES: usize = 2 << 20;

fn run_on_small_stack(check: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(check)
        .expect("a thread")
        .join()
        .expect("no panic");
}

fn compile(text: &str) -> Result<Program, String> {
    Program::compile(&Environment::mutation(true), text, ReturnTypes::Any)
        .map_err(|error| error.to_string())
}

fn evaluate(text: &str, object: &Json) -> Result<Value, EvaluationError> {
    let inputs = RequestInputs {
        object: JsonInput::new(object),
        ..RequestInputs::default()
    };
    let program = compile(text).expect("it compiles");
    let mut budget = EvaluationBudget::for_policy(Some(Instant::now() + Duration::from_secs(5)));
    program.evaluate(&mut Activation::new(&inputs), &mut budget)
}

fn nested(open: &str, middle: &str, close: &str, times: usize) -> String {
    format!("{}{middle}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn nesting_within_the_limits_fits_on_a_small_stack() {
    run_on_small_stack(|| {
        let object = json!({"a": 1});
        for times in [1, 10, 20, 39, 60, 79, 80, 100, 119, 120, 121, 1000, 20_000] {
            let sum = vec!["1"; times].join("+");
            let texts = [
                nested("(", "1", ")", times),
                nested("[", "", "]", times),
                nested("{'a':", "1", "}", times),
                nested("size([", "", "])", times),
                nested("!(", "true", ")", times),
                nested("Object{a:", "1", "}", times),
                nested("[1].map(x,", "x", ")", times),
                nested("[1].all(x,", "x>0", ")", times),
                nested("[1].filter(x, [1].exists(y,", "x == y", "))", times),
                nested("true ? ", "1", ": 2", times.min(10_000)),
                format!("{}2", "true?1:".repeat(times)),
                format!("object{}", ".a".repeat(times)),
                format!("object{}", "[0]".repeat(times)),
                format!("object{}", ".?a".repeat(times)),
                format!("object{}", ".a(1)".repeat(times)),
                format!("[1]{}", ".map(x, [x])".repeat(times)),
                format!("optional.of(1){}", ".optMap(x, x)".repeat(times)),
                format!("[1]{}", ".map(x, {x: x})".repeat(times)),
                sum.clone(),
                sum.replace('+', "-"),
                sum.replace('+', "=="),
                format!("{}1", "-".repeat(times)),
                format!("{}true", "!".repeat(times)),
                vec!["true"; times].join("&&"),
                vec!["true"; times].join("||"),
                format!("[{}]", vec!["1"; times].join(",")),
                "(".repeat(times),
                "[".repeat(times),
                "a.".repeat(times),
                "'".repeat(times),
            ];
            for text in texts {
                if let Ok(program) = compile(&text) {
                    let inputs = RequestInputs {
                        object: JsonInput::new(&object),
                        ..RequestInputs::default()
                    };
                    let mut budget =
                        EvaluationBudget::for_policy(Some(Instant::now() + Duration::from_secs(5)));
                    let _ = program.evaluate(&mut Activation::new(&inputs), &mut budget);
                }
            }
        }
    });
}

#[test]
fn deep_or_long_expressions_are_rejected() {
    let cases = [
        (
            nested("(", "1", ")", 80),
            "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 80",
        ),
        (
            vec!["1"; 122].join("+"),
            "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded",
        ),
        (
            "x".repeat(100_001),
            "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000",
        ),
    ];
    for (text, error) in cases {
        assert_eq!(compile(&text).expect_err("too deep"), error);
    }
    assert!(compile(&nested("(", "1", ")", 79)).is_ok());
    assert!(compile(&vec!["1"; 120].join("+")).is_ok());
}

#[test]
fn nested_variables_count_towards_the_evaluation_depth() {
    run_on_small_stack(|| {
        let mut environment = Environment::policy(false);
        let mut variables = CompositedVariables::new();
        variables
            .declare(&mut environment, "v0", "[1]")
            .expect("compiles");
        for index in 1..500 {
            let text = format!("[variables.v{}]", index - 1);
            let _ = variables.declare(&mut environment, &format!("v{index}"), &text);
        }
        let program = Program::compile(
            &environment,
            "dyn(variables.v499) == null",
            ReturnTypes::Bool,
        )
        .expect("compiles");
        let inputs = RequestInputs::default();
        let mut activation = Activation::new(&inputs).with_variables(&variables);
        let mut budget = EvaluationBudget::for_policy(None);
        let error = program
            .evaluate(&mut activation, &mut budget)
            .expect_err("too deep");
        assert_eq!(error, EvaluationError::TooDeep);
    });
}

#[test]
fn values_that_double_with_each_variable_are_limited() {
    for (first, next) in [
        ("'x'", "variables.v + variables.v"),
        ("[1]", "variables.v + variables.v"),
        ("[1]", "[variables.v, variables.v]"),
        ("{'a': 1}", "{'a': variables.v, 'b': variables.v}"),
        ("'x'", "'%s%s'.format([variables.v, variables.v])"),
        ("'x'", "[variables.v, variables.v].join()"),
        ("'x'", "variables.v.replace('x', 'xx')"),
        ("[1]", "[variables.v, variables.v].flatten()"),
    ] {
        let mut environment = Environment::policy(false);
        let mut variables = CompositedVariables::new();
        variables
            .declare(&mut environment, "v0", first)
            .expect("compiles");
        for index in 1..60 {
            let text = next.replace("variables.v", &format!("variables.v{}", index - 1));
            variables
                .declare(&mut environment, &format!("v{index}"), &text)
                .expect("compiles");
        }
        let program = Program::compile(
            &environment,
            "dyn(variables.v59) == null",
            ReturnTypes::Bool,
        )
        .expect("compiles");
        let inputs = RequestInputs::default();
        let mut activation = Activation::new(&inputs).with_variables(&variables);
        let mut budget = EvaluationBudget::for_policy(None);
        let started = Instant::now();
        program
            .evaluate(&mut activation, &mut budget)
            .expect_err("too large");
        assert!(started.elapsed() < Duration::from_secs(10), "{next}");
    }
}

#[test]
fn nested_comprehensions_exceed_the_cost_limit() {
    let numbers: Vec<u32> = (0..1000).collect();
    let object = json!({"l": numbers, "s": "a".repeat(100_000)});
    for text in [
        "object.l.all(a, object.l.all(b, object.l.all(c, a + b + c >= 0)))",
        "object.l.map(a, object.l.map(b, a * b)).size() > 0",
        "lists.range(1000000000).size() > 0",
        "object.l.exists(a, object.s.matches('(a|b)*c'))",
        "object.l.all(a, object.s.replace('a', 'bb').size() > 0)",
        "object.l.all(a, object.s.split('').size() > 0)",
        "object.l.all(a, object.l.all(b, sets.equivalent(object.l, object.l)))",
    ] {
        let started = Instant::now();
        let error = evaluate(text, &object).expect_err("too expensive");
        assert!(
            matches!(
                error,
                EvaluationError::CostExceeded | EvaluationError::TooLarge
            ),
            "{text}: {error}"
        );
        assert!(started.elapsed() < Duration::from_secs(10), "{text}");
    }
}

#[test]
fn long_expressions_and_large_objects_are_fast() {
    let started = Instant::now();
    for text in [
        vec!["a"; 30_000].join("||"),
        vec!["true"; 16_000].join("&&"),
        format!("[{}]", vec!["1"; 49_000].join(",")),
        format!("[{}]", vec!["[]"; 30_000].join(",")),
        format!("{{{}}}", vec!["'a':1"; 16_000].join(",")),
        "x.".repeat(49_000),
        "'".repeat(99_999),
        "#".repeat(99_999),
    ] {
        let _ = compile(&text);
    }
    let keys = (0..100_000).rev().map(|key| (key.to_string(), json!(1)));
    let object = Json::Object(keys.collect());
    assert!(matches!(
        evaluate("size(object) == 100000", &object),
        Ok(Value::Bool(true))
    ));
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_deadline_interrupts_a_cheap_but_slow_expression() {
    let rows: Vec<Vec<u32>> = (0..100).map(|_| (0..2000).collect()).collect();
    let object = json!({"a": rows, "l": (0..1000).collect::<Vec<u32>>()});
    let inputs = RequestInputs {
        object: JsonInput::new(&object),
        ..RequestInputs::default()
    };
    let program = compile("object.l.all(x, object.a == object.a)").expect("compiles");
    let mut budget = EvaluationBudget::for_policy(Some(Instant::now() + Duration::from_millis(50)));
    let started = Instant::now();
    let error = program
        .evaluate(&mut Activation::new(&inputs), &mut budget)
        .expect_err("out of time");
    assert_eq!(error, EvaluationError::Interrupted);
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[test]
fn expressions_share_a_budget() {
    let object = json!({"l": [1, 2, 3]});
    let inputs = RequestInputs {
        object: JsonInput::new(&object),
        ..RequestInputs::default()
    };
    let program = compile("object.l.all(x, x > 0)").expect("compiles");
    let mut activation = Activation::new(&inputs);
    let mut budget = EvaluationBudget::new(40, None);
    assert!(program.evaluate(&mut activation, &mut budget).is_ok());
    let cost = 40 - budget.cost_left();
    assert!(program.evaluate(&mut activation, &mut budget).is_ok());
    assert_eq!(budget.cost_left(), 40 - 2 * cost);
    assert_eq!(
        program.evaluate(&mut activation, &mut budget).err(),
        Some(EvaluationError::OutOfBudget)
    );
    assert_eq!(budget.cost_left(), 0);
    assert_eq!(COST_PER_POLICY_MAX, 10_000_000);
}

/// Random splices of expressions: most do not compile, and none may panic.
#[test]
fn random_expressions_do_not_panic() {
    let cases: Vec<&str> = include_str!("upstream/cases.txt")
        .lines()
        .filter(|line| !line.starts_with("# "))
        .collect();
    let object = json!({"a": 1, "s": "é", "l": [1, "a", null], "m": {"k": "v"}, "n": null});
    let inputs = RequestInputs {
        object: JsonInput::new(&object),
        ..RequestInputs::default()
    };
    let environment = Environment::mutation(true);
    let mut state: u64 = 36;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 11).expect("64 bits") % limit
    };
    for _ in 0..20_000 {
        let left: Vec<char> = cases[below(cases.len())].chars().collect();
        let right: Vec<char> = cases[below(cases.len())].chars().collect();
        let (cut, from) = (below(left.len() + 1), below(right.len() + 1));
        let mut text: String = left[..cut].iter().chain(&right[from..]).collect();
        if below(4) == 0 {
            text = text.replace("object.a", "'é'").replace('1', "-1");
        }
        if let Ok(program) = Program::compile(&environment, &text, ReturnTypes::Any) {
            let mut budget =
                EvaluationBudget::for_policy(Some(Instant::now() + Duration::from_secs(1)));
            let _ = program.evaluate(&mut Activation::new(&inputs), &mut budget);
        }
    }
}
