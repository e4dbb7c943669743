//! Every way in which something comes about or grows is held against the quotas, under a crowd as well.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::make::object;
use crate::space::{Space, forbidden, pod_requesting, start};

const CROWD: usize = 60;

/// How many of a crowd got in; all others were refused cleanly.
async fn count_in(creations: JoinSet<kube::Result<()>>) -> usize {
    let mut made = 0;
    for result in creations.join_all().await {
        if result.is_ok() {
            made += 1;
            continue;
        }
        let message = forbidden(result);
        assert!(message.contains("exceeded quota: q, "), "{message}");
    }
    made
}

/// A service takes addresses and ports as well, which others may have taken by then.
#[tokio::test]
async fn services_and_their_ports_are_counted_as_they_are_given() {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    let hard = json!({"services": "9", "services.nodeports": "4"});
    space.make_quota("q", json!({"hard": hard})).await;
    let mut creations = JoinSet::new();
    for place in 0..CROWD {
        let services: kube::Api<Service> = space.api();
        // Each with two ports of the nodes.
        let service = json!({
            "metadata": {"name": format!("s-{place}")},
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
    assert_eq!(space.used("q").await, used);
}

/// An update makes what is not there, for some kinds.
#[tokio::test]
async fn what_an_update_makes_is_counted() {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    let hard = json!({"count/leases.coordination.k8s.io": "5"});
    space.make_quota("q", json!({"hard": hard})).await;
    let mut updates = JoinSet::new();
    for place in 0..CROWD {
        let leases: kube::Api<Lease> = space.api();
        updates.spawn(async move {
            let name = format!("l-{place}");
            let lease = object(json!({"metadata": {"name": name}, "spec": {}}));
            let params = PostParams::default();
            leases.replace(&name, &params, &lease).await.map(drop)
        });
    }
    assert_eq!(count_in(updates).await, 5);
    assert_eq!(space.used("q").await, hard);
}

async fn resize(space: &Space, name: &str, cpu: &str) -> kube::Result<Pod> {
    let containers = json!([{"name": "main", "resources": {"requests": {"cpu": cpu}}}]);
    let patch = Patch::Strategic(json!({"spec": {"containers": containers}}));
    let params = PatchParams::default();
    let pods = space.pods();
    pods.patch_subresource("resize", name, &params, &patch)
        .await
}

/// Pods that grow where they are: all at once, and no more of them than there is room for.
#[tokio::test]
async fn a_pod_that_grows_needs_room_for_what_it_grows_by() {
    const PODS: usize = 20;
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    let hard = json!({"requests.cpu": "2750m"});
    space.make_quota("q", json!({"hard": hard})).await;
    for place in 0..PODS {
        space
            .must_create(pod_requesting(&format!("p-{place}"), 100))
            .await;
    }
    let mut resizes = JoinSet::new();
    for place in 0..PODS {
        let space = space.clone();
        resizes.spawn(async move {
            let name = format!("p-{place}");
            resize(&space, &name, "250m").await.map(drop)
        });
    }
    assert_eq!(count_in(resizes).await, 5);
    let used = |cpu: &str| -> Value { json!({"requests.cpu": cpu}) };
    assert_eq!(space.used("q").await, used("2750m"));
    // What shrinks makes room.
    let grown = space.list().await.into_iter().find(|pod| {
        let resources = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.containers[0].resources.clone());
        let requests = resources.and_then(|resources| resources.requests);
        requests.is_some_and(|requests| requests["cpu"].0 == "250m")
    });
    let name = grown.and_then(|pod| pod.metadata.name).expect("a pod");
    resize(&space, &name, "50m").await.expect("it shrinks");
    space.must_create(pod_requesting("last", 200)).await;
    assert_eq!(space.used("q").await, used("2750m"));
}
