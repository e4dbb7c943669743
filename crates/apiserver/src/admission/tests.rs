//! Every write goes through the chain, and the chain does what upstream's does.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine as _;
use http::Method;
use rhumb_api::{Object, SubresourceKind};
use rhumb_meta::Status;
use serde_json::{Value, json};

use super::{Attributes, Chain, Plugin};
use crate::testing::{Server, Setup};

/// Notes what it is asked.
#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, phase: &str, attributes: &Attributes<'_>, has_object: bool) {
        let plural = &attributes.call.resource.kind.plural;
        let subresource = attributes.subresource();
        let slash = if subresource.is_empty() { "" } else { "/" };
        let operation = format!("{:?}", attributes.operation).to_lowercase();
        let object = if has_object { "" } else { " without object" };
        let dry_run = if attributes.dry_run { " dry" } else { "" };
        self.0.lock().expect("no panic").push(format!(
            "{phase} {operation} {plural}{slash}{subresource}{object}{dry_run}"
        ));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

#[async_trait]
impl Plugin for Recorder {
    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        self.note("mutate", attributes, object.is_some());
        Ok(())
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        self.note("validate", attributes, object.is_some());
        Ok(())
    }
}

async fn recorded() -> (Server, Recorder, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let recorder = Recorder::default();
    let setup = Setup {
        chain: Chain::default().with(recorder.clone()),
        ..Setup::default()
    };
    let server = Server::open(directory.path(), setup).await;
    recorder.take();
    (server, recorder, directory)
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

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

fn signing_request() -> Value {
    let key = rcgen::KeyPair::generate().expect("a key");
    let pem = rcgen::CertificateParams::default()
        .serialize_request(&key)
        .and_then(|request| request.pem())
        .expect("a request");
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr"},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(pem),
            "signerName": "example.com/own",
            "usages": ["client auth"],
        },
    })
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": "n"},
    })
}

const CORE: &str = "/api/v1/namespaces/default";

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
                "no case writes to {}/{} ({:?})",
                resource.kind.plural,
                subresource.name,
                SubresourceKind::Status == subresource.kind
            );
        }
    }
}

#[tokio::test]
async fn pods_get_what_the_default_plugins_give() {
    let (server, _, _directory) = recorded().await;
    let (code, given) = server.create(&format!("{CORE}/pods"), pod("p")).await;
    assert_eq!(code, 201, "{given}");
    assert_eq!(given["spec"]["priority"], 0);
    assert_eq!(given["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    assert_eq!(given["spec"]["tolerations"][1]["tolerationSeconds"], 300);

    let mut critical = pod("critical");
    critical["spec"]["priorityClassName"] = json!("system-node-critical");
    let (code, given) = server.create(&format!("{CORE}/pods"), critical).await;
    assert_eq!(
        (code, &given["spec"]["priority"]),
        (201, &json!(2_000_001_000))
    );

    let refused = [
        (
            json!({"priorityClassName": "nope"}),
            "no PriorityClass with name nope was found",
        ),
        (
            json!({"runtimeClassName": "nope"}),
            "pod rejected: RuntimeClass \"nope\" not found",
        ),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ];
    for (spec, reason) in refused {
        let mut body = pod("x");
        for (field, value) in spec.as_object().expect("an object") {
            body["spec"][field] = value.clone();
        }
        let (code, status) = server.create(&format!("{CORE}/pods"), body).await;
        let want = format!("pods \"x\" is forbidden: {reason}");
        assert_eq!(
            (code, status["message"].as_str()),
            (403, Some(want.as_str()))
        );
    }
}

#[tokio::test]
async fn namespaces_are_asked_before_anything_is_made_in_them() {
    let (server, _, _directory) = recorded().await;
    let (code, status) = server
        .create("/api/v1/namespaces/nope/configmaps", config_map("a"))
        .await;
    assert_eq!(
        (code, status["message"].as_str()),
        (404, Some("namespaces \"nope\" not found"))
    );
    for name in ["default", "kube-system", "kube-public"] {
        let (code, status) = server.delete(&format!("/api/v1/namespaces/{name}")).await;
        let want = format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
        assert_eq!(
            (code, status["message"].as_str()),
            (403, Some(want.as_str()))
        );
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
    assert_eq!(server.create("/api/v1/namespaces", namespace).await.0, 201);
    let maps = "/api/v1/namespaces/ns/configmaps";
    assert_eq!(server.create(maps, config_map("a")).await.0, 201);
    assert_eq!(server.delete("/api/v1/namespaces/ns").await.0, 200);
    let (code, status) = server.create(maps, config_map("b")).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "configmaps \"b\" is forbidden: unable to create new content in namespace ns because it is being terminated"
    );
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    let change = json!({"data": {"a": "b"}});
    let path = format!("{maps}/a");
    assert_eq!(server.ask(Method::PATCH, &path, change).await.0, 200);
}

#[tokio::test]
async fn a_signing_request_says_who_asked() {
    let (server, _, _directory) = recorded().await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let mut request = signing_request();
    request["spec"]["username"] = json!("somebody else");
    let (code, given) = server.create(path, request).await;
    assert_eq!(code, 201, "{given}");
    assert_eq!(given["spec"]["username"], "system:apiserver");
    assert_eq!(
        given["spec"]["groups"],
        json!(["system:masters", "system:authenticated"])
    );
}
