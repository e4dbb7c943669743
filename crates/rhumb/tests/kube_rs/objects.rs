//! Creating, reading, replacing and deleting objects of many kinds.

use std::fmt::Debug;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
};
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, LimitRange, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::make::{code, config_map, object, pod_spec, pod_template, refusal, value_of};
use crate::support::TestServer;

/// The lifecycle of an object, with all verbs of a typed client.
async fn live<K>(api: Api<K>, json: Value)
where
    K: Clone + Debug + DeserializeOwned + Serialize + Resource<DynamicType = ()> + PartialEq,
{
    let kind = K::kind(&()).into_owned();
    let name = json["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let post = PostParams::default();
    let created = api.create(&post, &object(json)).await;
    let created = created.unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert!(
        created.uid().is_some() && created.creation_timestamp().is_some(),
        "{kind}"
    );
    assert_eq!(api.get(&name).await.expect("a read"), created, "{kind}");
    let listed = api.list(&ListParams::default()).await.expect("a list");
    assert!(listed.items.contains(&created), "{kind} in its list");
    let mut changed = created.clone();
    changed
        .annotations_mut()
        .insert("note".into(), "changed".into());
    let replaced = api.replace(&name, &post, &changed).await;
    let replaced = replaced.unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_eq!(
        replaced.annotations().get("note").map(String::as_str),
        Some("changed")
    );
    assert_ne!(
        replaced.resource_version(),
        created.resource_version(),
        "{kind}"
    );
    assert_eq!(replaced.uid(), created.uid(), "{kind}");
    let again = api
        .replace(&name, &post, &replaced)
        .await
        .expect("nothing new");
    assert_eq!(
        again.resource_version(),
        replaced.resource_version(),
        "{kind} unchanged"
    );
    api.delete(&name, &DeleteParams::background())
        .await
        .expect("a deletion");
    if !replaced.finalizers().is_empty() {
        // There is no kubelet to confirm the deletion.
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let params = PatchParams::default();
        api.patch(&name, &params, &patch).await.expect("a patch");
    }
    assert_eq!(
        code(api.get(&name).await),
        (404, "NotFound".into()),
        "{kind}"
    );
}

fn here<K>(client: &Client) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(client.clone(), "default")
}

fn workload(mut extra: Value) -> Value {
    let spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": pod_template(),
    });
    merge(&mut extra, spec);
    json!({"metadata": {"name": "it"}, "spec": extra})
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

