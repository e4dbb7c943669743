//! Compares rhumb-quota with upstream's evaluators: every object must have the same usage.
//!
//! RHUMB_INTEROP_BLESS=1 writes upstream's responses to the recording of the crate's tests. To add a case, add a line
//! without a response.

#[path = "apimachinery/oracle.rs"]
mod oracle;
#[path = "../../crates/quota/tests/support/mod.rs"]
mod support;

mod protocol {
    pub(crate) use crate::support::{
        EvaluatorAnswer as OracleResponse, EvaluatorQuery as OracleRequest,
    };

    /// Directory of the Go program.
    pub(crate) const SOURCE: &str = "kubernetes/quota";
}

use std::path::{Path, PathBuf};

use rhumb_interop::comparison::assert_no_differences;
use serde_json::{Value, json};
use support::random::ObjectGenerator;
use support::{EvaluatorAnswer, EvaluatorQuery};

const CASES_DEFAULT: u64 = 5000;

fn cases_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/quota/tests/upstream/cases.jsonl")
}

fn recorded_line(case: &str, response: &EvaluatorAnswer) -> String {
    let mut case: Value = serde_json::from_str(case).expect("JSON");
    case["answer"] = json!(response);
    case.to_string()
}

#[test]
fn recorded_answers_match_upstream() {
    let recorded = std::fs::read_to_string(cases_file()).expect("the cases");
    let requests: Vec<EvaluatorQuery> = recorded
        .lines()
        .map(|line| serde_json::from_str(line).expect("a request"))
        .collect();
    let responses = oracle::run(&requests);
    let lines = recorded.lines().zip(&responses);
    let lines: Vec<String> = lines
        .map(|(case, response)| recorded_line(case, response))
        .collect();
    let answered = lines.join("\n") + "\n";
    if std::env::var_os("RHUMB_INTEROP_BLESS").is_some() {
        std::fs::write(cases_file(), answered).expect("it can be written");
        return;
    }
    for (recorded, answered) in recorded.lines().zip(answered.lines()) {
        assert_eq!(recorded, answered);
    }
}

#[test]
fn random_objects_have_the_same_usage() {
    let set = std::env::var("RHUMB_CASES").ok();
    let cases = set
        .and_then(|text| text.parse().ok())
        .unwrap_or(CASES_DEFAULT);
    let requests: Vec<EvaluatorQuery> = (0..cases)
        .map(|seed| ObjectGenerator::new(seed).query())
        .collect();
    let theirs = oracle::run(&requests);
    assert_eq!(theirs.len(), requests.len(), "one response per request");
    let differs = |(request, theirs): (&EvaluatorQuery, &EvaluatorAnswer)| {
        let ours = support::evaluate(request);
        (ours != *theirs).then(|| {
            let request = json!(request);
            format!("{request}\n  upstream: {theirs:?}\n  ours:     {ours:?}")
        })
    };
    let differences: Vec<String> = requests.iter().zip(&theirs).filter_map(differs).collect();
    assert_no_differences(&differences, requests.len());
}
