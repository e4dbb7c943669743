//! Nodes and pods for the scheduler, and what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::make::object;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(50);

/// Asks until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not come about");
        sleep(PAUSE).await;
    }
}

pub(crate) async fn make_node(client: &Client, name: &str, cpu: &str) {
    make_node_in(client, name, cpu, "zone").await;
}

pub(crate) async fn make_node_in(client: &Client, name: &str, cpu: &str, zone: &str) {
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
    let nodes: Api<Node> = Api::all(client.clone());
    let amounts = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
    let node = object(json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }));
    let made = nodes.create(&PostParams::default(), &node).await;
    made.expect("a node");
}

/// A namespace, once pods can be made in it.
pub(crate) async fn make_namespace(client: &Client, name: &str, labels: Value) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = object(json!({"metadata": {"name": name, "labels": labels}}));
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    made.expect("a namespace");
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    until("an account", async || {
        accounts.get_opt("default").await.expect("a read")
    })
    .await;
}

/// A pod that goes to any node; `more` is added to its spec.
pub(crate) fn pod(name: &str, app: &str, more: Value) -> Pod {
    let mut spec = json!({
        "containers": [{"name": "c", "image": "i"}],
        "tolerations": [{"operator": "Exists"}],
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    object(json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}))
}

/// For one that stands no other of its app on its node.
pub(crate) fn apart(app: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }]}}})
}

/// Terms of inter-pod affinity about pods of an app in namespaces with a label `team`.
pub(crate) fn about_team(app: &str, team: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
        "namespaceSelector": {"matchLabels": {"team": team}},
    }]})
}

/// For a pod that goes to one node.
pub(crate) fn on(node: &str) -> Value {
    json!({"nodeSelector": {"kubernetes.io/hostname": node}})
}

pub(crate) async fn make_pod(pods: &Api<Pod>, pod: &Pod) {
    let made = pods.create(&PostParams::default(), pod).await;
    made.expect("a pod");
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The pod once it has a node.
pub(crate) async fn placed(pods: &Api<Pod>, name: &str) -> String {
    until(&format!("a node for {name}"), async || {
        let pod = pods.get(name).await.expect("a read");
        node_of(&pod).map(str::to_owned)
    })
    .await
}

/// What the pod says of why it has no node.
pub(crate) fn why(pod: &Pod) -> Option<(String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|one| one.type_ == "PodScheduled")?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (condition.status == "False").then(|| (text(&condition.reason), text(&condition.message)))
}

/// Where all pods of an app are, each on a node of its own: this is the proof that nothing was placed against what
/// pods ask for.
pub(crate) async fn all_apart(pods: &Api<Pod>, app: &str) -> BTreeMap<String, String> {
    let params = ListParams::default().labels(&format!("app={app}"));
    let list = pods.list(&params).await.expect("a list");
    let mut nodes = BTreeSet::new();
    let mut places = BTreeMap::new();
    for pod in &list {
        if let Some(node) = node_of(pod) {
            let name = pod.metadata.name.clone().unwrap_or_default();
            assert!(
                nodes.insert(node.to_owned()),
                "{name} is not alone on {node}"
            );
            places.insert(name, node.to_owned());
        }
    }
    places
}
