//! A namespace with helpers for quota tests.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::make::{object, refusal};
use crate::support::TestServer;
use crate::waiting::{make_namespace, wait_for};

/// The controllers for namespace deletion, service accounts and quota status.
pub(crate) const CONTROLLERS: &str =
    "--controllers=namespace-controller,serviceaccount-controller,resourcequota-controller";

pub(crate) fn start() -> TestServer {
    TestServer::start_with(&[CONTROLLERS])
}

#[derive(Clone)]
pub(crate) struct TestNamespace {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl TestNamespace {
    /// Creates a namespace and waits until pods can be created in it.
    pub(crate) async fn make(client: &Client, namespace: &str) -> TestNamespace {
        make_namespace(client, namespace).await;
        let quota_namespace = TestNamespace::of(client, namespace);
        let accounts: Api<ServiceAccount> = quota_namespace.api();
        wait_for(&accounts, "default", |_| true).await;
        quota_namespace
    }

    pub(crate) fn of(client: &Client, namespace: &str) -> TestNamespace {
        TestNamespace {
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        self.api()
    }

    pub(crate) fn quotas(&self) -> Api<ResourceQuota> {
        self.api()
    }

    pub(crate) async fn make_quota(&self, name: &str, spec: Value) -> ResourceQuota {
        let quota = object(json!({"metadata": {"name": name}, "spec": spec}));
        let created = self.quotas().create(&PostParams::default(), &quota).await;
        created.expect("a quota")
    }

    pub(crate) async fn set_hard(&self, name: &str, hard: Value) -> ResourceQuota {
        let patch = Patch::Merge(json!({"spec": {"hard": hard}}));
        let params = PatchParams::default();
        let patched = self.quotas().patch(name, &params, &patch).await;
        patched.expect("another hard limit")
    }

    /// `status.used` of the quota.
    pub(crate) async fn used(&self, name: &str) -> Value {
        used(&self.quotas().get(name).await.expect("a quota"))
    }

    pub(crate) async fn create(&self, pod: Value) -> kube::Result<Pod> {
        let pod = object(pod);
        self.pods().create(&PostParams::default(), &pod).await
    }

    pub(crate) async fn must_create(&self, pod: Value) -> Pod {
        self.create(pod).await.expect("there is room for a pod")
    }

    /// Creates a pod that must exceed the quota, and returns the message.
    pub(crate) async fn refused(&self, pod: Value) -> String {
        forbidden(self.create(pod).await)
    }

    pub(crate) async fn delete(&self, name: &str) {
        let now = DeleteParams::default().grace_period(0);
        self.pods().delete(name, &now).await.expect("a deletion");
    }

    /// Deletes all pods without grace period.
    pub(crate) async fn delete_all(&self) {
        let now = DeleteParams::default().grace_period(0);
        let all = ListParams::default();
        let deleted = self.pods().delete_collection(&now, &all).await;
        deleted.expect("a deletion of all pods");
    }

    /// The names of all pods.
    pub(crate) async fn list(&self) -> Vec<Pod> {
        let list = self.pods().list(&ListParams::default()).await;
        list.expect("a list").items
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        self.list()
            .await
            .iter()
            .map(ResourceExt::name_any)
            .collect()
    }

    /// Sets the phase of a pod through the status subresource.
    pub(crate) async fn set_phase(&self, name: &str, phase: &str) {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        let params = PatchParams::default();
        let patched = self.pods().patch_status(name, &params, &patch).await;
        patched.expect("a status");
    }

    pub(crate) async fn delete_namespace(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let deleted = namespaces
            .delete(&self.namespace, &DeleteParams::default())
            .await;
        deleted.expect("a deletion");
        crate::waiting::wait_until_deleted(&namespaces, &self.namespace).await;
    }
}

/// `status.used` of a quota.
pub(crate) fn used(quota: &ResourceQuota) -> Value {
    let status = quota.status.as_ref();
    json!(status.and_then(|status| status.used.clone()))
}

/// The message of a 403 response.
pub(crate) fn forbidden<T: Debug>(result: kube::Result<T>) -> String {
    let Status {
        code,
        reason,
        message,
        ..
    } = refusal(result);
    assert_eq!((code, &*reason), (403, "Forbidden"), "{message}");
    message
}

pub(crate) fn pod(name: &str) -> Value {
    pod_with(name, json!({}))
}

/// A pod with additional spec fields.
pub(crate) fn pod_with(name: &str, more: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
    });
    let spec = pod["spec"].as_object_mut().expect("a spec");
    if let Value::Object(more) = more {
        spec.extend(more);
    }
    pod
}

/// A pod whose container requests this many millicores.
pub(crate) fn pod_requesting(name: &str, millicores: i64) -> Value {
    let mut pod = pod(name);
    let requests = json!({"cpu": format!("{millicores}m")});
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod
}

/// A pod with one required affinity term.
pub(crate) fn pod_near(name: &str, term: Value) -> Value {
    let mut term = term;
    term["topologyKey"] = json!("zone");
    term["labelSelector"] = json!({"matchLabels": {"app": "other"}});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    pod_with(name, json!({"affinity": {"podAffinity": required}}))
}
