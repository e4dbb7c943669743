//! Tests of the requests about one object, against scripted responses.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;

use super::*;

type ScriptedResponses = Arc<Mutex<VecDeque<(u16, Value)>>>;
type RecordedRequests = Arc<Mutex<Vec<String>>>;

/// An object on a fake server that gives these responses in order, and the recorded requests.
fn target_with_responses(responses: &[(u16, Value)]) -> (TargetObject, RecordedRequests) {
    let responses: ScriptedResponses = Arc::new(Mutex::new(responses.iter().cloned().collect()));
    let requests = RecordedRequests::default();
    let asked = requests.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (responses, asked) = (responses.clone(), asked.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let kind = parts.headers.get("content-type");
            let kind = kind.map_or("", |kind| kind.to_str().unwrap());
            let body = String::from_utf8_lossy(&body);
            let line = format!("{} {kind} {body}", parts.method);
            asked.lock().unwrap().push(line.trim().to_owned());
            let (code, answer) = responses.lock().unwrap().pop_front().expect("an answer");
            let response = Response::builder().status(code);
            let response = response.body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    let resource = ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
    };
    let target = TargetObject {
        api: Api::namespaced_with(Client::new(service, "default"), "default", &resource),
        name: "a".into(),
        uid: "u".into(),
    };
    (target, requests)
}

fn object(version: &str, owners: &[(&str, bool)]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(uid, blocks)| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid,
                "blockOwnerDeletion": blocks,
            })
        })
        .collect();
    json!({"metadata": {
        "name": "a", "uid": "u", "resourceVersion": version, "ownerReferences": owners,
        "finalizers": ["x", "orphan"], "managedFields": [{"manager": "m"}], "labels": {"k": "v"},
    }})
}

fn error_response(code: u16) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "R",
        "message": "refused",
    });
    (code, status)
}

fn meta(value: Value) -> PartialMetadata {
    serde_json::from_value(value).unwrap()
}

/// Method with patch type, and body, of each request.
fn recorded(requests: &RecordedRequests) -> Vec<(String, Value)> {
    let requests = requests.lock().unwrap();
    let parsed = requests.iter().map(|line| {
        let (method, rest) = line.split_once(' ').unwrap_or((line, ""));
        let body = rest.split_once(' ').map_or("", |(_, body)| body);
        let kind = rest.split_once(' ').map_or("", |(kind, _)| kind);
        let body = serde_json::from_str(body).unwrap_or_default();
        let patch = kind.strip_prefix("application/").unwrap_or_default();
        let patch = patch.strip_suffix("-patch+json").unwrap_or_default();
        (format!("{method} {patch}").trim().to_owned(), body)
    });
    parsed.collect()
}

#[test]
fn only_relevant_metadata_is_kept() {
    let meta = meta(object("1", &[("o", true)]));
    assert!(meta.metadata.managed_fields.is_none() && meta.metadata.labels.is_none());
    let object = meta.as_object();
    assert_eq!((object.name, object.uid), ("a", "u"));
    assert!(object.owners[0].blocks && object.has_orphan && !object.is_deleting);
}

#[tokio::test]
async fn a_deletion_is_retried_unless_the_owners_changed() {
    let observed = meta(object("1", &[("o", false)]));
    let conditions = |requests: &RecordedRequests| -> Vec<Value> {
        let recorded = recorded(requests).into_iter();
        let deletions = recorded.filter(|(method, _)| method == "DELETE");
        deletions
            .map(|(_, body)| body["preconditions"].clone())
            .collect()
    };
    let strict = json!({"uid": "u", "resourceVersion": "1"});
    let deleted = (200, json!({"kind": "Status", "status": "Success"}));

    let (target, requests) = target_with_responses(std::slice::from_ref(&deleted));
    assert!(
        target
            .delete(&observed, DeletionPropagation::Foreground)
            .await
            .unwrap()
    );
    assert_eq!(conditions(&requests), std::slice::from_ref(&strict));
    assert_eq!(recorded(&requests)[0].1["propagationPolicy"], "Foreground");

    let other = (200, object("2", &[("o", false)]));
    let (target, requests) = target_with_responses(&[error_response(409), other, deleted]);
    assert!(
        target
            .delete(&observed, DeletionPropagation::Background)
            .await
            .unwrap()
    );
    assert_eq!(conditions(&requests), [strict, json!({"uid": "u"})]);

    let changed = (200, object("2", &[("p", false)]));
    let (target, _) = target_with_responses(&[error_response(409), changed]);
    let refused = target
        .delete(&observed, DeletionPropagation::Background)
        .await;
    assert!(refused.unwrap_err().is_conflict());

    for gone in [
        vec![error_response(404)],
        vec![error_response(409), error_response(404)],
    ] {
        let (target, _) = target_with_responses(&gone);
        assert!(
            !target
                .delete(&observed, DeletionPropagation::Background)
                .await
                .unwrap()
        );
    }
}

#[tokio::test]
async fn references_are_removed_with_a_patch_type_the_resource_supports() {
    let latest = object("7", &[("o", true), ("p", true)]);
    let (target, requests) = target_with_responses(&[(200, latest.clone())]);
    target.release(&["o".into()]).await.unwrap();
    let strategic = json!({"metadata": {
        "uid": "u", "ownerReferences": [{"$patch": "delete", "uid": "o"}],
    }});
    let expected = ("PATCH strategic-merge".to_owned(), strategic);
    assert_eq!(recorded(&requests), [expected]);

    let responses = [
        error_response(415),
        (200, latest.clone()),
        (200, latest.clone()),
    ];
    let (target, requests) = target_with_responses(&responses);
    target.release(&["o".into()]).await.unwrap();
    let (method, body) = recorded(&requests).pop().unwrap();
    assert_eq!(method, "PATCH merge");
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    assert_eq!(
        body["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "p");

    let (target, requests) = target_with_responses(&responses);
    target.unblock(&meta(latest)).await.unwrap();
    for (_, body) in recorded(&requests)
        .iter()
        .filter(|(_, body)| !body.is_null())
    {
        let owners = body["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(owners.len(), 2);
        assert!(owners.iter().all(|own| own["blockOwnerDeletion"] == false));
    }

    let (target, _) = target_with_responses(&[error_response(404)]);
    target.release(&["o".into()]).await.unwrap();
}

#[tokio::test]
async fn a_finalizer_is_removed_despite_conflicts() {
    let responses = [
        (200, object("1", &[])),
        error_response(409),
        (200, object("2", &[])),
        (200, object("3", &[])),
    ];
    let (target, requests) = target_with_responses(&responses);
    target.remove_finalizer("orphan").await.unwrap();
    let (_, body) = recorded(&requests).pop().unwrap();
    let expected = json!({"metadata": {"resourceVersion": "2", "finalizers": ["x"]}});
    assert_eq!(body, expected);

    let other = json!({"metadata": {"name": "a", "uid": "another", "finalizers": ["orphan"]}});
    for nothing in [
        error_response(404),
        (200, other),
        (200, json!({"metadata": {"uid": "u"}})),
    ] {
        let (target, requests) = target_with_responses(&[nothing]);
        target.remove_finalizer("orphan").await.unwrap();
        assert_eq!(recorded(&requests).len(), 1);
    }
}
