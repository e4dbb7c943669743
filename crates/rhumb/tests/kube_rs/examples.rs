//! The manifests in `examples/`, used as described in the README.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::{DynamicObject, PostParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::make::object;
use crate::support::{TestServer, wait_for_service_account};

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

/// Creates an object. After a namespace, waits for its service account, which pods need.
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
    let created = created.unwrap_or_else(|error| panic!("{document}: {error}"));
    if types.kind == "Namespace" {
        wait_for_service_account(client, &created.name_any()).await;
    }
    created
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

/// What the files of the web server say about each other. The image has a command of its own.
#[test]
fn the_parts_of_the_web_example_fit_together() {
    let [settings, deployment, service, budget]: [Value; 4] =
        documents("web.yaml").try_into().expect("four objects");
    let template = &deployment["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);

    let container = &template["spec"]["containers"][0];
    let image = container["image"].as_str().expect("an image");
    assert!(image.starts_with("nginx:"), "{image}");
    assert_eq!(
        (&container["args"], &container["command"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(container["ports"][0]["containerPort"], 80);
    assert_eq!(
        container["ports"][0]["containerPort"],
        service["spec"]["ports"][0]["targetPort"]
    );
    let (mount, volume) = (
        &container["volumeMounts"][0],
        &template["spec"]["volumes"][0],
    );
    assert_eq!(mount["name"], volume["name"]);
    assert_eq!(mount["mountPath"], "/usr/share/nginx/html");
    assert_eq!(volume["configMap"]["name"], settings["metadata"]["name"]);
    assert!(settings["data"]["index.html"].is_string());
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
