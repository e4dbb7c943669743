//! Round trips of all value types, comparison with upstream's bytes (`cases.jsonl`), and properties for any input.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::{DecodeOptions, MAX_DEPTH, Object, Table, TypeId, canonicalize, decode_json};

const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

fn type_id(name: &str) -> TypeId {
    Table::builtin().type_id(name).expect(name)
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("an object is expected: {other}"),
    }
}

/// Checks that an object is unchanged by encoding and decoding.
fn check_round_trip(type_name: &str, value: Value) {
    let (table, id) = (Table::builtin(), type_id(type_name));
    let mut expect = object(value);
    canonicalize(table, id, &mut expect);
    let bytes = encode(table, id, &expect).expect(type_name);
    let mut decoded = decode(table, id, &bytes).expect(type_name);
    canonicalize(table, id, &mut decoded);
    assert_eq!(Value::Object(decoded), Value::Object(expect), "{type_name}");
}

/// An object as JSON, and its encoding by upstream.
#[derive(Deserialize)]
struct Case {
    r#type: String,
    input: String,
    bytes: String,
}

#[test]
fn objects_are_encoded_and_decoded_as_by_upstream() {
    let table = Table::builtin();
    for line in include_str!("cases.jsonl").lines() {
        let case: Case = serde_json::from_str(line).expect(line);
        let id = type_id(&case.r#type);
        let options = DecodeOptions::default();
        let decoded = decode_json(table, id, case.input.as_bytes(), options).expect("JSON");
        let mut from_json = decoded.object;
        let bytes = custom_types::from_base64(&case.bytes).expect("base64");
        assert_eq!(encode(table, id, &from_json).as_ref(), Ok(&bytes), "{line}");
        let mut from_bytes = decode(table, id, &bytes).expect("protobuf");
        canonicalize(table, id, &mut from_json);
        canonicalize(table, id, &mut from_bytes);
        assert_eq!(from_bytes, from_json, "{line}");
    }
}

/// Clients that know only upstream's fields can decode them.
#[test]
fn rhumb_extensions_do_not_change_upstream_field_numbers() {
    let (table, rule) = (
        Table::builtin(),
        type_id("io.k8s.api.admissionregistration.v1.ExclusionRule"),
    );
    let upstream = type_id("io.k8s.api.admissionregistration.v1.NamedRuleWithOperations");
    let ours = object(
        json!({"operations": ["CREATE"], "resourceNames": ["n"], "scope": "*",
        "namespaces": ["a"], "namespaceSelector": {}}),
    );
    let bytes = encode(table, rule, &ours).expect("encoded");
    let decoded = decode(table, upstream, &bytes).expect("decoded");
    let expect = json!({"operations": ["CREATE"], "resourceNames": ["n"], "scope": "*"});
    assert_eq!(Value::Object(decoded), expect);
}

#[test]
fn network_policy_status_survives_a_round_trip() {
    let condition = json!({"type": "Programmed", "status": "True", "observedGeneration": 3, "reason": "Applied",
        "lastTransitionTime": "2024-05-01T10:00:00Z", "message": "applied on 3 of 3 nodes"});
    check_round_trip(
        "io.k8s.api.networking.v1.NetworkPolicy",
        json!({
            "spec": {"podSelector": {}, "minVersion": "1.21"},
            "status": {"conditions": [condition, {"type": "Problem", "status": "False"}]},
        }),
    );
    check_round_trip(
        "dev.rhumb.networking.v1alpha1.NetworkPolicyNode",
        json!({
            "metadata": {"name": "node-a"}, "agent": "rhumb", "versions": ["1.3", "1.8"], "problem": "p",
            "bootID": "b",
            "unimplemented": [{"feature": "SCTP", "message": "m"}],
            "applied": [{"namespace": "x", "name": "y", "uid": "u", "generation": 3}],
        }),
    );
}

#[test]
fn unknown_fields_are_reported_unless_zero() {
    let (table, spec) = (
        Table::builtin(),
        type_id("io.k8s.api.networking.v1.NetworkPolicySpec"),
    );
    // Numbers 5 to 8: a text, an empty text, a number, zero.
    let bytes = [0x2a, 1, b'x', 0x32, 0, 0x38, 7, 0x40, 0];
    let decoded = decode_strict(table, spec, &bytes).expect("decoded");
    assert_eq!(
        decoded.problems,
        [
            "unknown field number 5 of v1.NetworkPolicySpec",
            "unknown field number 7 of v1.NetworkPolicySpec"
        ]
    );
    assert_eq!(decoded.object, Object::new());
    assert_eq!(decode(table, spec, &bytes), Ok(Object::new()));
}

#[test]
fn unknown_fields_in_and_below_exclusion_rules_are_rejected() {
    let (table, rule) = (
        Table::builtin(),
        type_id("io.k8s.api.admissionregistration.v1.ExclusionRule"),
    );
    // Number 9 of the rule; number 5 of its namespaceSelector, which is number 1001.
    let bytes = [0x48, 1, 0xca, 0x3e, 3, 0x2a, 1, b'x'];
    let decoded = decode_strict(table, rule, &bytes).expect("decoded");
    let mut rejected = decoded.rejected;
    rejected.sort();
    assert_eq!(
        rejected,
        [
            "unknown field number 5 of v1.LabelSelector",
            "unknown field number 9 of v1.NamedRuleWithOperations",
        ]
    );
    assert_eq!(decoded.problems, [""; 0]);
    let selector = type_id("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector");
    let decoded = decode_strict(table, selector, &bytes[5..]).expect("decoded");
    assert_eq!(decoded.rejected, [""; 0]);
}

#[test]
fn every_value_type_survives_a_round_trip() {
    check_round_trip(
        "io.k8s.api.core.v1.Pod",
        json!({
            "metadata": {
                "name": "a",
                "labels": {"b": "c", "": ""},
                "creationTimestamp": "2024-05-01T10:00:00Z",
                "managedFields": [{"fieldsV1": {"f:spec": {}}, "time": "1969-12-31T23:59:59Z"}],
            },
            "spec": {
                "containers": [{
                    "name": "x",
                    "args": ["", "-v"],
                    "resources": {"limits": {"cpu": "500m"}},
                    "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": -5},
                    "ports": [{"containerPort": 80}],
                }],
                "ephemeralContainers": [{"name": "e", "image": "i", "targetContainerName": "x"}],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "securityContext": {"supplementalGroups": [0, -1, i64::MAX]},
            },
        }),
    );
    check_round_trip(
        "io.k8s.api.core.v1.Secret",
        json!({"data": {"empty": "", "x": "AAEC/w=="}, "immutable": false}),
    );
    check_round_trip(
        "io.k8s.api.coordination.v1.Lease",
        json!({"spec": {"renewTime": "1969-12-31T23:59:59.999999Z", "acquireTime": "2024-05-01T10:00:00.000001Z"}}),
    );
    check_round_trip(
        "io.k8s.api.authentication.v1.TokenReview",
        json!({"status": {"user": {"extra": {"a": ["b", ""], "c": []}}}}),
    );
    check_round_trip(
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
        json!({"spec": {"matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "operations": ["CREATE"], "resources": ["*"], "resourceNames": ["n"], "scope": "*"},
        ]}}}),
    );
    let rule = json!({"apiGroups": [""], "resources": ["*"], "resourceNames": ["n"], "scope": "Namespaced",
        "namespaces": ["a", "b"], "namespaceSelector": {"matchLabels": {"c": "d"}}});
    check_round_trip(
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
        json!({"spec": {"matchResources": {"excludeResourceRules": [rule, {"namespaceSelector": {}}]}}}),
    );
    check_round_trip(
        "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
        json!({"webhooks": [{"name": "a.b.c", "excludeResourceRules": [rule]}]}),
    );
    check_round_trip(
        "io.k8s.api.apps.v1.ControllerRevision",
        json!({"data": {"any": [1, 2.5, null, {"thing": "x"}]}, "revision": 3}),
    );
    check_round_trip(
        SCHEMA,
        json!({
            "additionalProperties": false,
            "additionalItems": {"type": "string"},
            "items": [{"maximum": 1.5}, {}],
            "default": null,
            "enum": [null, "a", 1, {"b": []}],
            "example": [],
            "dependencies": {"a": ["b"], "c": {"not": {"minimum": 0}}},
            "properties": {"x": {"items": {"additionalProperties": true}}},
            "maximum": -3,
        }),
    );
}

