//! What objects count for, beside what upstream's evaluators answered. `interop/tests/quota.rs` records the answers.

mod support;

use serde::Deserialize;
use support::random::Random;
use support::{Answer, Question};

#[derive(Deserialize)]
struct Case {
    #[serde(flatten)]
    question: Question,
    answer: Answer,
}

#[test]
fn objects_count_for_what_they_count_for_upstream() {
    let lines = include_str!("upstream/cases.jsonl").lines();
    for line in lines {
        let mut case: Case = serde_json::from_str(line).expect("a case");
        case.question.scopes = support::scopes();
        assert_eq!(support::answer(&case.question), case.answer, "{line}");
    }
}

#[test]
fn json_counts_for_the_same_as_its_tree() {
    for seed in 0..2000 {
        let question = Random::new(seed).question();
        let meter = support::meter(&question.resource);
        let of_tree = meter.measure(question.object.as_object().expect("an object"));
        for json in [
            serde_json::to_string(&question.object),
            serde_json::to_string_pretty(&question.object),
        ] {
            let json = json.expect("JSON");
            let of_json = meter.measure_json(json.as_bytes()).expect("it is read");
            assert_eq!(of_json, of_tree, "{json}");
            // Amounts that are equal may be written in different ways.
            assert_eq!(of_json.amounts.to_string(), of_tree.amounts.to_string());
        }
    }
}
