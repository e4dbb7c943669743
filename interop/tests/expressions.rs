//! rhumb-expressions beside upstream's CEL: the answers that the crate's tests are held against are upstream's.
//!
//! With RHUMB_INTEROP_BLESS=1, what upstream answers is written beside the crate's tests.

#[path = "apimachinery/oracle.rs"]
mod oracle;
#[path = "expressions/protocol.rs"]
mod protocol;
#[path = "../../crates/expressions/tests/support/mod.rs"]
mod support;

use protocol::{Answer, Question, World};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/expressions/tests/upstream")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect("a file of the crate's tests")
}

fn questions(world: &World, expressions: &[String]) -> Vec<Question> {
    expressions
        .iter()
        .map(|expression| Question {
            expression: expression.clone(),
            want: String::new(),
            params: true,
            patches: true,
            variables: world.variables.clone(),
            inputs: world.inputs.clone(),
            authorizer: world.authorizer.clone(),
        })
        .collect()
}

#[test]
fn recorded_answers_are_upstreams() {
    let world: World = serde_json::from_str(&read("inputs.json")).expect("JSON");
    let expressions: Vec<String> = read("cases.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(str::to_owned)
        .collect();
    let answers = oracle::ask(&questions(&world, &expressions));
    let lines: Vec<String> = expressions
        .iter()
        .zip(&answers)
        .map(|(expression, answer)| recorded_line(expression, answer))
        .collect();
    let all = lines.join("\n") + "\n";
    if std::env::var_os("RHUMB_INTEROP_BLESS").is_some() {
        std::fs::write(folder().join("recorded.jsonl"), all).expect("it can be written");
        return;
    }
    let recorded = read("recorded.jsonl");
    for (recorded, answered) in recorded.lines().zip(all.lines()) {
        let json = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
        assert_eq!(json(recorded), json(answered));
    }
    assert_eq!(recorded.lines().count(), all.lines().count());
}

fn recorded_line(expression: &str, answer: &Answer) -> String {
    json!({
        "expression": expression, "compile": answer.compile, "error": answer.error,
        "value": answer.value, "type": answer.r#type, "cost": answer.cost,
    })
    .to_string()
}

/// Expressions of the table, two at a time. Those which upstream compiles must have the same value here, or fail
/// here as well; the others must not compile.
#[test]
fn random_expressions_have_the_same_values() {
    const CASES: usize = 3000;
    let text = read("inputs.json");
    let world: World = serde_json::from_str(&text).expect("JSON");
    let ours = support::World::read(&text);
    let cases = read("cases.txt");
    let differences = read("differences.txt");
    let differences = support::differences(&differences);
    let pool: Vec<&str> = cases
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .filter(|line| !differences.contains_key(line))
        .collect();
    let mut state: u64 = 41;
    let mut pick = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        pool[usize::try_from(state >> 11).expect("64 bits") % pool.len()]
    };
    let joints = [
        "({}) == ({})",
        "[{}].map(x, {})",
        "({}) ? ({}) : null",
        "({}) && ({})",
        "({}) || ({})",
        "dyn({}) == dyn({})",
        "dyn({}) > dyn({})",
        "dyn({}) + dyn({})",
        "dyn({}) in dyn([{}])",
        "[dyn({}), dyn({})].size()",
        "{'a': dyn({}), 'b': dyn({})}.a",
    ];
    let expressions: Vec<String> = (0..CASES)
        .map(|index| {
            let joint = joints[index % joints.len()];
            joint.replacen("{}", pick(), 1).replacen("{}", pick(), 1)
        })
        .collect();
    let answers = oracle::ask(&questions(&world, &expressions));
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (expression, answer) in expressions.iter().zip(&answers) {
        compared += usize::from(answer.compile.is_empty());
        let theirs = serde_json::to_value(answer).expect("JSON");
        let theirs = support::recorded(theirs);
        let ours = ours.reply(expression);
        // Which of two errors is named, and in what words, is not the question here.
        let same = ["compile", "error"]
            .iter()
            .all(|problem| ours.get(problem).is_some() == theirs.get(problem).is_some());
        if !same || ours.get("value") != theirs.get("value") {
            wrong.push(format!(
                "{expression}\n  upstream {theirs}\n  ours     {ours}"
            ));
        }
    }
    assert!(compared > 300, "only {compared} compile");
    assert!(
        wrong.is_empty(),
        "{} of {compared} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(10)].join("\n")
    );
}

#[test]
fn functions_are_declared_as_upstream_declares_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(protocol::SOURCE);
    let output = Command::new("go")
        .args(["run", ".", "declarations"])
        .current_dir(source)
        .output()
        .expect("go runs");
    let declared = String::from_utf8(output.stdout).expect("UTF-8");
    let table =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/expressions/src/declarations.table");
    let table = std::fs::read_to_string(table).expect("the crate's table");
    assert_eq!(table, declared);
}
