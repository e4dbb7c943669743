//! Compares the results of a table of expressions with upstream's, which `interop/tests/expressions.rs` recorded.

mod support;

use serde_json::Value as Json;
use support::ConformanceHarness;

#[test]
fn expressions_have_upstreams_results() {
    let harness = ConformanceHarness::read(include_str!("upstream/inputs.json"));
    let differences = support::differences(include_str!("upstream/differences.txt"));
    let mut failures = Vec::new();
    let mut count = 0;
    for line in include_str!("upstream/recorded.jsonl").lines() {
        let upstream: Json = serde_json::from_str(line).expect("JSON");
        let expression = upstream["expression"]
            .as_str()
            .expect("a string")
            .to_owned();
        let upstream = support::expected_result(upstream);
        let actual = harness.evaluate(&expression);
        count += 1;
        match (actual == upstream, differences.contains_key(&*expression)) {
            (false, false) => failures.push(format!(
                "{expression}\n  upstream {upstream}\n  ours     {actual}"
            )),
            (true, true) => failures.push(format!(
                "{expression}\n  no longer differs; remove it from differences.txt"
            )),
            _ => {}
        }
    }
    assert!(count > 900, "only {count} expressions");
    assert!(
        failures.is_empty(),
        "{} of {count} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
