//! rhumb-schema beside Kubernetes' own types: random objects and patches to both, and every answer must be the same.
//!
//! Texts of errors are compared to the letter, objects as JSON. The questions are random, the same in every run;
//! RHUMB_CASES sets how many.

#[path = "apimachinery/oracle.rs"]
mod oracle;
#[path = "schema/protocol.rs"]
mod protocol;

use protocol::{Answer, Question};
use rhumb_interop::make::Maker;
use rhumb_schema::{
    Options, Table, conform, decode_any, decode_json, decode_yaml, strategic_merge,
};
use serde_json::Value;

const CASES_DEFAULT: u64 = 3000;
const DIFFERENCES_SHOWN: usize = 5;

/// Kinds that have between them every shape of field and every way to merge.
const KINDS: [&str; 12] = [
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.apps.v1.StatefulSet",
    "io.k8s.api.authentication.v1.TokenReview",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.core.v1.Node",
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.networking.v1.NetworkPolicy",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
];

fn cases() -> u64 {
    let set = std::env::var("RHUMB_CASES").ok();
    set.and_then(|text| text.parse().ok())
        .unwrap_or(CASES_DEFAULT)
}

fn random(op: &'static str, mistakes: bool) -> Vec<Question> {
    let table = Table::builtin();
    let mut questions = Vec::new();
    for seed in 0..cases() {
        let kind = KINDS[usize::try_from(seed).expect("fits") % KINDS.len()];
        let of = table.named(kind).expect("a built-in type");
        let mut maker = Maker::new(table, seed, mistakes);
        questions.push(Question {
            op,
            kind: kind.to_owned(),
            input: maker.object(of).to_string(),
            patch: match op {
                "merge" => maker.patch(of).to_string(),
                _ => String::new(),
            },
        });
    }
    questions
}

fn ours(question: &Question) -> Answer {
    let table = Table::builtin();
    let of = table.named(&question.kind).expect("a built-in type");
    let input = question.input.as_bytes();
    let options = Options::default();
    let decoded = match question.op {
        "merge" => {
            let original = decode_any(input, false).expect("an object").object;
            let patch = decode_any(question.patch.as_bytes(), false).expect("an object");
            return match strategic_merge(table, of, &original, patch.object) {
                Ok(merged) => Answer::object(Value::Object(merged), Vec::new()),
                Err(error) => Answer::error(error.to_string()),
            };
        }
        "yaml" => decode_yaml(table, of, input, options),
        _ => decode_json(table, of, input, options),
    };
    match decoded {
        Ok(mut decoded) => {
            conform(table, of, &mut decoded.object);
            Answer::object(Value::Object(decoded.object), decoded.problems)
        }
        Err(error) => Answer::error(error.to_string()),
    }
}

/// Asks both, and shows the first questions that got different answers.
fn compare(questions: &[Question]) {
    let theirs = oracle::ask(questions);
    assert_eq!(
        theirs.len(),
        questions.len(),
        "every question has an answer"
    );
    let differs = |(question, theirs): (&Question, Answer)| {
        let (ours, theirs) = (ours(question), theirs.parsed());
        // Go visits the keys of a patch in any order: which of several mistakes it names is chance.
        let both_refuse =
            question.op == "merge" && !ours.error.is_empty() && !theirs.error.is_empty();
        (!both_refuse && ours != theirs)
            .then(|| format!("{question:?}\n  upstream: {theirs:?}\n  ours:     {ours:?}"))
    };
    let differences: Vec<String> = questions.iter().zip(theirs).filter_map(differs).collect();
    let shown = differences.iter().take(DIFFERENCES_SHOWN).cloned();
    assert!(
        differences.is_empty(),
        "{} of {} answers differ:\n{}",
        differences.len(),
        questions.len(),
        shown.collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn objects_are_read_and_written_back_alike() {
    compare(&random("json", false));
}

#[test]
fn mistakes_are_reported_alike() {
    compare(&random("json", true));
}

#[test]
fn yaml_is_read_alike() {
    compare(&random("yaml", true));
}

#[test]
fn patches_are_applied_alike() {
    compare(&random("merge", false));
}
