//! The manifests in `examples/`, used as described in the README.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::{DynamicObject, PostParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::make::object;
use crate::support::TestServer;

/// In dependency order. The webhook is last, because no server answers for it.
const FILES: [&str; 13] = [
    "namespace.yaml",
    "web.yaml",
    "batch.yaml",
    "access.yaml",
    "cross-namespace-affinity/customers.yaml",
    "cross-namespace-affinity/workloads.yaml",
    "cross-namespace-affinity/tenant.yaml",
    "network-policies/namespaces.yaml",
    "network-policies/pods.yaml",
    "network-policies/policies.yaml",
    "network-policy-agent.yaml",
    "admission/policy.yaml",
    "admission/webhook.yaml",
];
/// Files that are not API objects, or only templates.
const OTHERS: [&str; 3] = [
    "admission/critical-resources.yaml",
    "admission/limited-resources.yaml",
    "simulated-nodes.yaml",
];
/// Files that are rejected; tested in `cross_namespace_affinity.rs`.
const REFUSED: [&str; 1] = ["cross-namespace-affinity/intruder.yaml"];

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

pub(crate) fn documents(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(directory().join(file)).expect("an example");
    serde_saphyr::from_multiple(&text).expect("YAML")
}

pub(crate) async fn create(client: &Client, document: Value) -> DynamicObject {
    let types: TypeMeta = object(document.clone());
    let gvk = GroupVersionKind::try_from(&types).expect("a kind");
    let (resource, capabilities) = pinned_kind(client, &gvk).await.expect("a known kind");
    let namespace = document["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
        Scope::Cluster => Api::all_with(client.clone(), &resource),
    };
    let created = api
        .create(&PostParams::default(), &object(document.clone()))
        .await;
    created.unwrap_or_else(|error| panic!("{document}: {error}"))
}

#[tokio::test]
async fn every_example_is_accepted() {
    let server = TestServer::start();
    let client = server.client().await;
    let mut created = 0;
    for file in FILES {
        for document in documents(file) {
            create(&client, document).await;
            created += 1;
        }
    }
    assert_eq!(created, 47);
    for (verb, expected) in [("list", true), ("delete", false)] {
        let review = object(json!({"metadata": {}, "spec": {
            "user": "system:serviceaccount:shop:observer",
            "resourceAttributes": {"namespace": "shop", "verb": verb, "resource": "pods"},
        }}));
        let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
        let answer = reviews
            .create(&PostParams::default(), &review)
            .await
            .expect("a review");
        assert_eq!(answer.status.expect("a status").allowed, expected, "{verb}");
    }
}

#[test]
fn every_example_file_is_tested() {
    let mut names = Vec::new();
    for folder in [
        "",
        "admission/",
        "cross-namespace-affinity/",
        "network-policies/",
    ] {
        let files = std::fs::read_dir(directory().join(folder)).expect("examples");
        for file in files {
            let name = file.expect("a file").file_name();
            names.push(format!("{folder}{}", name.to_str().expect("a name")));
        }
    }
    names.retain(|name| name.ends_with(".yaml"));
    names.sort();
    let mut expected = [&FILES[..], &OTHERS[..], &REFUSED[..]].concat();
    expected.sort_unstable();
    assert_eq!(names, expected);
}
