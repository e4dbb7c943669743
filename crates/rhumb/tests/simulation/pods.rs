//! Simulated pods, which follow their annotations.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod, PodStatus};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use crate::make::{object, pod_spec};
use crate::program::{FEW_CONTROLLERS, poll_until};
use crate::support::TestServer;
use crate::waiting::{wait_for, wait_until_deleted};

const FLAGS: [&str; 3] = [FEW_CONTROLLERS, "--nodes", "2"];

/// A pod that is bound on creation.
async fn create(
    client: &Client,
    name: &str,
    annotations: &[(&str, &str)],
    spec: Value,
) -> Api<Pod> {
    let annotations: Map<String, Value> = annotations
        .iter()
        .map(|(name, value)| (format!("simulation.rhumb/{name}"), json!(value)))
        .collect();
    let mut pod = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": pod_spec(),
    });
    pod["spec"]["nodeName"] = json!("simulated-00001");
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let created = pods.create(&PostParams::default(), &object(pod)).await;
    created.expect("a pod");
    pods
}

fn status(pod: &Pod) -> PodStatus {
    pod.status.clone().unwrap_or_default()
}

fn is_in(phase: &'static str) -> impl Fn(&Pod) -> bool {
    move |pod| status(pod).phase.as_deref() == Some(phase)
}

fn is_true(pod: &Pod, type_: &str) -> bool {
    let conditions = status(pod).conditions.unwrap_or_default();
    let mut conditions = conditions.iter();
    conditions.any(|own| own.type_ == type_ && own.status == "True")
}

fn container(pod: &Pod) -> ContainerStatus {
    let statuses = status(pod).container_statuses.unwrap_or_default();
    statuses.into_iter().next().expect("a container")
}

#[tokio::test]
async fn bound_pod_runs_and_becomes_ready() {
    let server = TestServer::start_with(&FLAGS);
    let client = server.client_for_pods().await;
    let spec = json!({"nodeName": null, "initContainers": [{"name": "first", "image": "i"}]});
    let pods = create(&client, "p", &[], spec).await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "simulated-00002"},
    });
    let bound: Result<Value, _> = pods
        .create_subresource("binding", "p", &PostParams::default(), &binding)
        .await;
    bound.expect("a binding");
    let pod = wait_for(&pods, "p", is_in("Running")).await;
    for type_ in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
        assert!(is_true(&pod, type_), "{type_}");
    }
    let status = status(&pod);
    assert_eq!(status.host_ip.as_deref(), Some("172.16.0.2"));
    assert_eq!(status.pod_ip.as_deref(), Some("10.16.4.2"));
    assert!(status.start_time.is_some());
    assert!(container(&pod).ready);
    let init = status.init_container_statuses.expect("init containers");
    let output = init[0]
        .state
        .as_ref()
        .and_then(|own| own.terminated.as_ref());
    assert_eq!(output.map(|own| own.exit_code), Some(0));
}

#[tokio::test]
async fn pods_of_other_nodes_are_ignored_and_pod_ips_are_unique() {
    let server = TestServer::start_with(&FLAGS);
    let client = server.client_for_pods().await;
    let pods = create(&client, "foreign", &[], json!({"nodeName": "real"})).await;
    let mut addresses = HashSet::new();
    for number in 0..20 {
        create(&client, &format!("p-{number}"), &[], json!({})).await;
    }
    for number in 0..20 {
        let pod = wait_for(&pods, &format!("p-{number}"), is_in("Running")).await;
        addresses.insert(status(&pod).pod_ip.expect("an address"));
    }
    assert_eq!(addresses.len(), 20);
    let foreign = pods.get("foreign").await.expect("a pod");
    assert!(is_in("Pending")(&foreign) && status(&foreign).start_time.is_none());
    let host = json!({"hostNetwork": true});
    create(&client, "host", &[], host).await;
    let pod = wait_for(&pods, "host", is_in("Running")).await;
    assert_eq!(status(&pod).pod_ip, status(&pod).host_ip);
}

#[tokio::test]
async fn annotations_set_pod_readiness() {
    let server = TestServer::start_with(&FLAGS);
    let client = server.client_for_pods().await;
    let slow = [("start-after", "2s"), ("ready-after", "1s")];
    let pods = create(&client, "slow", &slow, json!({})).await;
    create(&client, "never", &[("never-ready", "true")], json!({})).await;
    let pod = wait_for(&pods, "slow", |pod| status(pod).start_time.is_some()).await;
    assert!(is_in("Pending")(&pod));
    let waiting = container(&pod).state.and_then(|own| own.waiting);
    let reason = waiting.and_then(|own| own.reason);
    assert_eq!(reason.as_deref(), Some("ContainerCreating"));
    let pod = wait_for(&pods, "slow", is_in("Running")).await;
    assert!(!is_true(&pod, "Ready"));
    wait_for(&pods, "slow", |pod| is_true(pod, "Ready")).await;
    let pod = wait_for(&pods, "never", is_in("Running")).await;
    assert!(!is_true(&pod, "Ready") && !is_true(&pod, "ContainersReady"));
}

