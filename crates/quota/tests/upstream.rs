//! Compares usage with recorded answers of upstream's evaluators. `interop/tests/quota.rs` records them.

mod support;

use serde::Deserialize;
use support::random::ObjectGenerator;
use support::{EvaluatorAnswer, EvaluatorQuery};

#[derive(Deserialize)]
struct UpstreamCase {
    #[serde(flatten)]
    question: EvaluatorQuery,
    answer: EvaluatorAnswer,
}

#[test]
fn usage_agrees_with_upstream() {
    let lines = include_str!("upstream/cases.jsonl").lines();
    for line in lines {
        let mut case: UpstreamCase = serde_json::from_str(line).expect("valid case");
        case.question.scopes = support::scopes();
        assert_eq!(support::evaluate(&case.question), case.answer, "{line}");
    }
}

#[test]
fn usage_from_json_equals_usage_from_the_decoded_object() {
    for seed in 0..2000 {
        let question = ObjectGenerator::new(seed).query();
        if question.resource == "namespaces" {
            continue;
        }
        let evaluator = support::evaluator(&question.resource);
        let of_tree = evaluator.usage(question.object.as_object().expect("JSON object"));
        for json in [
            serde_json::to_string(&question.object),
            serde_json::to_string_pretty(&question.object),
        ] {
            let json = json.expect("valid JSON");
            let of_json = evaluator
                .usage_from_json(json.as_bytes())
                .expect("JSON is decoded");
            assert_eq!(of_json, of_tree, "{json}");
            // Equal quantities may have different text.
            assert_eq!(
                of_json.quantities.to_string(),
                of_tree.quantities.to_string()
            );
        }
    }
}
