//! Runs a scheduling scenario on two clusters.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::pod_state::{ObservedPodState, PodStatesByName};
use super::{ScenarioNode, ScenarioPod, ScenarioStep, SchedulingScenario};
use crate::client::{RawClient, RawRequest};

/// Longer than any back-off in a scenario.
const STEP_TIME_MAX: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// An API server with a scheduler.
#[derive(Debug)]
pub struct SchedulerCluster {
    pub name: &'static str,
    pub client: RawClient,
}

/// Descriptions of the mismatches.
pub type ScenarioMismatches = Vec<String>;

/// Runs the scenario on kube-scheduler's cluster and on rhumb's, and cleans both up.
pub async fn run_scenario(
    scenario: &SchedulingScenario,
    upstream: &SchedulerCluster,
    rhumb: &SchedulerCluster,
) -> Result<ScenarioMismatches> {
    let mut runner = ScenarioRunner {
        namespace: format!("s{}", uuid::Uuid::new_v4().simple()),
        additional_namespaces: vec![],
    };
    let labels = &scenario.namespace_labels;
    for cluster in [upstream, rhumb] {
        cluster.create_namespace(&runner.namespace, labels).await?;
    }
    let mut mismatches = ScenarioMismatches::new();
    let (mut upstream_deviates, mut messages_differ) = (false, false);
    for (number, step) in (1..).zip(&scenario.steps) {
        let namespaces = step.namespaces.iter();
        runner
            .additional_namespaces
            .extend(namespaces.map(|namespace| namespace.name.clone()));
        for cluster in [upstream, rhumb] {
            let applied = runner.apply(cluster, step).await;
            applied.with_context(|| format!("step {number} on {}", cluster.name))?;
        }
        let [theirs, ours] = runner
            .wait_for_states(scenario, step, [upstream, rhumb])
            .await?;
        mismatches.extend(unexpected_states(step, &ours, number, rhumb));
        let upstream_mismatches = unexpected_states(step, &theirs, number, upstream);
        upstream_deviates |= !upstream_mismatches.is_empty();
        if scenario.upstream_deviation.is_none() {
            mismatches.extend(upstream_mismatches);
            messages_differ |= theirs != ours;
            if !are_equal(scenario, &theirs, &ours) {
                mismatches.extend(differences(&theirs, &ours, number));
            }
        }
    }
    if scenario.upstream_deviation.is_some() && !upstream_deviates {
        mismatches.push(
            "kube-scheduler reaches the expected states: remove `upstream_deviation`".to_owned(),
        );
    }
    if scenario.message_difference.is_some() && !messages_differ {
        mismatches.push("the messages are equal: remove `message_difference`".to_owned());
    }
    for cluster in [upstream, rhumb] {
        runner.clean_up(cluster).await?;
    }
    Ok(mismatches)
}

fn unexpected_states(
    step: &ScenarioStep,
    observed: &PodStatesByName,
    number: usize,
    cluster: &SchedulerCluster,
) -> ScenarioMismatches {
    let unexpected = step
        .expect
        .iter()
        .filter(|(pod, expected)| !expected.matches(observed.get(*pod)));
    unexpected
        .map(|(pod, expected)| {
            let observed = observed.get(pod);
            format!(
                "step {number}, pod {pod} on {}: expected {expected:?}, observed {observed:?}",
                cluster.name
            )
        })
        .collect()
}

/// Whether the states are equal, except for messages if the scenario lists them as different.
fn are_equal(
    scenario: &SchedulingScenario,
    theirs: &PodStatesByName,
    ours: &PodStatesByName,
) -> bool {
    let without_messages = |states: &PodStatesByName| -> PodStatesByName {
        let mut states = states.clone();
        for state in states.values_mut() {
            if let Some([_, _, message]) = &mut state.condition {
                message.clear();
            }
        }
        states
    };
    match scenario.message_difference {
        None => theirs == ours,
        Some(_) => without_messages(theirs) == without_messages(ours),
    }
}

