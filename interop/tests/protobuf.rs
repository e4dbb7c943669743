//! Compares the protobuf encoding with upstream's generated code byte by byte, for random objects of every kind.
//!
//! The objects are the same in every run; RHUMB_CASES sets their number per kind.

#[path = "apimachinery/oracle.rs"]
mod oracle;
#[path = "protobuf/protocol.rs"]
mod protocol;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oracle::run;
use protocol::{OracleRequest, OracleResponse};
use rhumb_interop::comparison::assert_no_differences;
use rhumb_interop::random_objects::RandomObjectGenerator;
use rhumb_schema::{
    DecodeOptions, ObjectType, Table, TypeId, ValueType, canonicalize, decode_json, protobuf,
};
use serde_json::Value;

const CASES_DEFAULT: u64 = 40;

fn cases() -> u64 {
    let set = std::env::var("RHUMB_CASES").ok();
    set.and_then(|text| text.parse().ok())
        .unwrap_or(CASES_DEFAULT)
}

/// Tables have no protobuf encoding, and discovery documents are always JSON.
const JSON_ONLY: [&str; 2] = ["v1.Table", "v1.APIResourceList"];

/// The prefix of the names of types that only rhumb has.
const RHUMB_TYPES: &str = "dev.rhumb.";

/// The kinds with a protobuf encoding: those whose type has an envelope.
fn kinds() -> Vec<&'static ObjectType> {
    let is_kind = |of: &&ObjectType| {
        let has_type = of.field("kind").is_some_and(|kind| {
            kind.embedded
                .iter()
                .any(|outer| &*outer.go_name == "TypeMeta")
        });
        has_type && !JSON_ONLY.contains(&&*of.go_name) && !of.name.starts_with(RHUMB_TYPES)
    };
    Table::builtin().types().filter(is_kind).collect()
}

fn named(name: &str) -> TypeId {
    Table::builtin().type_id(name).expect(name)
}

/// Random objects of every kind as JSON; each first seed gives different ones.
fn samples(first_seed: u64) -> Vec<OracleRequest> {
    let table = Table::builtin();
    let mut samples = Vec::new();
    for kind in kinds() {
        for seed in 0..cases() {
            let mut generator = RandomObjectGenerator::new(table, first_seed + seed, false).dense();
            let object = generator.object(named(&kind.name));
            samples.push(oracle_request(
                "to-protobuf",
                &kind.name,
                object.to_string(),
            ));
        }
    }
    samples
}

fn oracle_request(op: &'static str, kind: &str, input: String) -> OracleRequest {
    OracleRequest {
        op,
        kind: kind.to_owned(),
        input,
    }
}

fn our_bytes(request: &OracleRequest) -> Vec<u8> {
    let (table, id) = (Table::builtin(), named(&request.kind));
    let options = DecodeOptions {
        strict: false,
        top_level: false,
    };
    let decoded =
        decode_json(table, id, request.input.as_bytes(), options).expect("generated JSON is valid");
    protobuf::encode(table, id, &decoded.object).expect("generated JSON is valid")
}

/// Decodes the bytes and encodes the object as JSON.
fn our_object(request: &OracleRequest) -> Result<Value, String> {
    let (table, id) = (Table::builtin(), named(&request.kind));
    let bytes = STANDARD.decode(&request.input).expect("base64");
    let mut object = protobuf::decode(table, id, &bytes).map_err(|error| error.to_string())?;
    canonicalize(table, id, &mut object);
    Ok(Value::Object(object))
}

fn their_object(response: &OracleResponse) -> Result<Value, String> {
    match response.error.as_str() {
        "" => Ok(serde_json::from_str(&response.output).expect("JSON")),
        error => Err(error.to_owned()),
    }
}

#[test]
fn encoding_is_byte_identical_to_upstream() {
    let requests = samples(0);
    let responses = run(&requests);
    let differences: Vec<String> = requests
        .iter()
        .zip(&responses)
        .filter_map(|(request, response)| {
            let ours = STANDARD.encode(our_bytes(request));
            (ours != response.output)
                .then(|| format!("{request:?}\n  upstream: {response:?}\n  ours:     {ours}"))
        })
        .collect();
    assert_no_differences(&differences, requests.len());
}

#[test]
fn decoding_matches_upstream() {
    let objects = samples(1_000_000);
    let requests: Vec<OracleRequest> = run(&objects)
        .into_iter()
        .zip(&objects)
        .map(|(response, sample)| oracle_request("from-protobuf", &sample.kind, response.output))
        .collect();
    let responses = run(&requests);
    let differences: Vec<String> = requests
        .iter()
        .zip(&responses)
        .filter_map(|(request, response)| {
            let (ours, theirs) = (our_object(request), their_object(response));
            (ours != theirs)
                .then(|| format!("{request:?}\n  upstream: {theirs:?}\n  ours:     {ours:?}"))
        })
        .collect();
    assert_no_differences(&differences, requests.len());
}

/// The message with one byte changed or removed, or truncated.
fn damaged(mut bytes: Vec<u8>, seed: u64) -> Vec<u8> {
    let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let (damage, bit) = (random % 4, (random >> 2) % 8);
    let at = usize::try_from(random >> 5).expect("64 bits") % bytes.len().max(1);
    match damage {
        0 => bytes.truncate(at),
        1 if at < bytes.len() => {
            bytes.remove(at);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
    }
    bytes
}

/// Damaged messages contain nil pointers, which upstream writes as null.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let present = object.into_iter().filter(|(_, value)| !value.is_null());
            let inner = present.map(|(name, value)| (name, without_nulls(value)));
            Value::Object(inner.collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn damaged_messages_are_handled_like_upstream() {
    let requests: Vec<OracleRequest> = samples(2_000_000)
        .iter()
        .zip(0_u64..)
        .map(|(sample, seed)| {
            let bytes = damaged(our_bytes(sample), seed);
            oracle_request("from-protobuf", &sample.kind, STANDARD.encode(bytes))
        })
        .collect();
    let responses = run(&requests);
    let differences: Vec<String> = requests
        .iter()
        .zip(&responses)
        .filter_map(|(request, response)| {
            let ours = our_object(request).map(without_nulls);
            let theirs = their_object(response).map(without_nulls);
            // Upstream accepts input that no client writes: overlapping map entries, and times in distant years.
            (ours.is_ok() && ours != theirs)
                .then(|| format!("{request:?}\n  upstream: {theirs:?}\n  ours:     {ours:?}"))
        })
        .collect();
    assert_no_differences(&differences, requests.len());
}

#[test]
fn no_kind_has_a_duration() {
    let has_duration = |of: &ObjectType| {
        of.fields
            .iter()
            .any(|field| field.value_type == ValueType::Duration)
    };
    let found: Vec<&ObjectType> = Table::builtin()
        .types()
        .filter(|of| has_duration(of))
        .collect();
    assert!(
        found.is_empty(),
        "the protobuf encoding does not support durations yet: {found:?}"
    );
}
