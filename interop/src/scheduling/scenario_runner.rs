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
const BETWEEN_LOOKS: Duration = Duration::from_millis(150);

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
    ours: &SchedulerCluster,
) -> Result<ScenarioMismatches> {
    let mut run_scenario = ScenarioRunner {
        namespace: format!("s{}", uuid::Uuid::new_v4().simple()),
        further: vec![],
    };
    let labels = &scenario.labels;
    for cluster in [upstream, ours] {
        cluster.namespace(&run_scenario.namespace, labels).await?;
    }
    let mut outcome = ScenarioMismatches::new();
    let (mut upstream_erred, mut words_differed) = (false, false);
    for (number, step) in scenario.steps.iter().enumerate() {
        let further = step.namespaces.iter();
        run_scenario
            .further
            .extend(further.map(|namespace| namespace.name.clone()));
        for cluster in [upstream, ours] {
            let applied = run_scenario.apply(cluster, step).await;
            applied.with_context(|| format!("step {number} on {}", cluster.name))?;
        }
        let [theirs, own] = run_scenario
            .settle(scenario, step, [upstream, ours])
            .await?;
        outcome.extend(wrong(step, &own, number, ours));
        let errors = wrong(step, &theirs, number, upstream);
        upstream_erred |= !errors.is_empty();
        if scenario.upstream.is_none() {
            outcome.extend(errors);
            words_differed |= theirs != own;
            if !is_same(scenario, &theirs, &own) {
                outcome.extend(differences(&theirs, &own, number));
            }
        }
    }
    if scenario.upstream.is_some() && !upstream_erred {
        outcome.push("kube-scheduler does as is expected by now".to_owned());
    }
    if scenario.words.is_some() && !words_differed {
        outcome.push("both use the same words by now".to_owned());
    }
    for cluster in [upstream, ours] {
        run_scenario.clean_up(cluster).await?;
    }
    Ok(outcome)
}

fn wrong(
    step: &ScenarioStep,
    seen: &PodStatesByName,
    number: usize,
    cluster: &SchedulerCluster,
) -> ScenarioMismatches {
    let wrong = step
        .expect
        .iter()
        .filter(|(pod, fate)| !fate.is_seen(seen.get(*pod)));
    wrong
        .map(|(pod, fate)| {
            let seen = seen.get(pod);
            format!(
                "step {number}, {pod} on {}: {fate:?} is expected, and it is {seen:?}",
                cluster.name
            )
        })
        .collect()
}

fn is_same(
    scenario: &SchedulingScenario,
    theirs: &PodStatesByName,
    ours: &PodStatesByName,
) -> bool {
    let without_words = |picture: &PodStatesByName| -> PodStatesByName {
        let mut picture = picture.clone();
        for seen in picture.values_mut() {
            if let Some([_, _, message]) = &mut seen.scheduled {
                message.clear();
            }
        }
        picture
    };
    match scenario.words {
        None => theirs == ours,
        Some(_) => without_words(theirs) == without_words(ours),
    }
}

fn differences(
    theirs: &PodStatesByName,
    ours: &PodStatesByName,
    number: usize,
) -> ScenarioMismatches {
    let names = theirs.keys().chain(ours.keys());
    let names: std::collections::BTreeSet<&String> = names.collect();
    let differ = names
        .into_iter()
        .filter(|pod| theirs.get(*pod) != ours.get(*pod));
    differ
        .map(|pod| {
            let (theirs, ours) = (theirs.get(pod), ours.get(pod));
            format!("step {number}, {pod}:\n      upstream {theirs:?}\n      rhumb    {ours:?}")
        })
        .collect()
}

struct ScenarioRunner {
    namespace: String,
    /// Suffix of the names of additional namespaces.
    further: Vec<String>,
}

impl ScenarioRunner {
    fn name_of(&self, further: &str) -> String {
        format!("{}-{further}", self.namespace)
    }

    async fn apply(&self, cluster: &SchedulerCluster, step: &ScenarioStep) -> Result<()> {
        for namespace in &step.namespaces {
            let name = self.name_of(&namespace.name);
            cluster.namespace(&name, &namespace.labels).await?;
        }
        for node in &step.nodes {
            cluster.node(node).await?;
        }
        for object in &step.objects {
            self.object(cluster, object).await?;
        }
        for pod in &step.pods {
            let namespace = pod.namespace.as_deref();
            let namespace = namespace.map_or(self.namespace.clone(), |name| self.name_of(name));
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            cluster
                .ask("POST", &path, self.filled(&complete_pod(pod))?)
                .await?;
        }
        for (target, patch) in &step.patch {
            let path = self.path(target)?;
            cluster.ask("PATCH", &path, self.filled(patch)?).await?;
        }
        for target in &step.delete {
            let now = json!({"gracePeriodSeconds": 0});
            cluster.ask("DELETE", &self.path(target)?, now).await?;
        }
        Ok(())
    }

    async fn object(&self, cluster: &SchedulerCluster, object: &Value) -> Result<()> {
        let path = match object["kind"].as_str() {
            Some("PriorityClass") => "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            Some("PodDisruptionBudget") => self.budgets(),
            other => bail!("no scenario has {other:?}"),
        };
        cluster.ask("POST", &path, object.clone()).await?;
        if let Some(status) = object.get("status") {
            let name = object["metadata"]["name"].as_str().context("no name")?;
            let path = format!("{path}/{name}/status");
            cluster
                .ask("PATCH", &path, json!({"status": status}))
                .await?;
        }
        Ok(())
    }

