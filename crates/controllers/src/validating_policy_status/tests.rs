use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rhumb_client::testing::fake_client_with;
use tokio::time::timeout;

use super::*;
use crate::testing::{context, discovery, is_watch, list_response, ok_response, status_response};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

fn policy(name: &str, expression: &str, observed: Option<u64>) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "generation": 2, "resourceVersion": "5"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["deployments", "unknowns"],
            }]},
            "validations": [{"expression": expression}],
        },
        "status": {"observedGeneration": observed},
    })
}

/// Runs the controller with these policies and returns the bodies of its writes, by path.
async fn writes(policies: Vec<Value>) -> Vec<(String, Value)> {
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let writes = recorded.clone();
    let client = fake_client_with(move |request| {
        let path = request.uri().path();
        if is_watch(request) {
            return None;
        }
        if request.method() == http::Method::PATCH {
            let body = serde_json::from_slice(request.body()).expect("a patch");
            writes.lock().push((path.to_owned(), body));
        }
        let name = path
            .strip_prefix(POLICIES)
            .map(|rest| rest.split('/').nth(1));
        match (path, name) {
            ("/api", _) => ok_response(discovery("", "Current", ["pods"])),
            ("/apis", _) => ok_response(discovery("apps", "Current", ["deployments"])),
            (_, Some(None)) => list_response(&policies),
            (_, Some(Some(name))) => {
                let mut policies = policies.iter();
                let policy = policies.find(|policy| policy["metadata"]["name"] == name);
                ok_response(policy.expect("a policy").clone())
            }
            _ => status_response(404),
        }
    });
    let ran = timeout(Duration::from_secs(60), run(context(client))).await;
    assert!(ran.is_err(), "{ran:?}");
    let recorded = recorded.lock();
    recorded.clone()
}

#[tokio::test(start_paused = true)]
async fn type_errors_are_written_into_the_status() {
    let written = writes(vec![
        policy("good", "object.spec.replicas > 1", Some(1)),
        policy("bad", "object.spec.replicasWrong > 1", None),
        policy("checked", "object.spec.replicasWrong > 1", Some(2)),
    ])
    .await;
    let of = |name: &str| {
        let path = format!("{POLICIES}/{name}/status");
        let mut bodies = written.iter().filter(|(written, _)| *written == path);
        let body = bodies.next().map(|(_, body)| body);
        assert!(bodies.next().is_none(), "{written:?}");
        body
    };
    let good = json!({
        "metadata": {"resourceVersion": "5"},
        "status": {"observedGeneration": 2, "typeChecking": {"expressionWarnings": null}},
    });
    assert_eq!(of("good"), Some(&good));
    let bad = &of("bad").expect("a write")["status"];
    assert_eq!(bad["observedGeneration"], 2);
    assert_eq!(
        bad["typeChecking"]["expressionWarnings"],
        json!([{
            "fieldRef": "spec.validations[0].expression",
            "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicasWrong'\n | object.spec.replicasWrong > 1\n | ...........^\n",
        }])
    );
    assert_eq!(of("checked"), None);
}
