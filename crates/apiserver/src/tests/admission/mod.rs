//! Tests of the admission chain on a whole server, and helpers for them.

mod limit_ranger;
mod mutating_policies;
mod pod_plugins;
mod policies;
mod service_accounts;
mod write_paths;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine as _;
use http::Method;
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use serde_json::{Value, json};

use crate::testing::{TestServer, TestServerOptions};
use rhumb_admission_plugins::AdmissionPlugins;
use rhumb_registry::RequestOrigin;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin};

/// A plugin that records its calls.
#[derive(Debug, Clone, Default)]
struct RecordingPlugin(Arc<Mutex<Vec<String>>>);

impl RecordingPlugin {
    fn record(&self, phase: &str, attributes: &AdmissionAttributes<'_>, has_object: bool) {
        let plural = &attributes.context.resource.kind.plural;
        let subresource = attributes.subresource();
        let slash = if subresource.is_empty() { "" } else { "/" };
        let operation = format!("{:?}", attributes.operation).to_lowercase();
        let object = if has_object { "" } else { " without object" };
        let dry_run = if attributes.dry_run { " dry" } else { "" };
        self.0
            .lock()
            .expect("the lock is not poisoned")
            .push(format!(
                "{phase} {operation} {plural}{slash}{subresource}{object}{dry_run}"
            ));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("the lock is not poisoned"))
    }
}

#[async_trait]
impl AdmissionPlugin for RecordingPlugin {
    /// Writes of the server itself run beside those of the test.
    fn handles(&self, _pass: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.context.origin == RequestOrigin::Client
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        self.record("mutate", attributes, object.is_some());
        Ok(())
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        self.record("validate", attributes, object.is_some());
        Ok(())
    }
}

async fn recording_server() -> (TestServer, RecordingPlugin, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let recorder = RecordingPlugin::default();
    let setup = TestServerOptions {
        chain: AdmissionPlugins::default().with_plugin(recorder.clone()),
        ..TestServerOptions::default()
    };
    let server = TestServer::open(directory.path(), setup).await;
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

fn signing_request() -> Value {
    let key = rcgen::KeyPair::generate().expect("a key pair");
    let pem = rcgen::CertificateParams::default()
        .serialize_request(&key)
        .and_then(|request| request.pem())
        .expect("a certificate request");
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

const CORE: &str = "/api/v1/namespaces/default";

#[tokio::test]
async fn default_plugins_mutate_pods() {
    let (server, _, _directory) = recording_server().await;
    let (code, created) = server.create(&format!("{CORE}/pods"), pod("p")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["priority"], 0);
    assert_eq!(created["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    assert_eq!(created["spec"]["tolerations"][1]["tolerationSeconds"], 300);

    let mut critical = pod("critical");
    critical["spec"]["priorityClassName"] = json!("system-node-critical");
    let (code, created) = server.create(&format!("{CORE}/pods"), critical).await;
    assert_eq!(
        (code, &created["spec"]["priority"]),
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
        for (field, value) in spec.as_object().expect("a JSON object") {
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
async fn creates_require_a_namespace_and_system_namespaces_cannot_be_deleted() {
    let (server, _, _directory) = recording_server().await;
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
    assert_eq!(server.request(Method::PATCH, &path, change).await.0, 200);
}

#[tokio::test]
async fn signing_requests_record_the_requesting_user() {
    let (server, _, _directory) = recording_server().await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let mut request = signing_request();
    request["spec"]["username"] = json!("somebody else");
    let (code, created) = server.create(path, request).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["username"], "system:apiserver");
    assert_eq!(
        created["spec"]["groups"],
        json!(["system:masters", "system:authenticated"])
    );
}

#[tokio::test]
async fn approving_and_signing_require_signer_permissions() {
    let (server, _, _directory) = recording_server().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    assert_eq!(server.create(requests, signing_request()).await.0, 201);
    let unprivileged = rhumb_auth::User::new("nobody", &["system:authenticated"]);
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "reason": "r", "message": "m"});
    let failed = json!({"status": {"conditions": [condition("Failed")]}});
    let approved = json!({"status": {"conditions": [condition("Failed"), condition("Approved")]}});
    for (part, body, verb) in [
        ("status", failed, "sign"),
        ("approval", approved, "approve"),
    ] {
        let path = format!("{requests}/csr/{part}");
        let (code, status) = server
            .request_as(&unprivileged, Method::PATCH, &path, body.clone())
            .await;
        let want = format!(
            "certificatesigningrequests.certificates.k8s.io \"csr\" is forbidden: user not permitted to {verb} requests with signerName \"example.com/own\""
        );
        assert_eq!(
            (code, status["message"].as_str()),
            (403, Some(want.as_str()))
        );
        let (code, response) = server.request(Method::PATCH, &path, body).await;
        assert_eq!(code, 200, "{response}");
    }
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

#[tokio::test]
async fn claims_get_the_default_class_and_are_resized_only_if_it_allows() {
    let (server, _, _directory) = recording_server().await;
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "fast",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "example.com/p",
    });
    assert_eq!(server.create(classes, class).await.0, 201);
    let claims = format!("{CORE}/persistentvolumeclaims");
    let (code, created) = server.create(&claims, claim("c")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["storageClassName"], "fast");
    assert_eq!(
        created["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
    let path = format!("{claims}/c");
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let bound = json!({"status": {"phase": "Bound"}});
    let status_path = format!("{path}/status");
    assert_eq!(
        server.request(Method::PATCH, &status_path, bound).await.0,
        200
    );
    let (code, status) = server.request(Method::PATCH, &path, grow.clone()).await;
    assert_eq!(
        (code, status["message"].as_str()),
        (
            403,
            Some(
                "persistentvolumeclaims \"c\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
            )
        )
    );
    let (code, _) = server
        .request(
            Method::PATCH,
            &format!("{classes}/fast"),
            json!({"allowVolumeExpansion": true}),
        )
        .await;
    assert_eq!(code, 200);
    let (code, grown) = server.request(Method::PATCH, &path, grow).await;
    assert_eq!(code, 200, "{grown}");
}

#[tokio::test]
async fn new_nodes_are_tainted_and_a_second_default_priority_class_is_rejected() {
    let (server, _, _directory) = recording_server().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let (code, created) = server.create("/api/v1/nodes", node).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(
        created["spec"]["taints"][0]["key"],
        "node.kubernetes.io/not-ready"
    );
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 7,
            "globalDefault": true,
        })
    };
    assert_eq!(server.create(classes, class("a")).await.0, 201);
    let (code, status) = server.create(classes, class("b")).await;
    assert_eq!(
        (code, status["message"].as_str()),
        (
            403,
            Some(
                "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass a is already marked as default. Only one default can exist"
            )
        )
    );
    let (_, created) = server.create(&format!("{CORE}/pods"), pod("p")).await;
    assert_eq!(created["spec"]["priorityClassName"], "a");
    assert_eq!(created["spec"]["priority"], 7);
}