    fn budgets(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")
    }

    fn path(&self, target: &str) -> Result<String> {
        let (kind, name) = target.split_once('/').context("it is kind/name")?;
        Ok(match kind {
            "nodes" => format!("/api/v1/nodes/{name}"),
            "namespaces" => format!("/api/v1/namespaces/{}", self.name_of(name)),
            "pods" => format!("/api/v1/namespaces/{}/pods/{name}", self.namespace),
            other => bail!("no scenario changes {other}"),
        })
    }

    /// Replaces `${ns}` by the name of the namespace.
    fn filled(&self, value: &Value) -> Result<Value> {
        let text = value.to_string().replace("${ns}", &self.namespace);
        Ok(serde_json::from_str(&text)?)
    }

    /// The observed pods once they match the expectation, or at the deadline.
    async fn settle(
        &self,
        scenario: &SchedulingScenario,
        step: &ScenarioStep,
        clusters: [&SchedulerCluster; 2],
    ) -> Result<[PodStatesByName; 2]> {
        let end = Instant::now() + STEP_TIME_MAX;
        loop {
            let theirs = self.picture(clusters[0]).await?;
            let ours = self.picture(clusters[1]).await?;
            let is_right = wrong(step, &theirs, 0, clusters[0]).is_empty()
                && wrong(step, &ours, 0, clusters[1]).is_empty();
            if is_right && is_same(scenario, &theirs, &ours) || Instant::now() > end {
                return Ok([theirs, ours]);
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn picture(&self, cluster: &SchedulerCluster) -> Result<PodStatesByName> {
        let mut picture = PodStatesByName::new();
        let own = (String::new(), self.namespace.clone());
        let further = self.further.iter();
        let further = further.map(|name| (format!("{name}."), self.name_of(name)));
        for (before, namespace) in further.chain([own]) {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            let pods = cluster.ask("GET", &path, Value::Null).await?;
            for pod in pods["items"].as_array().context("no items")? {
                let name = pod["metadata"]["name"].as_str().context("no name")?;
                let seen = ObservedPodState::of(pod, &self.namespace);
                picture.insert(format!("{before}{name}"), seen);
            }
        }
        Ok(picture)
    }

    /// Deletes cluster-scoped objects, which would affect the next scenario.
    async fn clean_up(&self, cluster: &SchedulerCluster) -> Result<()> {
        let now = json!({"gracePeriodSeconds": 0});
        let further = self.further.iter().map(|name| self.name_of(name));
        for namespace in further.chain([self.namespace.clone()]) {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            cluster.ask("DELETE", &path, now.clone()).await?;
        }
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses?labelSelector=scenario";
        for path in ["/api/v1/nodes", classes, &self.budgets()] {
            cluster.ask("DELETE", path, json!({})).await?;
        }
        Ok(())
    }
}

/// Fills in defaults that scenarios omit. The grace period is 0, because no kubelet runs the pod.
fn complete_pod(pod: &ScenarioPod) -> Value {
    let devices = pod.requests.iter().filter(|(name, _)| name.contains('/'));
    let limits: Map<String, Value> = devices.map(|(k, v)| (k.clone(), v.clone())).collect();
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
    async fn ask(&self, method: &str, path: &str, body: Value) -> Result<Value> {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = RawRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            body: match body {
                Value::Null => bytes::Bytes::new(),
                body => body.to_string().into(),
            },
            ..RawRequest::default()
        };
        let reply = self.client.ask(&request).await?;
        let text = String::from_utf8_lossy(&reply.body);
        ensure!(reply.status.is_success(), "{method} {path}: {text}");
        Ok(serde_json::from_slice(&reply.body)?)
    }

    /// Creates the default service account, which pods need.
    async fn namespace(&self, name: &str, labels: &Map<String, Value>) -> Result<()> {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        self.ask("POST", "/api/v1/namespaces", namespace).await?;
        let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
        let account = json!({"metadata": {"name": "default"}});
        self.ask("POST", &accounts, account).await?;
        Ok(())
    }

    /// A new node is tainted not-ready until a controller removes the taint; here the taints are set immediately.
    async fn node(&self, node: &ScenarioNode) -> Result<()> {
        let mut labels = json!({"kubernetes.io/hostname": node.name});
        for (key, value) in &node.labels {
            labels[key] = value.clone();
        }
        let name = &node.name;
        let bare = json!({"metadata": {"name": name, "labels": labels}});
        self.ask("POST", "/api/v1/nodes", bare).await?;
        let mut capacity = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        for (resource, amount) in &node.capacity {
            capacity[resource] = amount.clone();
        }
        let ready = json!([{"type": "Ready", "status": "True", "reason": "Scenario"}]);
        let status = json!({"capacity": capacity, "allocatable": capacity, "conditions": ready});
        let path = format!("/api/v1/nodes/{name}");
        let status_path = format!("{path}/status");
        self.ask("PATCH", &status_path, json!({"status": status}))
            .await?;
        let spec = json!({"taints": node.taints, "unschedulable": node.unschedulable});
        self.ask("PATCH", &path, json!({"spec": spec})).await?;
        Ok(())
    }
}
