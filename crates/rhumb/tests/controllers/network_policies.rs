//! Status of network policies, with reports written like agents do.

mod plugins;
mod separate_controller;

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::StreamExt;
use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::make::{object, pod_spec};
use crate::nodes::{create_node, set_pod_status};
use crate::program::poll_until;
use crate::support::TestServer;
use crate::waiting::{wait_for, wait_until_deleted};

/// The only controllers that run.
const CONTROLLERS: &str = "--controllers=networkpolicy-status-controller,serviceaccount-controller";
const VERSIONS: [&str; 6] = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];

/// A server with these nodes, each with a pod of the application `web`.
async fn cluster(nodes: &[&str]) -> (TestServer, Client) {
    let server = TestServer::start_with(&[CONTROLLERS]);
    let client = server.client_for_pods().await;
    for (number, node) in nodes.iter().enumerate() {
        create_node(&client, node).await;
        let address = format!("10.0.0.{}", number + 1);
        create_pod(&client, &format!("on-{node}"), node, &address).await;
    }
    (server, client)
}

async fn create_pod(client: &Client, name: &str, node: &str, address: &str) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let mut spec = pod_spec();
    spec["nodeName"] = json!(node);
    let pod = object(json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}));
    let created = pods.create(&PostParams::default(), &pod).await;
    created.expect("a pod");
    let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]});
    set_pod_status(&pods, name, status).await;
}

fn policies(client: &Client) -> Api<DynamicObject> {
    let kind = ApiResource::erase::<NetworkPolicy>(&());
    Api::namespaced_with(client.clone(), "default", &kind)
}

fn reports(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("networking.rhumb.dev", "v1alpha1", "NetworkPolicyNode");
    let kind = ApiResource::from_gvk_with_plural(&kind, "networkpolicynodes");
    Api::all_with(client.clone(), &kind)
}

/// A policy that selects the pods of `web`, with one rule.
async fn create_policy(client: &Client, name: &str, rule: Value) -> DynamicObject {
    let policy = object(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [rule]},
    }));
    let created = policies(client)
        .create(&PostParams::default(), &policy)
        .await;
    created.expect("a policy")
}

/// A report of an agent that has applied these policies at their current generation.
fn applied(policies: &[&DynamicObject]) -> Value {
    let applied = policies.iter().map(|policy| {
        json!({
            "namespace": policy.namespace(),
            "name": policy.name_any(),
            "uid": policy.uid(),
            "generation": policy.metadata.generation,
        })
    });
    json!({"agent": "a test", "versions": VERSIONS, "applied": applied.collect::<Value>()})
}

/// Replaces the report of a node, like an agent that has observed everything and will not report for an hour.
async fn replace_report(client: &Client, node: &str, mut report: Value) {
    let defaults = json!({
        "heartbeatSeconds": 3600,
        "lastHeartbeatTime": now(),
        "podsResourceVersion": u64::MAX.to_string(),
    });
    for (field, value) in defaults.as_object().expect("an object") {
        if report.get(field).is_none() {
            report[field] = value.clone();
        }
    }
    report["apiVersion"] = json!("networking.rhumb.dev/v1alpha1");
    report["kind"] = json!("NetworkPolicyNode");
    report["metadata"] = json!({"name": node});
    let said = reports(client)
        .replace(node, &PostParams::default(), &object(report))
        .await;
    said.expect("a report");
}

fn now() -> Value {
    json!(Time(Timestamp::now()))
}

fn condition<'a>(policy: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    let conditions = policy.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|own| own["type"] == type_)
}

/// A condition in one line.
fn line(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    format!("{}/{}: {}", text("status"), text("reason"), text("message"))
}

/// Waits until a condition of the current generation has this text, and returns the policy.
async fn wait_for_condition(
    client: &Client,
    policy: &str,
    type_: &str,
    expected: &str,
) -> DynamicObject {
    wait_for(&policies(client), policy, |policy| {
        let condition = condition(policy, type_);
        let generation = json!(policy.metadata.generation);
        condition
            .is_some_and(|own| line(own) == expected && own["observedGeneration"] == generation)
    })
    .await
}

/// A started `kubectl wait`; `None` without kubectl.
fn wait_by_kubectl(kubeconfig: &Path, policy: &str) -> Option<Child> {
    let started = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["wait", "--for=condition=Programmed", "--timeout=60s"])
        .arg(format!("netpol/{policy}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    match started {
        Ok(child) => Some(child),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("kubectl cannot be run: {error}"),
    }
}