/// Clients that request protobuf ignore a group whose resource list they cannot decode.
#[test]
fn verbs_are_encoded_as_a_separate_message() {
    let (table, id) = (
        Table::builtin(),
        type_id("io.k8s.apimachinery.pkg.apis.meta.v1.APIResource"),
    );
    let resource = object(json!({"name": "p", "kind": "P", "verbs": ["get", "list"]}));
    let bytes = encode(table, id, &resource).unwrap();
    let verbs = b"\"\x0b\n\x03get\n\x04list";
    assert!(
        bytes.windows(verbs.len()).any(|field| field == verbs),
        "{bytes:?}"
    );
    assert_eq!(
        decode(table, id, &bytes).unwrap()["verbs"],
        resource["verbs"]
    );
}

#[test]
fn a_repeated_field_merges_messages_and_replaces_scalars() {
    let table = Table::builtin();
    let id = type_id("io.k8s.api.apps.v1.Deployment");
    let field = |value| encode(table, id, &object(value)).expect("encoded");
    let first = field(json!({"spec": {"replicas": 1, "minReadySeconds": 5, "selector": {}}}));
    let second = field(json!({"spec": {"replicas": 0, "paused": true}}));
    let decoded = decode(table, id, &[first, second].concat()).expect("decoded");
    assert_eq!(
        Value::Object(decoded),
        json!({"spec": {"replicas": 0, "paused": true, "selector": {}}})
    );
}

