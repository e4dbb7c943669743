//! All writes that create or grow an object are charged to quotas, also under concurrency.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::make::object;
use crate::quota_namespace::{TestNamespace, forbidden, pod_requesting, start};

const CONCURRENT_WRITES: usize = 60;

/// The number of successful writes; all others must be quota denials.
async fn count_in(creations: JoinSet<kube::Result<()>>) -> usize {
    let mut created = 0;
    for result in creations.join_all().await {
        if result.is_ok() {
            created += 1;
            continue;
        }
        let message = forbidden(result);
        assert!(message.contains("exceeded quota: q, "), "{message}");
    }
    created
}

/// A service also allocates addresses and ports, which may conflict.
#[tokio::test]
async fn services_and_allocated_node_ports_are_counted() {
    let server = start();
    let namespace = TestNamespace::make(&server.client().await, "a").await;
    let hard = json!({"services": "9", "services.nodeports": "4"});
    namespace.make_quota("q", json!({"hard": hard})).await;
    let mut creations = JoinSet::new();
    for index in 0..CONCURRENT_WRITES {
        let services: kube::Api<Service> = namespace.api();
        // Each has two node ports.
        let service = json!({
            "metadata": {"name": format!("s-{index}")},
            "spec": {"type": "NodePort", "ports": [
                {"name": "a", "port": 80}, {"name": "b", "port": 81},
            ]},
        });
        creations.spawn(async move {
            let (params, service) = (PostParams::default(), object(service));
            services.create(&params, &service).await.map(drop)
        });
    }
    assert_eq!(count_in(creations).await, 2);
    let used = json!({"services": "2", "services.nodeports": "4"});
    assert_eq!(namespace.used("q").await, used);
}

/// Some kinds allow create on update.
#[tokio::test]
async fn objects_created_by_update_are_counted() {
    let server = start();
    let namespace = TestNamespace::make(&server.client().await, "a").await;
    let hard = json!({"count/leases.coordination.k8s.io": "5"});
    namespace.make_quota("q", json!({"hard": hard})).await;
    let mut updates = JoinSet::new();
    for index in 0..CONCURRENT_WRITES {
        let leases: kube::Api<Lease> = namespace.api();
        updates.spawn(async move {
            let name = format!("l-{index}");
            let lease = object(json!({"metadata": {"name": name}, "spec": {}}));
            let params = PostParams::default();
            leases.replace(&name, &params, &lease).await.map(drop)
        });
    }
    assert_eq!(count_in(updates).await, 5);
    assert_eq!(namespace.used("q").await, hard);
}

async fn resize(namespace: &TestNamespace, name: &str, cpu: &str) -> kube::Result<Pod> {
    let containers = json!([{"name": "main", "resources": {"requests": {"cpu": cpu}}}]);
    let patch = Patch::Strategic(json!({"spec": {"containers": containers}}));
    let params = PatchParams::default();
    let pods = namespace.pods();
    pods.patch_subresource("resize", name, &params, &patch)
        .await
}

/// Concurrent resizes of pods do not exceed the quota.
#[tokio::test]
async fn pod_resize_is_charged_the_difference() {
    const PODS: usize = 20;
    let server = start();
    let namespace = TestNamespace::make(&server.client().await, "a").await;
    let hard = json!({"requests.cpu": "2750m"});
    namespace.make_quota("q", json!({"hard": hard})).await;
    for index in 0..PODS {
        namespace
            .must_create(pod_requesting(&format!("p-{index}"), 100))
            .await;
    }
    let mut resizes = JoinSet::new();
    for index in 0..PODS {
        let namespace = namespace.clone();
        resizes.spawn(async move {
            let name = format!("p-{index}");
            resize(&namespace, &name, "250m").await.map(drop)
        });
    }
    assert_eq!(count_in(resizes).await, 5);
    let used = |cpu: &str| -> Value { json!({"requests.cpu": cpu}) };
    assert_eq!(namespace.used("q").await, used("2750m"));
    // Shrinking releases usage.
    let grown = namespace.list().await.into_iter().find(|pod| {
        let resources = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.containers[0].resources.clone());
        let requests = resources.and_then(|resources| resources.requests);
        requests.is_some_and(|requests| requests["cpu"].0 == "250m")
    });
    let name = grown.and_then(|pod| pod.metadata.name).expect("a pod");
    resize(&namespace, &name, "50m").await.expect("it shrinks");
    namespace.must_create(pod_requesting("last", 200)).await;
    assert_eq!(namespace.used("q").await, used("2750m"));
}
