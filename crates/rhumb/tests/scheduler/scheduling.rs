//! Scheduling end to end: each watch of the scheduler is needed by a test here.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::{
    about_team, make_namespace, make_node, make_node_in, make_pod, node_of, on, placed, pod,
    unschedulable_condition,
};
use crate::events::event_about;
use crate::make::object;
use crate::program::{FEW_CONTROLLERS, poll_until};
use crate::support::TestServer;

/// Far less than the five minutes after which unschedulable pods are retried.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn namespace_selector_follows_namespace_labels() {
    let server = TestServer::start_with(&[FEW_CONTROLLERS, "--scheduler"]);
    let client = server.client_for_pods().await;
    make_node(&client, "n1", "4").await;
    make_namespace(&client, "other", json!({"team": "x"})).await;
    let others: Api<Pod> = Api::namespaced(client.clone(), "other");
    make_pod(&others, &pod("db", "db", json!({}))).await;
    placed(&others, "db").await;

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let far = json!({"affinity": {"podAntiAffinity": about_team("db", "x")}});
    let near = json!({"affinity": {"podAffinity": about_team("db", "y")}});
    make_pod(&pods, &pod("far", "far", far)).await;
    make_pod(&pods, &pod("near", "near", near)).await;
    for (name, says) in [
        ("far", "1 node(s) didn't match pod anti-affinity rules."),
        ("near", "1 node(s) didn't match pod affinity rules."),
    ] {
        let (_, message) = poll_until("a reason", async || {
            unschedulable_condition(&pods.get(name).await.ok()?)
        })
        .await;
        let says = format!("0/1 nodes are available: {says}");
        assert!(message.starts_with(&says), "{message}");
    }

    let namespaces: Api<Namespace> = Api::all(client);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"team": "y"}}}));
    let params = PatchParams::default();
    let changed = namespaces.patch("other", &params, &patch).await;
    changed.expect("a change");
    let begun = Instant::now();
    placed(&pods, "far").await;
    placed(&pods, "near").await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

async fn make_class(client: &Client, name: &str, value: i32) {
    let classes: Api<PriorityClass> = Api::all(client.clone());
    let class = object(json!({"metadata": {"name": name}, "value": value}));
    let created = classes.create(&PostParams::default(), &class).await;
    created.expect("a class");
}

/// A pod spec with a priority and a request.
fn of_class(class: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({
        "priorityClassName": class,
        "containers": [{"name": "c", "image": "i", "resources": resources}],
    })
}

fn and(mut spec: Value, more: &Value) -> Value {
    let (own, more) = (spec.as_object_mut(), more.as_object());
    own.expect("an object")
        .extend(more.expect("an object").clone());
    spec
}

#[tokio::test]
async fn preemption_prefers_victims_without_a_budget() {
    let server = TestServer::start_with(&[FEW_CONTROLLERS, "--scheduler"]);
    let client = server.client_for_pods().await;
    for (class, value) in [("low", 1), ("middle", 10), ("high", 1000)] {
        make_class(&client, class, value).await;
    }
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let selector = json!({"matchLabels": {"app": "guarded"}});
    let budget = object(json!({
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": selector},
    }));
    let created = budgets.create(&PostParams::default(), &budget).await;
    created.expect("a budget");
    for node in ["n1", "n2"] {
        make_node(&client, node, "4").await;
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    // Without the budget the victim would be the first pod, which has lower priority.
    for (name, app, class, node) in [
        ("guarded", "guarded", "low", "n1"),
        ("free", "free", "middle", "n2"),
    ] {
        let spec = and(of_class(class, "3"), &on(node));
        make_pod(&pods, &pod(name, app, spec)).await;
        assert_eq!(placed(&pods, name).await, node);
    }

    make_pod(&pods, &pod("urgent", "u", of_class("high", "3"))).await;
    let left = poll_until("the end of one", async || {
        let free = pods.get("free").await.expect("a read");
        free.metadata.deletion_timestamp.is_some().then_some(free)
    })
    .await;
    let conditions = left.status.and_then(|status| status.conditions);
    let mut conditions = conditions.into_iter().flatten();
    let target = conditions.find(|one| one.type_ == "DisruptionTarget");
    let reason = target.and_then(|target| target.reason);
    assert_eq!(reason.as_deref(), Some("PreemptionByScheduler"));
    let preempted = event_about(&client, "free", "Preempted", |_| true).await;
    assert_eq!(preempted.action.as_deref(), Some("Preempting"));
    let related = preempted.related.and_then(|related| related.name);
    assert_eq!(related.as_deref(), Some("urgent"));
    poll_until("a nomination", async || {
        let urgent = pods.get("urgent").await.expect("a read");
        let nominated = urgent.status?.nominated_node_name;
        (nominated.as_deref() == Some("n2")).then_some(())
    })
    .await;

    // Like the kubelet after termination.
    let at_once = DeleteParams::default().grace_period(0);
    let gone = pods.delete("free", &at_once).await;
    gone.expect("an end");
    assert_eq!(placed(&pods, "urgent").await, "n2");
    let guarded = pods.get("guarded").await.expect("a read");
    assert_eq!(guarded.metadata.deletion_timestamp, None);
}

const SPREAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
";

async fn places(pods: &Api<Pod>, app: &str) -> BTreeMap<String, usize> {
    let params = ListParams::default().labels(&format!("app={app}"));
    let list = pods.list(&params).await.expect("a list");
    let mut places = BTreeMap::new();
    for node in list.iter().filter_map(node_of) {
        *places.entry(node.to_owned()).or_default() += 1;
    }
    places
}

#[tokio::test]
async fn pods_are_spread_by_their_constraints_or_their_service() {
    let mut server = TestServer::start_with(&[FEW_CONTROLLERS]);
    let client = server.client_for_pods().await;
    // Pods without spreading go to the large node.
    make_node_in(&client, "large", "100", "a").await;
    make_node_in(&client, "small", "8", "b").await;
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let service = object(json!({
        "metadata": {"name": "s"},
        "spec": {"selector": {"app": "served"}, "ports": [{"port": 80}]},
    }));
    let created = services.create(&PostParams::default(), &service).await;
    created.expect("a service");
    let pods: Api<Pod> = Api::default_namespaced(client);
    let containers = json!([
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}},
    ]);
    for (app, constraints) in [
        (
            "asking",
            json!([{
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "asking"}},
            }]),
        ),
        ("served", json!([])),
        ("free", json!([])),
    ] {
        for number in 0..4 {
            let spec = json!({"topologySpreadConstraints": constraints, "containers": containers});
            make_pod(&pods, &pod(&format!("{app}{number}"), app, spec)).await;
        }
    }

    // A scheduler syncs its caches before its first decision.
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("scheduler.yaml");
    std::fs::write(&config, SPREAD).expect("a file");
    let config = format!("--scheduler-config={}", config.display());
    server.restart_with(&[FEW_CONTROLLERS, "--scheduler", &config]);
    let pods: Api<Pod> = Api::default_namespaced(server.client().await);
    let both = BTreeMap::from([("large".to_owned(), 2), ("small".to_owned(), 2)]);
    let one = BTreeMap::from([("large".to_owned(), 4)]);
    for (app, expected) in [("asking", &both), ("served", &both), ("free", &one)] {
        let found = poll_until("all placed", async || {
            let places = places(&pods, app).await;
            (places.values().sum::<usize>() == 4).then_some(places)
        })
        .await;
        assert_eq!(found, *expected, "{app}");
    }
}