#[tokio::test]
async fn policy_is_programmed_when_all_nodes_of_its_pods_applied_it() {
    let (server, client) = cluster(&["a", "b", "c"]).await;
    create_node(&client, "without-pods").await;
    let policy = create_policy(&client, "p", json!({})).await;
    for node in ["a", "b"] {
        replace_report(&client, node, applied(&[])).await;
    }
    let programmed = "Programmed";
    let waiting = "Unknown/Pending: applied on 0 of 3 nodes; waiting for a, b, c (no agent reports from there)";
    wait_for_condition(&client, "p", programmed, waiting).await;
    let waits = wait_by_kubectl(&server.kubeconfig(), "p");
    replace_report(&client, "a", applied(&[&policy])).await;
    replace_report(&client, "c", applied(&[&policy])).await;
    let waiting = "Unknown/Pending: applied on 2 of 3 nodes; waiting for b";
    wait_for_condition(&client, "p", programmed, waiting).await;
    replace_report(&client, "b", applied(&[&policy])).await;
    let done = "True/Applied: applied on 3 of 3 nodes";
    let policy = wait_for_condition(&client, "p", programmed, done).await;
    if let Some(child) = waits {
        let output = child.wait_with_output().expect("it ended");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert_eq!(said, "networkpolicy.networking.k8s.io/p condition met\n");
    }

    let of_first = policy.metadata.generation;
    let patch = Patch::Merge(json!({"spec": {"ingress": null}}));
    let params = PatchParams::default();
    let changed = policies(&client).patch("p", &params, &patch).await;
    let changed = changed.expect("a change");
    assert_ne!(changed.metadata.generation, of_first);
    let waiting = "Unknown/Pending: applied on 0 of 3 nodes; waiting for a, b, c";
    wait_for_condition(&client, "p", programmed, waiting).await;
    for node in ["a", "b", "c"] {
        replace_report(&client, node, applied(&[&changed])).await;
    }
    wait_for_condition(&client, "p", programmed, done).await;

    let mut broken = applied(&[&changed]);
    broken["problem"] = json!("nft: out of memory");
    replace_report(&client, "b", broken).await;
    let problem = "False/NodeProblem: b: nft: out of memory";
    wait_for_condition(&client, "p", programmed, problem).await;
    for node in ["a", "b", "c"] {
        assert_not_recreated(&client, node).await;
    }
    let no_agent = "Unknown/NoAgent: no agent reports from any node";
    wait_for_condition(&client, "p", programmed, no_agent).await;
}

async fn assert_not_recreated(client: &Client, node: &str) {
    let deleted = reports(client).delete(node, &DeleteParams::default()).await;
    deleted.expect("a deletion");
}

#[tokio::test]
async fn policy_is_supported_if_its_agents_implement_its_features() {
    let (_server, client) = cluster(&["a", "b"]).await;
    let knows = |versions: &[&str]| json!({"agent": "a test", "versions": versions});
    let new = knows(&VERSIONS);
    let mut no_sctp = new.clone();
    no_sctp["unimplemented"] = json!([{"feature": "SCTP", "message": "the kernel has none"}]);
    replace_report(&client, "a", no_sctp).await;
    replace_report(&client, "b", knows(&VERSIONS[..5])).await;

    create_policy(&client, "plain", json!({})).await;
    let range = json!({"ports": [{"port": 80, "endPort": 90}]});
    create_policy(&client, "range", range).await;
    let sctp = json!({"ports": [{"port": 80, "protocol": "SCTP"}]});
    create_policy(&client, "sctp", sctp).await;
    let yes = "True/Supported: all agents that report and have to enforce it support its version and its features";
    wait_for_condition(&client, "plain", "Supported", yes).await;
    let version = "False/Version: version 1.21 is not supported on b (newest supported: 1.12); the policy is ignored there";
    wait_for_condition(&client, "range", "Supported", version).await;
    let ignored = "False/Unsupported: some nodes do not support its version: see Supported";
    wait_for_condition(&client, "range", "Programmed", ignored).await;
    let lacking = "False/Unimplemented: SCTP is not available on a: the kernel has none";
    wait_for_condition(&client, "sctp", "Supported", lacking).await;

    for node in ["a", "b"] {
        replace_report(&client, node, new.clone()).await;
    }
    for policy in ["plain", "range", "sctp"] {
        wait_for_condition(&client, policy, "Supported", yes).await;
    }
}

