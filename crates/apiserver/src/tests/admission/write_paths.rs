//! Tests that every kind of write goes through the admission chain.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::{CORE, config_map, pod, recording_server, signing_request};

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": "n"},
    })
}

/// Method, path, body, expected status code, and expected plugin calls.
type WritePathCase = (Method, String, Value, u16, &'static [&'static str]);

fn cases() -> Vec<WritePathCase> {
    let core_path = |path: &str| format!("{CORE}/{path}");
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let token =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}},
    });
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    let patch = || Method::PATCH;
    vec![
        (
            Method::POST,
            core_path("pods"),
            pod("p"),
            201,
            &["mutate create pods", "validate create pods"],
        ),
        (
            Method::POST,
            core_path("pods"),
            pod("q"),
            201,
            &["mutate create pods", "validate create pods"],
        ),
        (
            Method::POST,
            core_path("pods?dryRun=All"),
            pod("r"),
            201,
            &["mutate create pods dry", "validate create pods dry"],
        ),
        (
            patch(),
            core_path("pods/p"),
            json!({"metadata": {"labels": {"a": "b"}}}),
            200,
            &["mutate update pods", "validate update pods"],
        ),
        (
            patch(),
            core_path("pods/p/status"),
            json!({}),
            200,
            &["mutate update pods/status", "validate update pods/status"],
        ),
        (
            patch(),
            core_path("pods/p/resize"),
            json!({}),
            200,
            &["mutate update pods/resize", "validate update pods/resize"],
        ),
        (
            patch(),
            core_path("pods/p/ephemeralcontainers"),
            json!({}),
            200,
            &[
                "mutate update pods/ephemeralcontainers",
                "validate update pods/ephemeralcontainers",
            ],
        ),
        (
            Method::POST,
            core_path("pods/p/binding"),
            binding("p"),
            201,
            &["mutate create pods/binding", "validate create pods/binding"],
        ),
        (
            Method::POST,
            core_path("bindings"),
            binding("q"),
            201,
            &["mutate create bindings", "validate create bindings"],
        ),
        (
            Method::POST,
            core_path("pods/p/exec"),
            Value::Null,
            501,
            &["mutate connect pods/exec", "validate connect pods/exec"],
        ),
        (
            Method::POST,
            core_path("pods/p/attach"),
            Value::Null,
            501,
            &["mutate connect pods/attach", "validate connect pods/attach"],
        ),
        (
            Method::POST,
            core_path("pods/p/portforward"),
            Value::Null,
            501,
            &[
                "mutate connect pods/portforward",
                "validate connect pods/portforward",
            ],
        ),
        (
            Method::POST,
            core_path("pods/p/proxy"),
            Value::Null,
            501,
            &["mutate connect pods/proxy", "validate connect pods/proxy"],
        ),
        (
            Method::POST,
            core_path("pods/p/eviction"),
            eviction,
            201,
            &[
                "mutate create pods/eviction",
                "validate create pods/eviction",
            ],
        ),
        (
            Method::DELETE,
            core_path("pods/q"),
            Value::Null,
            200,
            &[
                "mutate delete pods without object",
                "validate delete pods without object",
            ],
        ),
        (
            Method::POST,
            deployments.to_owned(),
            deployment(),
            201,
            &["mutate create deployments", "validate create deployments"],
        ),
        (
            patch(),
            format!("{deployments}/d/scale"),
            json!({"spec": {"replicas": 3}}),
            200,
            &[
                "mutate update deployments/scale",
                "validate update deployments/scale",
            ],
        ),
        (
            Method::POST,
            core_path("serviceaccounts"),
            account,
            201,
            &[
                "mutate create serviceaccounts",
                "validate create serviceaccounts",
            ],
        ),
        (
            Method::POST,
            core_path("serviceaccounts/s/token"),
            token,
            201,
            &[
                "mutate create serviceaccounts/token",
                "validate create serviceaccounts/token",
            ],
        ),
        (
            Method::POST,
            requests.to_owned(),
            signing_request(),
            201,
            &[
                "mutate create certificatesigningrequests",
                "validate create certificatesigningrequests",
            ],
        ),
        (
            patch(),
            format!("{requests}/csr/approval"),
            json!({}),
            200,
            &[
                "mutate update certificatesigningrequests/approval",
                "validate update certificatesigningrequests/approval",
            ],
        ),
        (
            Method::POST,
            "/api/v1/namespaces".into(),
            namespace.clone(),
            201,
            &["mutate create namespaces", "validate create namespaces"],
        ),
        (
            Method::PUT,
            "/api/v1/namespaces/ns/finalize".into(),
            namespace,
            200,
            &[
                "mutate update namespaces/finalize",
                "validate update namespaces/finalize",
            ],
        ),
        (
            Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".into(),
            review,
            201,
            &[
                "mutate create selfsubjectaccessreviews",
                "validate create selfsubjectaccessreviews",
            ],
        ),
        (
            Method::PUT,
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/l".into(),
            lease,
            201,
            &["mutate create leases", "validate create leases"],
        ),
        (
            Method::POST,
            core_path("configmaps"),
            config_map("a"),
            201,
            &["mutate create configmaps", "validate create configmaps"],
        ),
        (
            Method::POST,
            core_path("configmaps"),
            config_map("b"),
            201,
            &["mutate create configmaps", "validate create configmaps"],
        ),
        (
            Method::DELETE,
            core_path("configmaps"),
            Value::Null,
            200,
            &[
                "mutate delete configmaps without object",
                "validate delete configmaps without object",
                "mutate delete configmaps without object",
                "validate delete configmaps without object",
            ],
        ),
    ]
}

#[tokio::test]
async fn every_write_path_runs_admission() {
    let (server, recorder, _directory) = recording_server().await;
    let mut covered_paths: BTreeSet<String> = BTreeSet::new();
    for (method, path, body, code, want) in cases() {
        let (got_code, response) = server.request(method.clone(), &path, body).await;
        assert_eq!(got_code, code, "{method} {path}: {response}");
        assert_eq!(recorder.take(), want, "{method} {path}");
        covered_paths.extend(path.rsplit('/').next().map(str::to_owned));
    }
    for resource in server.state.registry.resources().iter() {
        for subresource in &resource.kind.subresources {
            let is_read = subresource.name == "log";
            assert!(
                is_read || covered_paths.contains(&*subresource.name),
                "no case writes to {}/{}",
                resource.kind.plural,
                subresource.name,
            );
        }
    }
}
