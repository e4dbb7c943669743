//! Tests of decoding and validating the response of a webhook.

use serde_json::{Value, json};

use super::*;

#[test]
fn responses_are_validated_like_upstream() {
    let review = |response: Value| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let invalid = |text: &str| Err(AdmissionResponseError::Invalid(text.to_owned()));
    let table = [
        (review(json!({"uid": "u", "allowed": true})), true, Ok(true)),
        (review(json!({"uid": "u"})), false, Ok(false)),
        (
            review(json!(null)),
            false,
            invalid("webhook response was absent"),
        ),
        (
            review(json!({"uid": "x"})),
            false,
            invalid("expected response.uid=\"u\", got \"x\""),
        ),
        (
            json!({"response": {"uid": "u", "allowed": true}}),
            false,
            invalid(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
        ),
        (
            review(json!({"uid": "u", "patch": "W10="})),
            true,
            invalid("webhook returned response.patch but not response.patchType"),
        ),
        (
            review(json!({"uid": "u", "patchType": "JSONPatch"})),
            true,
            invalid("webhook returned response.patchType but not response.patch"),
        ),
        (
            review(json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "X"})),
            true,
            Err(AdmissionResponseError::UnsupportedPatch("X".to_owned())),
        ),
        (
            review(json!({"uid": "u", "patch": "W10=", "patchType": ""})),
            true,
            invalid("webhook returned invalid response.patchType of \"\""),
        ),
        // A rejection stays one, even with an invalid patch.
        (
            review(json!({"uid": "u", "patch": "W10=", "patchType": "X"})),
            true,
            Ok(false),
        ),
        (
            review(json!({"uid": "u", "allowed": false, "patch": "?", "patchType": "JSONPatch"})),
            true,
            Ok(false),
        ),
        // Null means absent.
        (
            review(json!({"uid": "u", "allowed": null})),
            true,
            Ok(false),
        ),
        (
            review(json!({"uid": null})),
            true,
            invalid("expected response.uid=\"u\", got \"\""),
        ),
        (
            json!({"apiVersion": null, "kind": null, "response": {"uid": "u"}}),
            false,
            invalid(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
        ),
        (
            review(json!({
                "uid": "u", "allowed": true, "status": null, "patch": null, "patchType": null,
                "auditAnnotations": null, "warnings": null,
            })),
            true,
            Ok(true),
        ),
        (
            review(json!({"uid": "u", "patch": "W10="})),
            false,
            invalid("validating webhook may not return response.patch"),
        ),
        (
            review(json!({"uid": "u", "patchType": "JSONPatch"})),
            false,
            invalid("validating webhook may not return response.patchType"),
        ),
        (
            review(json!({"uid": "u", "patch": "W10=", "patchType": "JSONPatch"})),
            true,
            Ok(false),
        ),
    ];
    for (answer, mutating, want) in table {
        let bytes = answer.to_string();
        let got = parse_response(bytes.as_bytes(), "u", ReviewVersion::V1, mutating);
        assert_eq!(got.map(|answer| answer.allowed), want, "{answer}");
    }
    let broken =
        review(json!({"uid": "u", "allowed": true, "patch": "?", "patchType": "JSONPatch"}));
    for nonsense in ["<html>", &*broken.to_string()] {
        let got = parse_response(nonsense.as_bytes(), "u", ReviewVersion::V1, true);
        assert!(
            matches!(got, Err(AdmissionResponseError::Unreadable(_))),
            "{got:?}"
        );
    }
}

#[test]
fn null_in_a_response_is_decoded_like_go() {
    let rejected = |status: Value| {
        let answer = json!({"response": {
            "status": status, "auditAnnotations": {"a": null, "b": "c"}, "warnings": [null, "w"],
        }});
        let bytes = answer.to_string();
        let answer = parse_response(bytes.as_bytes(), "u", ReviewVersion::V1Beta1, true);
        let answer = answer.unwrap_or_else(|error| panic!("{status}: {error}"));
        assert!(!answer.allowed);
        assert_eq!(answer.annotations["a"], "");
        assert_eq!(answer.annotations["b"], "c");
        assert_eq!(answer.warnings, ["", "w"]);
        answer.status.map(|status| json!(status))
    };
    assert_eq!(rejected(json!(null)), None);
    let bare = rejected(json!({}));
    let table = [
        json!({"message": null, "code": null, "reason": null, "status": null}),
        json!({"metadata": null, "details": null}),
        json!({"metadata": {"continue": null}}),
    ];
    for status in table {
        assert_eq!(rejected(status.clone()), bare, "{status}");
    }
    let details = json!({
        "name": null, "group": null, "kind": null, "uid": null, "retryAfterSeconds": null,
        "causes": [null, {"reason": null, "message": null, "field": "spec"}],
    });
    let body = rejected(json!({"code": 418, "message": "no", "details": details}));
    let body = body.expect("the response has a status");
    assert_eq!(body["code"], 418);
    assert_eq!(body["message"], "no");
    assert_eq!(body["details"], json!({"causes": [{}, {"field": "spec"}]}));
}
