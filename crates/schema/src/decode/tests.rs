//! Compares decoding with upstream's results, recorded in `cases.jsonl`; checks limits, and properties of any input.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::canonicalize;

const POD: &str = "io.k8s.api.core.v1.Pod";

/// An input and upstream's result: the object as upstream would encode it, or an error.
#[derive(Deserialize)]
struct Case {
    op: String,
    r#type: String,
    input: String,
    object: Option<Object>,
    #[serde(default)]
    problems: Vec<String>,
    error: Option<String>,
}

fn decode(op: &str, type_name: &str, input: &[u8]) -> Result<DecodeOutput, DecodeError> {
    let table = Table::builtin();
    let type_id = table.type_id(type_name).expect("a built-in type");
    let decode_bytes = match op {
        "json" => decode_json,
        _ => decode_yaml,
    };
    let mut decoded = decode_bytes(table, type_id, input, DecodeOptions::default())?;
    canonicalize(table, type_id, &mut decoded.object);
    Ok(decoded)
}

#[test]
fn objects_are_decoded_as_by_upstream() {
    let mut mismatches = Vec::new();
    for line in include_str!("cases.jsonl").lines() {
        let case: Case = serde_json::from_str(line).expect(line);
        let actual = decode(&case.op, &case.r#type, case.input.as_bytes());
        let problems = case.problems;
        let expected = case
            .object
            .map(|object| DecodeOutput {
                object,
                problems,
                rejected: Vec::new(),
                alias_warnings: Vec::new(),
            })
            .ok_or_else(|| DecodeError(case.error.expect("an answer")));
        if actual != expected {
            mismatches.push(format!(
                "{}\n  upstream: {expected:?}\n  ours:     {actual:?}",
                case.input
            ));
        }
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

fn with_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let joined = thread.spawn(test).expect("a thread").join();
    assert!(joined.is_ok(), "the test failed in its thread");
}

#[test]
fn deep_nesting_is_an_error_without_stack_overflow() {
    with_small_stack(|| {
        let nested = |open: &str, close: &str, depth: usize| {
            format!("{}1{}", open.repeat(depth), close.repeat(depth))
        };
        let check = |type_name: &str, text: &str, expect: &str| {
            let error = decode("json", type_name, text.as_bytes()).expect_err("too deep");
            assert_eq!(error.0, expect);
        };
        let deep = nested("[", "]", 10_001);
        check(
            POD,
            &format!("{{\"a\":{deep}}}"),
            "couldn't get version/kind; json parse error: invalid character '[' exceeded max depth",
        );
        let revision = "io.k8s.api.apps.v1.ControllerRevision";
        let limit = &format!("json: nested deeper than {MAX_DEPTH} levels");
        let data = nested("{\"a\":", "}", 9_000);
        check(revision, &format!("{{\"data\":{data}}}"), limit);
        let schema = nested("{\"not\":", "}", 9_000);
        let crd = format!(
            "{{\"spec\":{{\"versions\":[{{\"schema\":{{\"openAPIV3Schema\":{schema}}}}}]}}}}"
        );
        let definition =
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
        check(definition, &crd, limit);
        let schema = nested("{\"items\":", "}", 9_000);
        let crd = format!(
            "{{\"spec\":{{\"versions\":[{{\"schema\":{{\"openAPIV3Schema\":{schema}}}}}]}}}}"
        );
        check(definition, &crd, limit);
    });
}

#[test]
fn the_maximum_nesting_depth_is_decoded() {
    with_small_stack(|| {
        let depth = MAX_DEPTH - 1;
        let text = format!(
            "{{\"data\":{}1{}}}",
            "[".repeat(depth - 1),
            "]".repeat(depth - 1)
        );
        let decoded = decode(
            "json",
            "io.k8s.api.apps.v1.ControllerRevision",
            text.as_bytes(),
        );
        assert!(decoded.expect("readable").object.contains_key("data"));
    });
}

/// Other code recurses through decoded objects, with a stack of this size.
#[test]
fn objects_of_maximum_depth_can_be_processed_recursively() {
    with_small_stack(|| {
        let table = Table::builtin();
        let name =
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
        let type_id = table.type_id(name).expect("exists");
        let depth = MAX_DEPTH - 6;
        let schema = format!("{}{{}}{}", "{\"not\":".repeat(depth), "}".repeat(depth));
        let text = format!(
            "{{\"spec\":{{\"versions\":[{{\"schema\":{{\"openAPIV3Schema\":{schema}}}}}]}}}}"
        );
        let mut object = decode("json", name, text.as_bytes())
            .expect("readable")
            .object;
        let stored = json!({"items": [&object]}).to_string();
        assert!(serde_json::from_str::<Value>(&stored).is_ok());
        let again = decode_value(
            table,
            type_id,
            &Value::Object(object.clone()),
            DecodeOptions::default(),
        );
        assert_eq!(
            again.expect("readable").object["spec"]["versions"],
            object["spec"]["versions"]
        );
        let merged = crate::strategic_merge(table, type_id, &object, object.clone());
        let merged = merged.expect("a patch");
        assert_eq!(merged["spec"], object["spec"]);
        let defaults = crate::ObjectDefaulter::new(table, []).expect("no functions");
        defaults.apply(&crate::SchemaRef::new(table.clone(), type_id), &mut object);
    });
}

#[test]
fn yaml_has_the_same_maximum_depth_as_json() {
    with_small_stack(|| {
        let depth = MAX_DEPTH - 1;
        let text = format!("data: {}1{}", "{a: ".repeat(depth), "}".repeat(depth));
        let decoded = decode(
            "yaml",
            "io.k8s.api.apps.v1.ControllerRevision",
            text.as_bytes(),
        );
        assert!(decoded.expect("readable").object["data"].is_object());
    });
}

#[test]
fn unknown_fields_may_be_nested_deeper() {
    let text = format!("{{\"foo\":{}1{}}}", "[".repeat(9_000), "]".repeat(9_000));
    let decoded = decode("json", POD, text.as_bytes()).expect("readable");
    assert_eq!(decoded.problems, ["unknown field \"foo\""]);
}

#[test]
fn at_most_a_hundred_problems_are_reported() {
    let fields: Vec<String> = (0..200).map(|n| format!("\"f{n}\":1")).collect();
    let text = format!("{{{}}}", fields.join(","));
    assert_eq!(
        decode("json", POD, text.as_bytes())
            .expect("readable")
            .problems
            .len(),
        100
    );
}

#[test]
fn without_strict_no_problems_are_reported() {
    let table = Table::builtin();
    let type_id = table.type_id(POD).expect("exists");
    let options = DecodeOptions {
        strict: false,
        ..DecodeOptions::default()
    };
    let decoded = decode_json(table, type_id, br#"{"a":1,"kind":"x","kind":"y"}"#, options)
        .expect("readable");
    assert_eq!(json!(decoded.object), json!({"kind": "y"}));
    assert!(decoded.problems.is_empty());
}

#[test]
fn invalid_utf8_is_replaced() {
    let decoded = decode("json", POD, b"{\"metadata\":{\"name\":\"a\xffb\"}}").expect("readable");
    assert_eq!(decoded.object["metadata"]["name"], "a\u{fffd}b");
    assert!(decode("yaml", POD, b"metadata: {name: \xff}").is_err());
}

#[test]
fn patched_values_are_decoded_like_json() {
    let table = Table::builtin();
    let type_id = table.type_id(POD).expect("exists");
    let value = json!({"spec": {"containers": "x"}});
    let options = DecodeOptions {
        top_level: false,
        ..DecodeOptions::default()
    };
    let error = decode_value(table, type_id, &value, options).expect_err("no list");
    assert_eq!(
        error.0,
        "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container"
    );
}

#[test]
fn untyped_objects_keep_all_fields() {
    let text = br#"{"a":{"$patch":"x","b":[null,{"c":1,"c":2.5}]},"d":1,"d":null}"#;
    let decoded = decode_untyped(text, true).expect("readable");
    let expect = json!({"a": {"$patch": "x", "b": [null, {"c": 2.5}]}, "d": null});
    assert_eq!(json!(decoded.object), expect);
    let problems = ["duplicate field \"a.b[1].c\"", "duplicate field \"d\""];
    assert_eq!(decoded.problems, problems);
    let error = decode_untyped(b"[1]", true).expect_err("no object");
    let expect = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    assert_eq!(error.0, expect);
    let error = decode_untyped(b"{\"a\":1e400}", true).expect_err("too large");
    let expect = "json: cannot unmarshal number 1e400 into Go value of type float64";
    assert_eq!(error.0, expect);
    let error = decode_untyped(b"{", true).expect_err("malformed");
    assert_eq!(error.0, "unexpected end of JSON input");
}

#[test]
fn yaml_alias_bombs_and_deep_nesting_are_rejected() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for n in 1..10 {
        let aliases = vec![format!("*a{}", n - 1); 10].join(",");
        bomb.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
    }
    assert!(decode("yaml", POD, bomb.as_bytes()).is_err());
    with_small_stack(|| {
        for (open, close) in [("[", "]"), ("{a: ", "}")] {
            let deep = format!("{}1{}", open.repeat(9_000), close.repeat(9_000));
            assert!(decode("yaml", POD, deep.as_bytes()).is_err());
        }
        let block: String = (0..3_000)
            .map(|n| format!("{}a:\n", " ".repeat(n)))
            .collect();
        assert!(decode("yaml", POD, block.as_bytes()).is_err());
    });
}

proptest! {
    #[test]
    fn no_input_causes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode("json", POD, &bytes);
        let _ = decode("yaml", POD, &bytes);
    }

    #[test]
    fn serde_json_agrees_on_malformed_input(text in "[\\[\\]{}:,\"a1-]{0,12}") {
        let actual = json::check(text.as_bytes());
        let expected = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        prop_assert_eq!(actual.is_ok(), expected.is_ok());
        let mut reader = json::JsonReader::new(text.as_bytes());
        let result = reader.skip().and_then(|_| reader.end());
        prop_assert_eq!(result.is_ok(), expected.is_ok());
    }
}

#[test]
fn numbers_in_place_of_versions_are_reported_with_advice() {
    let policy = "io.k8s.api.networking.v1.NetworkPolicy";
    for (format, body) in [
        ("json", r#"{"spec": {"minVersion": 1.8}}"#),
        ("yaml", "spec:\n  minVersion: 1.8\n"),
    ] {
        let error = decode(format, policy, body.as_bytes()).unwrap_err();
        assert_eq!(
            error.0,
            "json: cannot unmarshal number into Go struct field NetworkPolicySpec.spec.minVersion of type \
             v1.NetworkPolicyVersion: write it in quotes, such as minVersion: \"1.21\""
        );
    }
}