#[tokio::test]
async fn core_kinds_have_a_full_lifecycle_with_a_typed_client() {
    let server = TestServer::start();
    let client = server.client_for_pods().await;
    let named = |spec: Value| json!({"metadata": {"name": "it"}, "spec": spec});
    live::<ConfigMap>(
        here(&client),
        json!({"metadata": {"name": "it"}, "data": {"a": "b"}}),
    )
    .await;
    live::<Secret>(
        here(&client),
        json!({"metadata": {"name": "it"}, "stringData": {"a": "b"}, "type": "Opaque"}),
    )
    .await;
    live::<ServiceAccount>(here(&client), json!({"metadata": {"name": "it"}})).await;
    live::<Pod>(here(&client), named(pod_spec())).await;
    live::<PodTemplate>(
        here(&client),
        json!({"metadata": {"name": "it"}, "template": pod_template()}),
    )
    .await;
    live::<Service>(
        here(&client),
        named(json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})),
    )
    .await;
    live::<ReplicationController>(
        here(&client),
        named(json!({"selector": {"app": "web"}, "template": pod_template()})),
    )
    .await;
    live::<ResourceQuota>(here(&client), named(json!({"hard": {"pods": "5"}}))).await;
    live::<LimitRange>(
        here(&client),
        named(json!({"limits": [{"type": "Container", "max": {"cpu": "2"}}]})),
    )
    .await;
    live::<PersistentVolumeClaim>(here(&client), named(json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}))).await;
    live::<Endpoints>(here(&client), json!({"metadata": {"name": "it"}, "subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]})).await;
    live::<Event>(here(&client), json!({
        "metadata": {"name": "it"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"},
        "reason": "Tested", "message": "it is", "type": "Normal",
    })).await;
    live::<Node>(Api::all(client.clone()), named(json!({}))).await;
    live::<PersistentVolume>(Api::all(client.clone()), named(json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"},
    }))).await;
}

#[tokio::test]
async fn workloads_have_a_full_lifecycle_with_a_typed_client() {
    let server = TestServer::start();
    let client = server.client().await;
    live::<Deployment>(here(&client), workload(json!({"replicas": 2}))).await;
    live::<ReplicaSet>(here(&client), workload(json!({"replicas": 2}))).await;
    live::<StatefulSet>(here(&client), workload(json!({"serviceName": "web"}))).await;
    live::<DaemonSet>(here(&client), workload(json!({}))).await;
    live::<ControllerRevision>(
        here(&client),
        json!({"metadata": {"name": "it"}, "revision": 1, "data": {"a": 1}}),
    )
    .await;
    let mut job = pod_template();
    job["spec"]["restartPolicy"] = "Never".into();
    live::<Job>(
        here(&client),
        json!({"metadata": {"name": "it"}, "spec": {"template": job}}),
    )
    .await;
    live::<CronJob>(
        here(&client),
        json!({
            "metadata": {"name": "it"},
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": job}}},
        }),
    )
    .await;
    live::<HorizontalPodAutoscaler>(here(&client), json!({
        "metadata": {"name": "it"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    })).await;
    live::<PodDisruptionBudget>(here(&client), json!({
        "metadata": {"name": "it"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    })).await;
}

#[tokio::test]
async fn network_policy_and_rbac_kinds_have_a_full_lifecycle_with_a_typed_client() {
    let server = TestServer::start();
    let client = server.client().await;
    let named = |spec: Value| json!({"metadata": {"name": "it"}, "spec": spec});
    live::<Ingress>(
        here(&client),
        named(json!({"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}})),
    )
    .await;
    live::<NetworkPolicy>(here(&client), named(json!({"podSelector": {}}))).await;
    live::<EndpointSlice>(here(&client), json!({
        "metadata": {"name": "it"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}],
    })).await;
    live::<Lease>(
        here(&client),
        named(json!({"holderIdentity": "me", "leaseDurationSeconds": 15})),
    )
    .await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    live::<Role>(
        here(&client),
        json!({"metadata": {"name": "it"}, "rules": rules}),
    )
    .await;
    live::<ClusterRole>(
        Api::all(client.clone()),
        json!({"metadata": {"name": "it"}, "rules": rules}),
    )
    .await;
    let subjects =
        json!([{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}]);
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    let binding = json!({"metadata": {"name": "it"}, "subjects": subjects, "roleRef": role});
    live::<RoleBinding>(here(&client), binding.clone()).await;
    live::<ClusterRoleBinding>(Api::all(client.clone()), binding).await;
    live::<IngressClass>(
        Api::all(client.clone()),
        named(json!({"controller": "example.com/it"})),
    )
    .await;
    live::<StorageClass>(
        Api::all(client.clone()),
        json!({"metadata": {"name": "it"}, "provisioner": "example.com/it"}),
    )
    .await;
    live::<PriorityClass>(
        Api::all(client.clone()),
        json!({"metadata": {"name": "it"}, "value": 5}),
    )
    .await;
    live::<MutatingWebhookConfiguration>(
        Api::all(client.clone()),
        json!({"metadata": {"name": "it"}}),
    )
    .await;
    live::<ValidatingAdmissionPolicy>(Api::all(client.clone()), named(json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "validations": [{"expression": "true"}],
    }))).await;
}

#[tokio::test]
async fn generated_fields_are_set() {
    let server = TestServer::start();
    let api: Api<Deployment> = here(&server.client().await);
    let wanted = object(json!({
        "metadata": {"generateName": "web-"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pod_template()},
    }));
    let made = api
        .create(&PostParams::default(), &wanted)
        .await
        .expect("a creation");
    assert!(
        made.name_any().starts_with("web-") && made.name_any().len() == 9,
        "{}",
        made.name_any()
    );
    assert_eq!(made.metadata.generation, Some(1));
    let spec = made.spec.expect("a spec");
    assert_eq!(
        (spec.replicas, spec.revision_history_limit),
        (Some(1), Some(10))
    );
}

#[tokio::test]
async fn dry_run_persists_nothing() {
    let server = TestServer::start();
    let api: Api<ConfigMap> = here(&server.client().await);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let shown = api
        .create(&dry, &config_map("a", "1"))
        .await
        .expect("a dry run");
    assert!(shown.uid().is_some());
    assert_eq!(code(api.get("a").await).0, 404);
    let kept = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .expect("a creation");
    let shown = api
        .replace("a", &dry, &config_map("a", "2"))
        .await
        .expect("a dry run");
    assert_eq!(value_of(&shown), "2");
    api.delete("a", &DeleteParams::default().dry_run())
        .await
        .expect("a dry run");
    assert_eq!(api.get("a").await.expect("still there"), kept);
}

#[tokio::test]
async fn object_is_removed_with_its_last_finalizer() {
    let server = TestServer::start();
    let api: Api<ConfigMap> = here(&server.client().await);
    let held = object(json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}));
    api.create(&PostParams::default(), &held)
        .await
        .expect("a creation");
    let answer = api
        .delete("held", &DeleteParams::default())
        .await
        .expect("a deletion");
    assert!(
        answer.left().is_some(),
        "the object, since it is still there"
    );
    let mut going = api.get("held").await.expect("still there");
    assert!(going.metadata.deletion_timestamp.is_some());
    going.metadata.finalizers = None;
    api.replace("held", &PostParams::default(), &going)
        .await
        .expect("the last finalizer goes");
    assert_eq!(code(api.get("held").await).0, 404);
}

#[tokio::test]
async fn delete_preconditions_are_enforced() {
    let server = TestServer::start();
    let api: Api<ConfigMap> = here(&server.client().await);
    let made = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .expect("a creation");
    let only = |uid: Option<String>, resource_version: Option<String>| {
        DeleteParams::default().preconditions(kube::api::Preconditions {
            uid,
            resource_version,
        })
    };
    let other = only(Some("0b0e4be6-0000-0000-0000-000000000000".into()), None);
    assert_eq!(
        code(api.delete("a", &other).await),
        (409, "Conflict".into())
    );
    let older = only(made.uid(), Some("1".into()));
    assert_eq!(
        code(api.delete("a", &older).await),
        (409, "Conflict".into())
    );
    api.delete("a", &only(made.uid(), made.resource_version()))
        .await
        .expect("a deletion");
}

#[tokio::test]
async fn delete_collection_respects_the_selector() {
    let server = TestServer::start();
    let api: Api<ConfigMap> = here(&server.client().await);
    for (name, color) in [("a", "red"), ("b", "red"), ("c", "blue")] {
        let map = crate::make::labelled(name, "color", color);
        api.create(&PostParams::default(), &map)
            .await
            .expect("a creation");
    }
    let red = ListParams::default().labels("color=red");
    api.delete_collection(&DeleteParams::default(), &red)
        .await
        .expect("a deletion");
    let left = api
        .list(&ListParams::default().labels("color"))
        .await
        .expect("a list");
    let left: Vec<String> = left.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(left, ["c"]);
}

#[tokio::test]
async fn errors_have_upstreams_reasons() {
    let server = TestServer::start();
    let client = server.client().await;
    let api: Api<ConfigMap> = here(&client);
    let post = PostParams::default();
    api.create(&post, &config_map("a", "1"))
        .await
        .expect("a creation");
    let twice = refusal(api.create(&post, &config_map("a", "1")).await);
    assert_eq!((twice.code, twice.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(twice.message, "configmaps \"a\" already exists");
    let absent = refusal(api.get("b").await);
    assert_eq!(absent.message, "configmaps \"b\" not found");
    assert_eq!(absent.details.expect("details").kind, "configmaps");
    let bad = refusal(api.create(&post, &config_map("Not_A_Name", "1")).await);
    assert_eq!((bad.code, bad.reason.as_str()), (422, "Invalid"));
    let causes = bad.details.expect("details").causes;
    assert_eq!(
        (causes.len(), causes[0].field.as_str()),
        (1, "metadata.name")
    );
    let nowhere: Api<ConfigMap> = Api::namespaced(client.clone(), "nowhere");
    let lost = refusal(nowhere.create(&post, &config_map("a", "1")).await);
    assert_eq!(lost.message, "namespaces \"nowhere\" not found");
    let text = http::Request::post("/api/v1/namespaces/default/configmaps");
    let text = text
        .header("content-type", "application/json")
        .body(b"{".to_vec());
    let broken = client.request::<Value>(text.expect("a request")).await;
    assert_eq!(code(broken), (400, "BadRequest".into()));
}
