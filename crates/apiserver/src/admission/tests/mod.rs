//! Every write goes through the chain, and the chain does what upstream's does.

mod limit_ranger;
mod policies;
mod write_paths;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine as _;
use http::Method;
use rhumb_api::Object;
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

const CORE: &str = "/api/v1/namespaces/default";

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

#[tokio::test]
async fn certificates_are_approved_and_signed_by_those_who_may() {
    let (server, _, _directory) = recorded().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    assert_eq!(server.create(requests, signing_request()).await.0, 201);
    let nobody = rhumb_auth::User::new("nobody", &["system:authenticated"]);
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
            .ask_as(&nobody, Method::PATCH, &path, body.clone())
            .await;
        let want = format!(
            "certificatesigningrequests.certificates.k8s.io \"csr\" is forbidden: user not permitted to {verb} requests with signerName \"example.com/own\""
        );
        assert_eq!(
            (code, status["message"].as_str()),
            (403, Some(want.as_str()))
        );
        let (code, answer) = server.ask(Method::PATCH, &path, body).await;
        assert_eq!(code, 200, "{answer}");
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
async fn claims_get_the_default_class_and_grow_only_where_it_lets_them() {
    let (server, _, _directory) = recorded().await;
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
    let (code, made) = server.create(&claims, claim("c")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["storageClassName"], "fast");
    assert_eq!(
        made["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
    let path = format!("{claims}/c");
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let bound = json!({"status": {"phase": "Bound"}});
    let status_path = format!("{path}/status");
    assert_eq!(server.ask(Method::PATCH, &status_path, bound).await.0, 200);
    let (code, status) = server.ask(Method::PATCH, &path, grow.clone()).await;
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
        .ask(
            Method::PATCH,
            &format!("{classes}/fast"),
            json!({"allowVolumeExpansion": true}),
        )
        .await;
    assert_eq!(code, 200);
    let (code, grown) = server.ask(Method::PATCH, &path, grow).await;
    assert_eq!(code, 200, "{grown}");
}

#[tokio::test]
async fn new_nodes_are_tainted_and_two_default_priorities_are_refused() {
    let (server, _, _directory) = recorded().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let (code, made) = server.create("/api/v1/nodes", node).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        made["spec"]["taints"][0]["key"],
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
    let (_, made) = server.create(&format!("{CORE}/pods"), pod("p")).await;
    assert_eq!(made["spec"]["priorityClassName"], "a");
    assert_eq!(made["spec"]["priority"], 7);
}