fn differences(
    theirs: &PodStatesByName,
    ours: &PodStatesByName,
    number: usize,
) -> ScenarioMismatches {
    let names = theirs.keys().chain(ours.keys());
    let names: std::collections::BTreeSet<&String> = names.collect();
    let different = names
        .into_iter()
        .filter(|pod| theirs.get(*pod) != ours.get(*pod));
    different
        .map(|pod| {
            let (theirs, ours) = (theirs.get(pod), ours.get(pod));
            format!("step {number}, pod {pod}:\n      upstream {theirs:?}\n      rhumb    {ours:?}")
        })
        .collect()
}

struct ScenarioRunner {
    namespace: String,
    /// The names of additional namespaces in the scenario.
    additional_namespaces: Vec<String>,
}

impl ScenarioRunner {
    /// The name of an additional namespace in the clusters.
    fn namespace_name(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Makes the changes of a step.
    async fn apply(&self, cluster: &SchedulerCluster, step: &ScenarioStep) -> Result<()> {
        for namespace in &step.namespaces {
            let name = self.namespace_name(&namespace.name);
            cluster.create_namespace(&name, &namespace.labels).await?;
        }
        for node in &step.nodes {
            cluster.create_node(node).await?;
        }
        for object in &step.objects {
            self.create_object(cluster, object).await?;
        }
        for pod in &step.pods {
            let namespace = pod.namespace.as_deref();
            let namespace =
                namespace.map_or(self.namespace.clone(), |name| self.namespace_name(name));
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            cluster
                .call("POST", &path, self.expand(&pod_object(pod))?)
                .await?;
        }
        for (target, patch) in &step.patch {
            let path = self.path(target)?;
            cluster.call("PATCH", &path, self.expand(patch)?).await?;
        }
        for target in &step.delete {
            let now = json!({"gracePeriodSeconds": 0});
            cluster.call("DELETE", &self.path(target)?, now).await?;
        }
        Ok(())
    }

    async fn create_object(&self, cluster: &SchedulerCluster, object: &Value) -> Result<()> {
        let path = match object["kind"].as_str() {
            Some("PriorityClass") => "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            Some("PodDisruptionBudget") => self.disruption_budgets_path(),
            other => bail!("objects of kind {other:?} are not supported in scenarios"),
        };
        cluster.call("POST", &path, object.clone()).await?;
        if let Some(status) = object.get("status") {
            let name = object["metadata"]["name"].as_str();
            let name = name.context("an object has no metadata.name")?;
            let path = format!("{path}/{name}/status");
            cluster
                .call("PATCH", &path, json!({"status": status}))
                .await?;
        }
        Ok(())
    }

    fn disruption_budgets_path(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")
    }

    fn path(&self, target: &str) -> Result<String> {
        let (kind, name) = target
            .split_once('/')
            .with_context(|| format!("target {target:?} is not kind/name"))?;
        Ok(match kind {
            "nodes" => format!("/api/v1/nodes/{name}"),
            "namespaces" => format!("/api/v1/namespaces/{}", self.namespace_name(name)),
            "pods" => format!("/api/v1/namespaces/{}/pods/{name}", self.namespace),
            other => bail!("{other} cannot be changed in scenarios"),
        })
    }

    /// Replaces `${ns}` by the name of the namespace.
    fn expand(&self, value: &Value) -> Result<Value> {
        let text = value.to_string().replace("${ns}", &self.namespace);
        Ok(serde_json::from_str(&text)?)
    }

    /// Waits until both clusters are in the expected state, or for [`STEP_TIME_MAX`], and returns the observed states.
    async fn wait_for_states(
        &self,
        scenario: &SchedulingScenario,
        step: &ScenarioStep,
        clusters: [&SchedulerCluster; 2],
    ) -> Result<[PodStatesByName; 2]> {
        let deadline = Instant::now() + STEP_TIME_MAX;
        loop {
            let theirs = self.pod_states(clusters[0]).await?;
            let ours = self.pod_states(clusters[1]).await?;
            let is_expected = step.expect.iter().all(|(pod, expected)| {
                expected.matches(theirs.get(pod)) && expected.matches(ours.get(pod))
            });
            if is_expected && are_equal(scenario, &theirs, &ours) || Instant::now() > deadline {
                return Ok([theirs, ours]);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn pod_states(&self, cluster: &SchedulerCluster) -> Result<PodStatesByName> {
        let mut states = PodStatesByName::new();
        let own = (String::new(), self.namespace.clone());
        let additional = self.additional_namespaces.iter();
        let additional = additional.map(|name| (format!("{name}."), self.namespace_name(name)));
        for (prefix, namespace) in additional.chain([own]) {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            let pods = cluster.call("GET", &path, Value::Null).await?;
            for pod in pods["items"]
                .as_array()
                .context("a pod list has no items")?
            {
                let name = pod["metadata"]["name"].as_str();
                let name = name.context("a pod has no metadata.name")?;
                let state = ObservedPodState::from_pod(pod, &self.namespace);
                states.insert(format!("{prefix}{name}"), state);
            }
        }
        Ok(states)
    }

    /// Deletes cluster-scoped objects, which would affect the next scenario.
    async fn clean_up(&self, cluster: &SchedulerCluster) -> Result<()> {
        let now = json!({"gracePeriodSeconds": 0});
        let additional = self.additional_namespaces.iter();
        let additional = additional.map(|name| self.namespace_name(name));
        for namespace in additional.chain([self.namespace.clone()]) {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            cluster.call("DELETE", &path, now.clone()).await?;
        }
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses?labelSelector=scenario";
        for path in ["/api/v1/nodes", classes, &self.disruption_budgets_path()] {
            cluster.call("DELETE", path, json!({})).await?;
        }
        Ok(())
    }
}

/// The pod with the fields that scenarios omit. The grace period is 0, because no kubelet runs the pod.
fn pod_object(pod: &ScenarioPod) -> Value {
    let extended = pod.requests.iter().filter(|(name, _)| name.contains('/'));
    let limits: Map<String, Value> = extended.map(|(k, v)| (k.clone(), v.clone())).collect();
    let resources = json!({"requests": pod.requests, "limits": limits});
    let mut spec = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i", "resources": resources}],
    });
    for (field, value) in &pod.spec {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": pod.name, "labels": pod.labels}, "spec": spec})
}

impl SchedulerCluster {
    /// Sends a request, which must succeed, and returns the response body.
    async fn call(&self, method: &str, path: &str, body: Value) -> Result<Value> {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = RawRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body: match body {
                Value::Null => bytes::Bytes::new(),
                body => body.to_string().into(),
            },
            ..RawRequest::default()
        };
        let response = self.client.send(&request).await?;
        let text = String::from_utf8_lossy(&response.body);
        ensure!(
            response.status.is_success(),
            "{method} {path} failed: {text}"
        );
        Ok(serde_json::from_slice(&response.body)?)
    }

    /// Creates a namespace with its default service account, which pods need.
    async fn create_namespace(&self, name: &str, labels: &Map<String, Value>) -> Result<()> {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        self.call("POST", "/api/v1/namespaces", namespace).await?;
        let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
        let account = json!({"metadata": {"name": "default"}});
        self.call("POST", &accounts, account).await?;
        Ok(())
    }

    /// Creates a ready node. A new node has a not-ready taint until a controller removes the taint; here the taints are set immediately.
    async fn create_node(&self, node: &ScenarioNode) -> Result<()> {
        let mut labels = json!({"kubernetes.io/hostname": node.name});
        for (key, value) in &node.labels {
            labels[key] = value.clone();
        }
        let name = &node.name;
        let object = json!({"metadata": {"name": name, "labels": labels}});
        self.call("POST", "/api/v1/nodes", object).await?;
        let mut capacity = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        for (resource, amount) in &node.capacity {
            capacity[resource] = amount.clone();
        }
        let ready = json!([{"type": "Ready", "status": "True", "reason": "Scenario"}]);
        let status = json!({"capacity": capacity, "allocatable": capacity, "conditions": ready});
        let path = format!("/api/v1/nodes/{name}");
        let status_path = format!("{path}/status");
        self.call("PATCH", &status_path, json!({"status": status}))
            .await?;
        let spec = json!({"taints": node.taints, "unschedulable": node.unschedulable});
        self.call("PATCH", &path, json!({"spec": spec})).await?;
        Ok(())
    }
}
