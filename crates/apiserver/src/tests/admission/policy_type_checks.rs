//! Type-check warnings in the status of validating admission policies.

use http::Method;
use serde_json::{Value, json};

use super::policies::{GROUP, create_validating_policy, server};
use crate::testing::TestServer;

#[tokio::test]
async fn type_errors_are_reported_in_the_policy_status() {
    let (server, _directory) = server().await;
    let spec = json!({
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"],
        }]},
        "validations": [
            {"expression": "object.spec.replicas > 1"},
            {"expression": "object.spec.replicasWrong > 1"},
        ],
    });
    create_validating_policy(&server, "p", spec, json!({})).await;
    let path = format!("{GROUP}/validatingadmissionpolicies/p");
    let status = wait_for_type_check(&server, &path, 1).await;
    let warnings = &status["typeChecking"]["expressionWarnings"];
    assert_eq!(warnings.as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(warnings[0]["fieldRef"], "spec.validations[1].expression");
    assert_eq!(
        warnings[0]["warning"],
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicasWrong'\n | object.spec.replicasWrong > 1\n | ...........^\n"
    );
    let patch = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
    let (code, response) = server.request(Method::PATCH, &path, patch).await;
    assert_eq!(code, 200, "{response}");
    let status = wait_for_type_check(&server, &path, 2).await;
    assert_eq!(status["typeChecking"], json!({}), "{status}");
}

/// Waits until the policy's status has observed this generation, and returns it.
async fn wait_for_type_check(server: &TestServer, path: &str, generation: u64) -> Value {
    for _ in 0..1000 {
        let (_, policy) = server.get(path).await;
        if policy["status"]["observedGeneration"] == generation {
            return policy["status"].clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the status of {path} never reached generation {generation}");
}
