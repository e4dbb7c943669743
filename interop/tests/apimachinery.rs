//! rhumb-meta beside Kubernetes' apimachinery and apiserver: the same questions to both, and every answer must be the same.
//!
//! Texts are compared to the letter: selectors printed back, error messages, Status objects. The questions
//! are a table of known edges and random ones from a fixed seed; PROPTEST_CASES sets how many.

#[path = "apimachinery/edges.rs"]
mod edges;
#[path = "apimachinery/oracle.rs"]
mod oracle;
#[path = "apimachinery/ours.rs"]
mod ours;
#[path = "apimachinery/protocol.rs"]
mod protocol;
#[path = "apimachinery/questions.rs"]
mod questions;
#[path = "../../crates/meta/tests/support/mod.rs"]
mod support;
#[path = "apimachinery/unicode.rs"]
mod unicode;
#[path = "apimachinery/values.rs"]
mod values;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use protocol::{Answer, Question};

const CASES_DEFAULT: usize = 5000;
const DIFFERENCES_SHOWN: usize = 5;

/// Random questions, the same in every run.
fn sample(strategy: impl Strategy<Value = Question>) -> Vec<Question> {
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => usize::try_from(Config::default().cases).expect("fits"),
        None => CASES_DEFAULT,
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[36; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut draw = || {
        strategy
            .new_tree(&mut runner)
            .expect("little is filtered out")
            .current()
    };
    (0..cases).map(|_| draw()).collect()
}

/// Asks both, and shows the first questions that got different answers.
fn compare(mut questions: Vec<Question>) {
    questions.retain(|question| !unicode::is_too_new(question));
    let theirs = oracle::ask(&questions);
    assert_eq!(
        theirs.len(),
        questions.len(),
        "every question has an answer"
    );
    let differs = |(question, theirs): (&Question, &Answer)| {
        let ours = ours::reply(question);
        (ours != *theirs)
            .then(|| format!("{question:?}\n  upstream: {theirs:?}\n  ours:     {ours:?}"))
    };
    let differences: Vec<String> = questions.iter().zip(&theirs).filter_map(differs).collect();
    let shown = differences
        .iter()
        .take(DIFFERENCES_SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        differences.is_empty(),
        "{} of {} answers differ:\n{shown}",
        differences.len(),
        questions.len()
    );
    println!("{} answers are the same", questions.len());
}

#[test]
fn known_edges_are_read_alike() {
    compare(questions::table());
    compare(values::table());
}

#[test]
fn label_selectors_are_read_printed_and_matched_alike() {
    compare(sample(questions::labels()));
}

#[test]
fn field_selectors_are_read_printed_and_matched_alike() {
    compare(sample(questions::fields()));
}

#[test]
fn label_selectors_of_objects_are_converted_and_validated_alike() {
    compare(sample(questions::label_selector()));
}

#[test]
fn names_are_validated_alike() {
    compare(sample(questions::names()));
}

#[test]
fn statuses_and_field_errors_are_made_alike() {
    compare(sample(questions::status()));
}

#[test]
fn timestamps_are_printed_alike() {
    compare(sample(values::time()));
}

#[test]
fn timestamps_are_read_alike() {
    compare(sample(values::read_time()));
}

#[test]
fn floats_are_printed_and_encoded_alike() {
    compare(sample(values::float()));
}

#[test]
fn quantities_are_read_printed_compared_and_added_alike() {
    compare(sample(values::quantity()));
}

#[test]
fn requirements_are_made_and_matched_alike() {
    compare(sample(values::requirement()));
}

#[test]
fn texts_are_quoted_and_encoded_alike() {
    compare(sample(questions::text()));
}

#[test]
fn every_character_that_both_know_is_quoted_alike() {
    let newer = unicode::newer_than_upstream().len();
    println!("{newer} characters are newer than upstream's Unicode");
    assert!(newer < 20_000, "{newer} characters differ");
}