#[test]
fn numbers_may_be_packed() {
    let id = type_id("io.k8s.api.core.v1.PodSecurityContext");
    let decoded = decode(Table::builtin(), id, &[0x22, 3, 1, 0x80, 1, 0x20, 7]).expect("decoded");
    assert_eq!(
        Value::Object(decoded),
        json!({"supplementalGroups": [1, 128, 7]})
    );
}

#[test]
fn errors_are_those_of_go() {
    let check = |type_name: &str, bytes: &[u8], expect: &str| {
        let result = decode(Table::builtin(), type_id(type_name), bytes);
        assert_eq!(result.expect_err(expect).to_string(), expect);
    };
    let pod = "io.k8s.api.core.v1.Pod";
    check(pod, &[0x0a], "unexpected EOF");
    check(pod, &[0x0a, 5, 1], "unexpected EOF");
    check(pod, &[0xff; 11], "proto: integer overflow");
    check(pod, &[0x0c], "proto: Pod: wiretype end group for non-group");
    check(pod, &[0x02, 0], "proto: Pod: illegal tag 0 (wire type 2)");
    check(
        pod,
        &[0x08, 1],
        "proto: wrong wireType = 0 for field Metadata",
    );
    check(pod, &[0x0f], "proto: illegal wireType 7");
    let quota = "io.k8s.api.core.v1.ResourceQuotaSpec";
    check(
        quota,
        &[0x0a, 8, 0x0a, 1, b'a', 0x12, 3, 0x0a, 1, b'x'],
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    let raw = "io.k8s.api.apps.v1.ControllerRevision";
    check(
        raw,
        &[0x12, 3, 0x0a, 1, b'{'],
        "unexpected end of JSON input",
    );
}

#[test]
fn unknown_fields_are_skipped() {
    let id = type_id("io.k8s.api.core.v1.LocalObjectReference");
    let unknown = [
        0x78, 1, 0x7a, 1, 0, 0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7d, 1, 2, 3, 4, 0x7b, 0x7b, 0x08, 1,
        0x7c, 0x7c, 0x0a, 1, b'a',
    ];
    let decoded = decode(Table::builtin(), id, &unknown).expect("decoded");
    assert_eq!(Value::Object(decoded), json!({"name": "a"}));
}

#[test]
fn nesting_depth_is_limited() {
    let nested = |levels: usize| {
        (0..levels).fold(Vec::new(), |inner: Vec<u8>, _| {
            let mut out = wire::ReverseWriter::default();
            // not
            out.bytes(28, &inner);
            out.into_bytes()
        })
    };
    let decode_nested = |levels| decode(Table::builtin(), type_id(SCHEMA), &nested(levels));
    assert!(decode_nested(MAX_DEPTH - 1).is_ok());
    let error = decode_nested(MAX_DEPTH).expect_err("too deep");
    let expect = format!("proto: nested deeper than {MAX_DEPTH} levels");
    assert_eq!(error.to_string(), expect);
}

#[test]
fn envelopes_are_encoded_as_by_upstream() {
    let envelope = UnknownEnvelope {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        raw: b"abc",
    };
    let encoded = envelope.encode();
    let upstream = b"k8s\0\x0a\x15\x0a\x07apps/v1\x12\x0aDeployment\x12\x03abc\x1a\0\x22\0";
    assert_eq!(encoded, upstream);
    assert_eq!(UnknownEnvelope::decode(&encoded), Ok(envelope));
    let check = |bytes: &[u8], expect: &str| {
        assert_eq!(
            UnknownEnvelope::decode(bytes)
                .expect_err(expect)
                .to_string(),
            expect
        );
    };
    check(b"", "empty data");
    check(
        b"{}",
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    );
    check(MAGIC, "empty body");
    check(b"k8s\0\x0a\x05", "unexpected EOF");
    check(
        b"k8s\0\x08\x05",
        "proto: wrong wireType = 0 for field TypeMeta",
    );
}

fn some_type() -> impl Strategy<Value = TypeId> {
    let table = Table::builtin();
    let names: Vec<&str> = table
        .types()
        .map(|object_type| &*object_type.name)
        .collect();
    prop::sample::select(names).prop_map(type_id)
}

/// Bytes that often are valid messages, to reach deep into the decoder.
fn some_message() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        (1_u8..16, any::<u8>()).prop_map(|(number, value)| vec![number << 3, value & 0x7f]),
        (1_u8..16, "[a-z0-9]{0,4}").prop_map(|(number, text)| [
            &[number << 3 | 2, text.len() as u8][..],
            text.as_bytes()
        ]
        .concat()),
    ];
    leaf.prop_recursive(6, 60, 4, |inner| {
        (1_u8..16, prop::collection::vec(inner, 0..4)).prop_map(|(number, fields)| {
            let fields = fields.concat();
            let mut out = wire::ReverseWriter::default();
            out.bytes(u32::from(number), &fields);
            out.into_bytes()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_input_is_decoded_or_rejected(type_id in some_type(), fields in prop::collection::vec(some_message(), 0..6)) {
        let table = Table::builtin();
        if let Ok(mut decoded) = decode(table, type_id, &fields.concat()) {
            // A decoded object can be encoded and decoded again without change.
            canonicalize(table, type_id, &mut decoded);
            let bytes = encode(table, type_id, &decoded).expect("encoded");
            let mut again = decode(table, type_id, &bytes).expect("read again");
            canonicalize(table, type_id, &mut again);
            prop_assert_eq!(again, decoded);
        }
        let _ = UnknownEnvelope::decode(&[MAGIC, &fields.concat()].concat());
    }
}
