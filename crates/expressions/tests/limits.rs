//! No expression keeps a thread busy, exhausts the stack or the memory, or panics.

use rhumb_expressions::{
    Budget, COST_PER_POLICY_MAX, Environment, EvaluationError, Input, Inputs, Program, Scope,
    Value, Variables, Want,
};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

/// What the threads of the server have.
const STACK_BYTES: usize = 2 << 20;

fn on_a_small_stack(check: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(check)
        .expect("a thread")
        .join()
        .expect("it ends well");
}

fn compile(text: &str) -> Result<Program, String> {
    Program::compile(&Environment::mutation(true), text, Want::Anything)
        .map_err(|error| error.to_string())
}

fn run(text: &str, object: &Json) -> Result<Value, EvaluationError> {
    let inputs = Inputs {
        object: Input::new(object),
        ..Inputs::default()
    };
    let program = compile(text).expect("it compiles");
    let mut budget = Budget::for_policy(Some(Instant::now() + Duration::from_secs(5)));
    program.evaluate(&mut Scope::new(&inputs), &mut budget)
}

fn nested(open: &str, middle: &str, close: &str, times: usize) -> String {
    format!("{}{middle}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn nesting_is_limited_and_what_is_allowed_fits_on_a_small_stack() {
    on_a_small_stack(|| {
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
                    let inputs = Inputs {
                        object: Input::new(&object),
                        ..Inputs::default()
                    };
                    let mut budget =
                        Budget::for_policy(Some(Instant::now() + Duration::from_secs(5)));
                    let _ = program.evaluate(&mut Scope::new(&inputs), &mut budget);
                }
            }
        }
    });
}

#[test]
fn deep_texts_are_refused() {
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
fn variables_that_use_each_other_are_limited_too() {
    on_a_small_stack(|| {
        let mut environment = Environment::policy(false);
        let mut variables = Variables::new();
        variables
            .declare(&mut environment, "v0", "[1]")
            .expect("compiles");
        for index in 1..500 {
            let text = format!("[variables.v{}]", index - 1);
            let _ = variables.declare(&mut environment, &format!("v{index}"), &text);
        }
        let program = Program::compile(&environment, "dyn(variables.v499) == null", Want::Bool)
            .expect("compiles");
        let inputs = Inputs::default();
        let mut scope = Scope::new(&inputs).with_variables(&variables);
        let mut budget = Budget::for_policy(None);
        let error = program
            .evaluate(&mut scope, &mut budget)
            .expect_err("too deep");
        assert_eq!(error, EvaluationError::TooDeep);
    });
}

#[test]
fn values_that_double_are_limited() {
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
        let mut variables = Variables::new();
        variables
            .declare(&mut environment, "v0", first)
            .expect("compiles");
        for index in 1..60 {
            let text = next.replace("variables.v", &format!("variables.v{}", index - 1));
            variables
                .declare(&mut environment, &format!("v{index}"), &text)
                .expect("compiles");
        }
        let program = Program::compile(&environment, "dyn(variables.v59) == null", Want::Bool)
            .expect("compiles");
        let inputs = Inputs::default();
        let mut scope = Scope::new(&inputs).with_variables(&variables);
        let mut budget = Budget::for_policy(None);
        let begun = Instant::now();
        program
            .evaluate(&mut scope, &mut budget)
            .expect_err("too large");
        assert!(begun.elapsed() < Duration::from_secs(10), "{next}");
    }
}

#[test]
fn loops_in_loops_end_when_the_cost_is_used_up() {
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
        let begun = Instant::now();
        let error = run(text, &object).expect_err("too expensive");
        assert!(
            matches!(
                error,
                EvaluationError::CostExceeded | EvaluationError::TooLarge
            ),
            "{text}: {error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(10), "{text}");
    }
}

#[test]
fn long_texts_and_large_objects_are_read_quickly() {
    let begun = Instant::now();
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
        run("size(object) == 100000", &object),
        Ok(Value::Bool(true))
    ));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_deadline_ends_what_costs_little_and_takes_long() {
    let rows: Vec<Vec<u32>> = (0..100).map(|_| (0..2000).collect()).collect();
    let object = json!({"a": rows, "l": (0..1000).collect::<Vec<u32>>()});
    let inputs = Inputs {
        object: Input::new(&object),
        ..Inputs::default()
    };
    let program = compile("object.l.all(x, object.a == object.a)").expect("compiles");
    let mut budget = Budget::for_policy(Some(Instant::now() + Duration::from_millis(50)));
    let begun = Instant::now();
    let error = program
        .evaluate(&mut Scope::new(&inputs), &mut budget)
        .expect_err("out of time");
    assert_eq!(error, EvaluationError::Interrupted);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_budget_is_shared() {
    let object = json!({"l": [1, 2, 3]});
    let inputs = Inputs {
        object: Input::new(&object),
        ..Inputs::default()
    };
    let program = compile("object.l.all(x, x > 0)").expect("compiles");
    let mut scope = Scope::new(&inputs);
    let mut budget = Budget::new(40, None);
    assert!(program.evaluate(&mut scope, &mut budget).is_ok());
    let cost = 40 - budget.cost_left();
    assert!(program.evaluate(&mut scope, &mut budget).is_ok());
    assert_eq!(budget.cost_left(), 40 - 2 * cost);
    assert_eq!(
        program.evaluate(&mut scope, &mut budget).err(),
        Some(EvaluationError::OutOfBudget)
    );
    assert_eq!(budget.cost_left(), 0);
    assert_eq!(COST_PER_POLICY_MAX, 10_000_000);
}

/// Pieces of expressions in any order: most of them do not compile, and none may panic.
#[test]
fn no_text_makes_the_compiler_or_the_machine_panic() {
    let cases: Vec<&str> = include_str!("upstream/cases.txt")
        .lines()
        .filter(|line| !line.starts_with("# "))
        .collect();
    let object = json!({"a": 1, "s": "é", "l": [1, "a", null], "m": {"k": "v"}, "n": null});
    let inputs = Inputs {
        object: Input::new(&object),
        ..Inputs::default()
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
        if let Ok(program) = Program::compile(&environment, &text, Want::Anything) {
            let mut budget = Budget::for_policy(Some(Instant::now() + Duration::from_secs(1)));
            let _ = program.evaluate(&mut Scope::new(&inputs), &mut budget);
        }
    }
}
