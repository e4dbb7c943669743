//! Compares rhumb-expressions with upstream's CEL, and verifies the upstream results recorded for the crate's tests.
//!
//! With RHUMB_INTEROP_BLESS=1, the recorded results are overwritten with upstream's current ones.

#[path = "apimachinery/oracle.rs"]
mod oracle;
#[path = "expressions/protocol.rs"]
mod protocol;
#[path = "../../crates/expressions/tests/support/mod.rs"]
mod support;

use protocol::{CelTestInputs, OracleRequest, OracleResponse};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn recordings_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/expressions/tests/upstream")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(recordings_dir().join(name)).expect("a file of the crate's tests")
}

fn oracle_requests(inputs: &CelTestInputs, expressions: &[String]) -> Vec<OracleRequest> {
    expressions
        .iter()
        .map(|expression| OracleRequest {
            expression: expression.clone(),
            want: String::new(),
            params: true,
            patches: true,
            variables: inputs.variables.clone(),
            inputs: inputs.inputs.clone(),
            authorizer: inputs.authorizer.clone(),
        })
        .collect()
}

#[test]
fn recorded_results_match_upstream() {
    let inputs: CelTestInputs = serde_json::from_str(&read("inputs.json")).expect("JSON");
    let expressions: Vec<String> = read("cases.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(str::to_owned)
        .collect();
    let responses = oracle::run(&oracle_requests(&inputs, &expressions));
    let lines: Vec<String> = expressions
        .iter()
        .zip(&responses)
        .map(|(expression, response)| recorded_line(expression, response))
        .collect();
    let all = lines.join("\n") + "\n";
    if std::env::var_os("RHUMB_INTEROP_BLESS").is_some() {
        std::fs::write(recordings_dir().join("recorded.jsonl"), all).expect("it can be written");
        return;
    }
    let recorded = read("recorded.jsonl");
    for (recorded, current) in recorded.lines().zip(all.lines()) {
        let json = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
        assert_eq!(json(recorded), json(current));
    }
    assert_eq!(recorded.lines().count(), all.lines().count());
}

fn recorded_line(expression: &str, response: &OracleResponse) -> String {
    json!({
        "expression": expression, "compile": response.compile, "error": response.error,
        "value": response.value, "type": response.r#type, "cost": response.cost,
    })
    .to_string()
}

/// Random combinations of two recorded expressions: compilation, evaluation errors and values must match upstream.
#[test]
fn random_expressions_have_the_same_values() {
    const CASES: usize = 3000;
    let text = read("inputs.json");
    let inputs: CelTestInputs = serde_json::from_str(&text).expect("JSON");
    let harness = support::ConformanceHarness::read(&text);
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
    let templates = [
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
            let template = templates[index % templates.len()];
            template.replacen("{}", pick(), 1).replacen("{}", pick(), 1)
        })
        .collect();
    let responses = oracle::run(&oracle_requests(&inputs, &expressions));
    let mut failures = Vec::new();
    let mut compared = 0;
    for (expression, response) in expressions.iter().zip(&responses) {
        compared += usize::from(response.compile.is_empty());
        let upstream = serde_json::to_value(response).expect("JSON");
        let upstream = support::expected_result(upstream);
        let actual = harness.evaluate(expression);
        // The error messages are not compared: upstream may report another of several errors.
        let same = ["compile", "error"]
            .iter()
            .all(|field| actual.get(field).is_some() == upstream.get(field).is_some());
        if !same || actual.get("value") != upstream.get("value") {
            failures.push(format!(
                "{expression}\n  upstream {upstream}\n  ours     {actual}"
            ));
        }
    }
    assert!(compared > 300, "only {compared} compile");
    assert!(
        failures.is_empty(),
        "{} of {compared} differ:\n{}",
        failures.len(),
        failures[..failures.len().min(10)].join("\n")
    );
}

#[test]
fn declarations_table_matches_upstream() {
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
