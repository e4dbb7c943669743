//! Every write goes through the chain.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::{CORE, config_map, pod, recorded, signing_request};

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

/// A request, the code of its answer, and what the chain was asked.
type Case = (Method, String, Value, u16, &'static [&'static str]);

fn cases() -> Vec<Case> {
    let at = |path: &str| format!("{CORE}/{path}");
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
            at("pods"),
            pod("p"),
            201,
            &["mutate create pods", "validate create pods"],
        ),
        (
            Method::POST,
            at("pods"),
            pod("q"),
            201,
            &["mutate create pods", "validate create pods"],
        ),
        (
            Method::POST,
            at("pods?dryRun=All"),
            pod("r"),
            201,
            &["mutate create pods dry", "validate create pods dry"],
        ),
        (
            patch(),
            at("pods/p"),
            json!({"metadata": {"labels": {"a": "b"}}}),
            200,
            &["mutate update pods", "validate update pods"],
        ),
        (
            patch(),
            at("pods/p/status"),
            json!({}),
            200,
            &["mutate update pods/status", "validate update pods/status"],
        ),
        (
            patch(),
            at("pods/p/resize"),
            json!({}),
            200,
            &["mutate update pods/resize", "validate update pods/resize"],
        ),
        (
            patch(),
            at("pods/p/ephemeralcontainers"),
            json!({}),
            200,
            &[
                "mutate update pods/ephemeralcontainers",
                "validate update pods/ephemeralcontainers",
            ],
        ),
        (
            Method::POST,
            at("pods/p/binding"),
            binding("p"),
            201,
            &["mutate create pods/binding", "validate create pods/binding"],
        ),
        (
            Method::POST,
            at("bindings"),
            binding("q"),
            201,
            &["mutate create bindings", "validate create bindings"],
        ),
        (
            Method::POST,
            at("pods/p/exec"),
            Value::Null,
            501,
            &[
                "mutate connect pods/exec without object",
                "validate connect pods/exec without object",
            ],
        ),
        (
            Method::POST,
            at("pods/p/attach"),
            Value::Null,
            501,
            &[
                "mutate connect pods/attach without object",
                "validate connect pods/attach without object",
            ],
        ),
        (
            Method::POST,
            at("pods/p/portforward"),
            Value::Null,
            501,
            &[
                "mutate connect pods/portforward without object",
                "validate connect pods/portforward without object",
            ],
        ),
        (
            Method::POST,
            at("pods/p/proxy"),
            Value::Null,
            501,
            &[
                "mutate connect pods/proxy without object",
                "validate connect pods/proxy without object",
            ],
        ),
        (
            Method::POST,
            at("pods/p/eviction"),
            eviction,
            201,
            &[
                "mutate create pods/eviction",
                "validate create pods/eviction",
            ],
        ),
        (
            Method::DELETE,
            at("pods/q"),
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
            at("serviceaccounts"),
            account,
            201,
            &[
                "mutate create serviceaccounts",
                "validate create serviceaccounts",
            ],
        ),
        (
            Method::POST,
            at("serviceaccounts/s/token"),
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
            at("configmaps"),
            config_map("a"),
            201,
            &["mutate create configmaps", "validate create configmaps"],
        ),
        (
            Method::POST,
            at("configmaps"),
            config_map("b"),
            201,
            &["mutate create configmaps", "validate create configmaps"],
        ),
        (
            Method::DELETE,
            at("configmaps"),
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
async fn every_write_goes_through_the_chain() {
    let (server, recorder, _directory) = recorded().await;
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (method, path, body, code, want) in cases() {
        let (got_code, answer) = server.ask(method.clone(), &path, body).await;
        assert_eq!(got_code, code, "{method} {path}: {answer}");
        assert_eq!(recorder.take(), want, "{method} {path}");
        seen.extend(path.rsplit('/').next().map(str::to_owned));
    }
    for resource in server.api.registry.iter() {
        for subresource in &resource.kind.subresources {
            let is_read = subresource.name == "log";
            assert!(
                is_read || seen.contains(subresource.name),
                "no case writes to {}/{}",
                resource.kind.plural,
                subresource.name,
            );
        }
    }
}