#[tokio::test]
async fn annotations_set_pod_termination() {
    let server = TestServer::start_with(&FLAGS);
    let client = server.client_for_pods().await;
    let once = json!({"restartPolicy": "Never"});
    let good = [("run-for", "1s")];
    let pods = create(&client, "good", &good, once.clone()).await;
    let bad = [("run-for", "1s"), ("exit-code", "3")];
    create(&client, "bad", &bad, once).await;
    create(
        &client,
        "again",
        &bad,
        json!({"restartPolicy": "OnFailure"}),
    )
    .await;
    let late = json!({"activeDeadlineSeconds": 1});
    create(&client, "late", &[], late).await;

    let pod = wait_for(&pods, "good", is_in("Succeeded")).await;
    assert!(!is_true(&pod, "Ready"));
    let pod = wait_for(&pods, "bad", is_in("Failed")).await;
    let output = container(&pod).state.and_then(|own| own.terminated);
    assert_eq!(output.map(|own| own.exit_code), Some(3));
    let pod = wait_for(&pods, "again", |pod| {
        is_in("Running")(pod) && container(pod).restart_count == 1
    })
    .await;
    let before = container(&pod).last_state.and_then(|own| own.terminated);
    assert_eq!(before.map(|own| own.exit_code), Some(3));
    wait_for(&pods, "again", |pod| {
        let waiting = container(pod).state.and_then(|own| own.waiting);
        waiting.and_then(|own| own.reason).as_deref() == Some("CrashLoopBackOff")
    })
    .await;
    let pod = wait_for(&pods, "late", is_in("Failed")).await;
    assert_eq!(status(&pod).reason.as_deref(), Some("DeadlineExceeded"));
}

#[tokio::test]
async fn deleted_pod_terminates_within_its_grace_period() {
    let server = TestServer::start_with(&FLAGS);
    let client = server.client_for_pods().await;
    let pods = create(&client, "quick", &[], json!({})).await;
    create(&client, "slow", &[("stop-after", "2s")], json!({})).await;
    create(&client, "stubborn", &[("stop-after", "1h")], json!({})).await;
    for name in ["quick", "slow", "stubborn"] {
        wait_for(&pods, name, is_in("Running")).await;
    }
    let begun = Timestamp::now();
    let patient = DeleteParams::default().grace_period(60);
    for name in ["quick", "slow"] {
        pods.delete(name, &patient).await.expect("a deletion");
    }
    let hurried = DeleteParams::default().grace_period(2);
    let deleted = pods.delete("stubborn", &hurried).await;
    deleted.expect("a deletion");
    wait_until_deleted(&pods, "quick").await;
    let slow = pods.get("slow").await.expect("it takes its time");
    assert!(is_in("Running")(&slow) && slow.metadata.deletion_timestamp.is_some());
    wait_until_deleted(&pods, "slow").await;
    wait_until_deleted(&pods, "stubborn").await;
    let took = Timestamp::now().duration_since(begun);
    assert!(took < SignedDuration::from_secs(50), "{took}");
}

#[tokio::test]
async fn deleted_pod_with_a_finalizer_is_terminated() {
    let server = TestServer::start_with(&FLAGS);
    let client = server.client_for_pods().await;
    let pods = create(&client, "held", &[("start-after", "1h")], json!({})).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let hold = kube::api::Patch::Merge(hold);
    let held = pods.patch("held", &Default::default(), &hold).await;
    held.expect("a finalizer");
    let deleted = pods.delete("held", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    let pod = wait_for(&pods, "held", |pod| {
        pod.metadata.deletion_grace_period_seconds == Some(0)
    })
    .await;
    assert!(is_in("Failed")(&pod));
}

#[tokio::test]
async fn invalid_annotations_cause_an_event_and_the_pod_runs() {
    let server = TestServer::start_with(&FLAGS);
    let client = server.client_for_pods().await;
    let pods = create(&client, "p", &[("run-for", "soon")], json!({})).await;
    wait_for(&pods, "p", is_in("Running")).await;
    let events: Api<Event> = Api::namespaced(client, "default");
    let told = poll_until("an event", async || {
        let about = ListParams::default().fields("involvedObject.name=p");
        let list = events.list(&about).await.expect("a list");
        list.items.into_iter().next()
    })
    .await;
    assert_eq!(told.reason.as_deref(), Some("InvalidSimulation"));
    assert_eq!(
        told.message.as_deref(),
        Some(
            "annotation simulation.rhumb/run-for: \"soon\" is no duration; write it as 500ms, 30s or 1m30s; the default is used"
        )
    );
}

#[tokio::test]
async fn simulation_resumes_after_a_restart() {
    let mut server = TestServer::start_with(&FLAGS);
    let client = server.client_for_pods().await;
    let once = json!({"restartPolicy": "Never"});
    let times = [("run-for", "5s")];
    let pods = create(&client, "runs", &times, once).await;
    create(&client, "stops", &[("stop-after", "4s")], json!({})).await;
    create(&client, "stays", &[], json!({})).await;
    let started = wait_for(&pods, "runs", is_in("Running")).await;
    let stays = wait_for(&pods, "stays", is_in("Running")).await;
    wait_for(&pods, "stops", is_in("Running")).await;
    let deleted = pods.delete("stops", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    server.kill();
    server.start_again();

    let client = server.client_for_pods().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let output = wait_for(&pods, "runs", is_in("Succeeded")).await;
    let state = container(&output).state.and_then(|own| own.terminated);
    let state = state.expect("an end");
    let begun = |pod: &Pod| container(pod).state?.running?.started_at;
    assert_eq!(
        state.started_at,
        begun(&started),
        "it was not started again"
    );
    let ran = state.finished_at.expect("an end").0;
    let ran = ran.duration_since(state.started_at.expect("a start").0);
    assert!(ran >= SignedDuration::from_secs(4), "{ran}");
    wait_until_deleted(&pods, "stops").await;
    // Addresses in use are not assigned again.
    create(&client, "new", &[], json!({})).await;
    let new = wait_for(&pods, "new", is_in("Running")).await;
    let address = |pod: &Pod| status(pod).pod_ip;
    let stays_now = pods.get("stays").await.expect("it stays");
    assert_eq!(address(&stays_now), address(&stays));
    assert_ne!(address(&new), address(&stays));
}