#[tokio::test]
async fn problem_and_match_conditions_are_set_without_agents() {
    let (_server, client) = cluster(&["a"]).await;
    let ambiguous = json!({"from": [{"ipBlock": {"cidr": "192.168.1.5/24"}}]});
    create_policy(&client, "p", ambiguous).await;
    let policy = wait_for(&policies(&client), "p", |policy| {
        condition(policy, "Problem").is_some_and(|problem| problem["status"] == "True")
    })
    .await;
    let problem = condition(&policy, "Problem").expect("a condition");
    assert_eq!(problem["reason"], "AmbiguousCIDR");
    let message = problem["message"].as_str().unwrap_or_default();
    let form = "nterpreting 192.168.1.5/24 as 192.168.1.0/24 rather than 192.168.1.5/32";
    assert!(message.contains(form), "{message}");
    let ranges =
        "True/PeersMatched: at least one pod or range of addresses is matched by the rules";
    wait_for_condition(&client, "p", "TrafficMatch", ranges).await;
    let pods = "True/PodsSelected: at least one pod is selected by spec.podSelector";
    let policy = wait_for_condition(&client, "p", "TargetMatch", pods).await;
    for type_ in ["Supported", "Programmed"] {
        assert_eq!(condition(&policy, type_), None, "{type_}");
    }
}

/// Creates and deletes a pod repeatedly, so that the status keeps changing.
async fn churn(client: &Client) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let now = DeleteParams::default().grace_period(0);
    loop {
        create_pod(client, "restless", "a", "10.0.0.9").await;
        sleep(Duration::from_millis(400)).await;
        pods.delete("restless", &now).await.expect("a deletion");
        sleep(Duration::from_millis(400)).await;
    }
}

#[tokio::test]
async fn policy_status_is_written_at_most_once_a_second() {
    const WRITES: usize = 4;
    let (_server, client) = cluster(&[]).await;
    create_node(&client, "a").await;
    replace_report(&client, "a", applied(&[])).await;
    let begun = Instant::now();
    let policy = create_policy(&client, "p", json!({})).await;
    let version = policy.resource_version().expect("a version");
    let policies = policies(&client);
    let events = policies.watch(&WatchParams::default(), &version).await;
    let modified = events.expect("a watch").filter(|event| {
        let event = event.as_ref().expect("an event");
        std::future::ready(matches!(event, WatchEvent::Modified(_)))
    });
    let written = modified.take(WRITES).count();
    tokio::select! {
        written = written => assert_eq!(written, WRITES, "the watch ended"),
        () = churn(&client) => {}
    }
    // Later writes are at least a second apart.
    let at_least = Duration::from_secs(WRITES as u64 - 1);
    assert!(begun.elapsed() >= at_least, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn restart_writes_no_unchanged_status() {
    let (mut server, client) = cluster(&["a"]).await;
    let policy = create_policy(&client, "p", json!({})).await;
    replace_report(&client, "a", applied(&[&policy])).await;
    let done = "True/Applied: applied on 1 of 1 node";
    let before = wait_for_condition(&client, "p", "Programmed", done).await;
    server.stop();
    server.start_again();
    let client = server.client().await;
    // The status of another policy shows that everything was processed twice.
    let other = create_policy(&client, "other", json!({})).await;
    let waiting = "Unknown/Pending: applied on 0 of 1 node; waiting for a";
    wait_for_condition(&client, "other", "Programmed", waiting).await;
    replace_report(&client, "a", applied(&[&policy, &other])).await;
    wait_for_condition(&client, "other", "Programmed", done).await;
    let after = policies(&client).get("p").await.expect("a policy");
    assert_eq!(after, before);
}

#[tokio::test]
async fn deleted_node_is_removed_with_its_report() {
    let (_server, client) = cluster(&["a", "b"]).await;
    let policy = create_policy(&client, "p", json!({})).await;
    replace_report(&client, "a", applied(&[&policy])).await;
    replace_report(&client, "b", applied(&[])).await;
    let waiting = "Unknown/Pending: applied on 1 of 2 nodes; waiting for b";
    wait_for_condition(&client, "p", "Programmed", waiting).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let deleted = nodes.delete("b", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    let done = "True/Applied: applied on 1 of 1 node";
    wait_for_condition(&client, "p", "Programmed", done).await;
    wait_until_deleted(&reports(&client), "b").await;
    reports(&client).get("a").await.expect("it stays");
}

/// Sets the boot ID of a node like a kubelet.
async fn boot(client: &Client, node: &str, id: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"status": {"nodeInfo": {"bootID": id}}}));
    let params = PatchParams::default();
    let patched = nodes.patch_status(node, &params, &patch).await;
    patched.expect("a node");
}

