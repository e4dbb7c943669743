//! Compares rhumb-meta with Kubernetes' apimachinery and apiserver: both must give equal responses to the same
//! requests.
//!
//! Strings are compared exactly: printed selectors, error messages, Status objects. The requests are a table of edge
//! cases and random ones from a fixed seed; PROPTEST_CASES sets their number.

#[path = "apimachinery/edge_cases.rs"]
mod edge_cases;
#[path = "apimachinery/oracle.rs"]
mod oracle;
#[path = "apimachinery/protocol.rs"]
mod protocol;
#[path = "apimachinery/random_requests.rs"]
mod random_requests;
#[path = "apimachinery/random_values.rs"]
mod random_values;
#[path = "apimachinery/rhumb_responses.rs"]
mod rhumb_responses;
#[path = "../../crates/meta/tests/support/mod.rs"]
mod support;
#[path = "apimachinery/unicode.rs"]
mod unicode;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use protocol::{OracleRequest, OracleResponse};
use rhumb_interop::comparison::assert_no_differences;

const CASES_DEFAULT: usize = 5000;

/// Random requests, the same in every run.
fn sample(strategy: impl Strategy<Value = OracleRequest>) -> Vec<OracleRequest> {
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

/// Sends the requests to both sides and shows the first ones with different responses.
fn compare(mut requests: Vec<OracleRequest>) {
    requests.retain(|request| !unicode::is_too_new(request));
    let theirs = oracle::run(&requests);
    assert_eq!(theirs.len(), requests.len(), "one response per request");
    let differs = |(request, theirs): (&OracleRequest, &OracleResponse)| {
        let ours = rhumb_responses::respond(request);
        (ours != *theirs)
            .then(|| format!("{request:?}\n  upstream: {theirs:?}\n  ours:     {ours:?}"))
    };
    let differences: Vec<String> = requests.iter().zip(&theirs).filter_map(differs).collect();
    assert_no_differences(&differences, requests.len());
    println!("{} responses are equal", requests.len());
}

#[test]
fn edge_cases_are_parsed_identically() {
    compare(random_requests::table());
    compare(random_values::table());
}

#[test]
fn label_selectors_are_parsed_printed_and_matched_identically() {
    compare(sample(random_requests::labels()));
}

#[test]
fn field_selectors_are_parsed_printed_and_matched_identically() {
    compare(sample(random_requests::fields()));
}

#[test]
fn object_label_selectors_are_converted_and_validated_identically() {
    compare(sample(random_requests::label_selector()));
}

#[test]
fn names_are_validated_identically() {
    compare(sample(random_requests::names()));
}

#[test]
fn statuses_and_field_errors_are_identical() {
    compare(sample(random_requests::status()));
}

#[test]
fn timestamps_are_printed_identically() {
    compare(sample(random_values::time()));
}

#[test]
fn timestamps_are_parsed_identically() {
    compare(sample(random_values::parse_time()));
}

#[test]
fn floats_are_printed_and_encoded_identically() {
    compare(sample(random_values::float()));
}

#[test]
fn quantities_are_parsed_printed_compared_and_added_identically() {
    compare(sample(random_values::quantity()));
}

#[test]
fn requirements_are_built_and_matched_identically() {
    compare(sample(random_values::requirement()));
}

#[test]
fn strings_are_quoted_and_encoded_identically() {
    compare(sample(random_requests::text()));
}

#[test]
fn every_common_character_is_quoted_identically() {
    let newer = unicode::newer_than_upstream().len();
    println!("{newer} characters are newer than upstream's Unicode");
    assert!(newer < 20_000, "{newer} characters differ");
}
