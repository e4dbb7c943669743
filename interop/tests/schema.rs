//! Compares rhumb-schema with Kubernetes' Go types: both must give equal responses for random objects and patches.
//!
//! Error texts are compared exactly, objects as JSON. The requests are random, but the same in every run; RHUMB_CASES
//! sets their number.

#[path = "apimachinery/oracle.rs"]
mod oracle;
#[path = "schema/protocol.rs"]
mod protocol;

use protocol::{OracleRequest, OracleResponse};
use rhumb_interop::comparison::assert_no_differences;
use rhumb_interop::random_objects::RandomObjectGenerator;
use rhumb_schema::{
    DecodeOptions, Table, canonicalize, decode_json, decode_untyped, decode_yaml, strategic_merge,
};
use serde_json::Value;

const CASES_DEFAULT: u64 = 3000;

/// Kinds that together have every field shape and merge strategy.
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

fn random_requests(op: &'static str, invalid_values: bool) -> Vec<OracleRequest> {
    let table = Table::builtin();
    let mut requests = Vec::new();
    for seed in 0..cases() {
        let kind = KINDS[usize::try_from(seed).expect("fits") % KINDS.len()];
        let of = table.type_id(kind).expect("a built-in type");
        let mut generator = RandomObjectGenerator::new(table, seed, invalid_values);
        requests.push(OracleRequest {
            op,
            kind: kind.to_owned(),
            input: generator.object(of).to_string(),
            patch: match op {
                "merge" => generator.patch(of).to_string(),
                _ => String::new(),
            },
        });
    }
    requests
}

fn ours(request: &OracleRequest) -> OracleResponse {
    let table = Table::builtin();
    let of = table.type_id(&request.kind).expect("a built-in type");
    let input = request.input.as_bytes();
    let options = DecodeOptions::default();
    let decoded = match request.op {
        "merge" => {
            let original = decode_untyped(input, false).expect("an object").object;
            let patch = decode_untyped(request.patch.as_bytes(), false).expect("an object");
            return match strategic_merge(table, of, &original, patch.object) {
                Ok(merged) => OracleResponse::object(Value::Object(merged), Vec::new()),
                Err(error) => OracleResponse::error(error.to_string()),
            };
        }
        "yaml" => decode_yaml(table, of, input, options),
        _ => decode_json(table, of, input, options),
    };
    match decoded {
        Ok(mut decoded) => {
            canonicalize(table, of, &mut decoded.object);
            OracleResponse::object(Value::Object(decoded.object), decoded.problems)
        }
        Err(error) => OracleResponse::error(error.to_string()),
    }
}

/// Sends the requests to both sides and shows the first ones with different responses.
fn compare(requests: &[OracleRequest]) {
    let theirs = oracle::run(requests);
    assert_eq!(theirs.len(), requests.len(), "one response per request");
    let differs = |(request, theirs): (&OracleRequest, OracleResponse)| {
        let (ours, theirs) = (ours(request), theirs.parsed());
        // Go visits the keys of a patch in random order: which of several errors it reports is random.
        let both_reject =
            request.op == "merge" && !ours.error.is_empty() && !theirs.error.is_empty();
        (!both_reject && ours != theirs)
            .then(|| format!("{request:?}\n  upstream: {theirs:?}\n  ours:     {ours:?}"))
    };
    let differences: Vec<String> = requests.iter().zip(theirs).filter_map(differs).collect();
    assert_no_differences(&differences, requests.len());
}

#[test]
fn objects_round_trip_identically() {
    compare(&random_requests("json", false));
}

#[test]
fn decoding_errors_are_identical() {
    compare(&random_requests("json", true));
}

#[test]
fn yaml_is_parsed_identically() {
    compare(&random_requests("yaml", true));
}

#[test]
fn patches_are_applied_identically() {
    compare(&random_requests("merge", false));
}