#[tokio::test]
async fn rebooted_node_counts_as_not_applied_until_its_agent_reports() {
    let (_server, client) = cluster(&["a", "b"]).await;
    let policy = create_policy(&client, "p", json!({})).await;
    for node in ["a", "b"] {
        boot(&client, node, "first").await;
    }
    let mut report = applied(&[&policy]);
    replace_report(&client, "a", report.clone()).await;
    report["bootID"] = json!("first");
    replace_report(&client, "b", report.clone()).await;
    let done = "True/Applied: applied on 2 of 2 nodes";
    wait_for_condition(&client, "p", "Programmed", done).await;
    for node in ["a", "b"] {
        boot(&client, node, "second").await;
    }
    // The other agent does not report its boot ID.
    let waiting = "Unknown/Pending: applied on 1 of 2 nodes; waiting for b (its agent has not reported since the node \
                   was rebooted)";
    wait_for_condition(&client, "p", "Programmed", waiting).await;
    report["bootID"] = json!("second");
    replace_report(&client, "b", report).await;
    wait_for_condition(&client, "p", "Programmed", done).await;
}

#[tokio::test]
async fn foreign_conditions_and_transition_times_are_kept() {
    let (_server, client) = cluster(&["a"]).await;
    let policy = create_policy(&client, "p", json!({})).await;
    let theirs = json!({
        "type": "example.com/Theirs", "status": "True", "reason": "Said", "message": "m",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    });
    let patch = Patch::Merge(json!({"status": {"conditions": [theirs]}}));
    let params = PatchParams::default();
    let said = policies(&client).patch_status("p", &params, &patch).await;
    said.expect("a status");
    // The earlier status is written again.
    replace_report(&client, "a", applied(&[])).await;
    let pods = "True/PodsSelected: at least one pod is selected by spec.podSelector";
    wait_for_condition(&client, "p", "TargetMatch", pods).await;
    let waiting = "Unknown/Pending: applied on 0 of 1 node; waiting for a";
    wait_for_condition(&client, "p", "Programmed", waiting).await;
    let old = json!({"status": {"conditions": [
        {"type": "TargetMatch", "lastTransitionTime": "2020-01-02T00:00:00Z"},
    ]}});
    let patch = Patch::Strategic(old);
    let dated = policies(&client).patch_status("p", &params, &patch).await;
    dated.expect("a status");
    let patch = Patch::Merge(json!({"spec": {"ingress": null}}));
    let changed = policies(&client).patch("p", &params, &patch).await;
    let changed = changed.expect("a change");
    wait_for_condition(&client, "p", "TargetMatch", pods).await;
    assert_ne!(changed.metadata.generation, policy.metadata.generation);
    replace_report(&client, "a", applied(&[&changed])).await;
    let done = "True/Applied: applied on 1 of 1 node";
    let policy = wait_for_condition(&client, "p", "Programmed", done).await;
    assert_eq!(condition(&policy, "example.com/Theirs"), Some(&theirs));
    let target = condition(&policy, "TargetMatch").expect("a condition");
    assert_eq!(target["lastTransitionTime"], "2020-01-02T00:00:00Z");
    assert_eq!(
        target["observedGeneration"],
        json!(changed.metadata.generation)
    );
}

/// The number of attempted status writes of a policy.
async fn status_writes(client: &Client) -> u64 {
    let request = Request::get("/metrics").body(Vec::new());
    let metrics = client.request_text(request.expect("a request")).await;
    let metrics = metrics.expect("metrics");
    let writes = metrics.lines().filter(|line| {
        line.starts_with("apiserver_request_total{verb=\"PATCH\"")
            && line.contains("resource=\"networkpolicies\",subresource=\"status\"")
    });
    let counts = writes.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    counts.sum()
}

#[tokio::test]
async fn while_the_gate_is_off_the_status_write_is_tried_once_a_minute() {
    let flags = [CONTROLLERS, "--feature-gates=NetworkPolicyVersioning=false"];
    let server = TestServer::start_with(&flags);
    let client = server.client_for_pods().await;
    create_node(&client, "a").await;
    let begun = Instant::now();
    let created = create_policy(&client, "p", json!({})).await;
    poll_until("a write", async || {
        (status_writes(&client).await > 0).then_some(())
    })
    .await;
    // Each of these changes would cause a status write.
    for number in 1..=5 {
        let name = format!("pod-{number}");
        create_pod(&client, &name, "a", &format!("10.0.0.{number}")).await;
        replace_report(&client, "a", applied(&[&created])).await;
    }
    let policy = policies(&client).get("p").await.expect("a policy");
    assert_eq!(policy, created);
    let most = 1 + begun.elapsed().as_secs() / 60;
    let writes = status_writes(&client).await;
    assert!(writes <= most, "{writes} in {:?}", begun.elapsed());
}
