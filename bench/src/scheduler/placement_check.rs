//! Checks every hard constraint of every bound pod after a round: node capacity, required affinity and anti-affinity,
//! topology spread.
//!
//! Matching pods are counted once per term and domain, so that many pods with equal terms are checked quickly.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use rhumb_meta::labels::Selector;
use rhumb_meta::{LabelSelector, Quantity};
use serde::Deserialize;
use serde_json::Value;

use crate::client::ApiConnection;

type LabelMap = BTreeMap<String, String>;

#[derive(Deserialize)]
struct ObjectList<T> {
    items: Vec<T>,
}

#[derive(Clone, Default, Deserialize)]
struct ObjectMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    labels: LabelMap,
}

#[derive(Deserialize)]
struct Namespace {
    metadata: ObjectMetadata,
}

#[derive(Deserialize)]
struct Node {
    metadata: ObjectMetadata,
    status: NodeStatus,
}

#[derive(Deserialize)]
struct NodeStatus {
    allocatable: HashMap<String, Quantity>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: ObjectMetadata,
    spec: PodSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    node_name: String,
    /// Kept unparsed; parsed once for all pods with equal terms.
    #[serde(default)]
    affinity: Value,
    #[serde(default)]
    topology_spread_constraints: Value,
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    resources: ContainerResources,
}

#[derive(Default, Deserialize)]
struct ContainerResources {
    #[serde(default)]
    requests: HashMap<String, Quantity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AffinityTermFields {
    label_selector: Option<LabelSelector>,
    namespace_selector: Option<LabelSelector>,
    #[serde(default)]
    namespaces: Vec<String>,
    topology_key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpreadConstraintFields {
    max_skew: usize,
    topology_key: String,
    when_unsatisfiable: String,
    label_selector: Option<LabelSelector>,
}

/// Nodes, namespaces and bound pods of a cluster.
pub(super) struct ClusterSnapshot {
    namespaces: HashMap<String, LabelMap>,
    nodes: HashMap<String, Node>,
    pods: Vec<Pod>,
}

impl ClusterSnapshot {
    pub(super) async fn read(connection: &mut ApiConnection) -> Result<Self> {
        let namespaces: Vec<Namespace> = list(connection, "/api/v1/namespaces").await?;
        let nodes: Vec<Node> = list(connection, "/api/v1/nodes").await?;
        let pods: Vec<Pod> = list(connection, "/api/v1/pods").await?;
        Ok(Self::new(namespaces, nodes, pods))
    }

    fn new(namespaces: Vec<Namespace>, nodes: Vec<Node>, mut pods: Vec<Pod>) -> Self {
        pods.retain(|pod| !pod.spec.node_name.is_empty());
        let namespaces = namespaces.into_iter();
        let nodes = nodes.into_iter();
        Self {
            namespaces: namespaces
                .map(|it| (it.metadata.name, it.metadata.labels))
                .collect(),
            nodes: nodes.map(|it| (it.metadata.name.clone(), it)).collect(),
            pods,
        }
    }

    /// Descriptions of all broken constraints.
    pub(super) fn problems(&self) -> Result<Vec<String>> {
        let mut problems = self.overfull_nodes();
        problems.extend(self.broken_anti_affinity()?);
        problems.extend(self.broken_affinity()?);
        problems.extend(self.broken_spread()?);
        Ok(problems)
    }

    /// Topology domain of a pod: the value of its node's label.
    fn domain<'a>(&'a self, pod: &Pod, key: &str) -> Option<&'a str> {
        let node = self.nodes.get(&pod.spec.node_name)?;
        node.metadata.labels.get(key).map(String::as_str)
    }

    fn overfull_nodes(&self) -> Vec<String> {
        let mut used: HashMap<&str, [i64; 3]> = HashMap::new();
        for pod in &self.pods {
            let asked = |name: &str, amount: fn(&Quantity) -> i64| -> i64 {
                let containers = pod.spec.containers.iter();
                let amounts = containers.filter_map(|it| it.resources.requests.get(name));
                amounts.map(amount).sum()
            };
            let node = used.entry(&pod.spec.node_name).or_default();
            node[0] += asked("cpu", Quantity::milli_value);
            node[1] += asked("memory", Quantity::value);
            node[2] += 1;
        }
        let mut problems = Vec::new();
        for (name, used) in used {
            let Some(node) = self.nodes.get(name) else {
                problems.push(format!("pods are bound to {name}, which does not exist"));
                continue;
            };
            let room = |name: &str, amount: fn(&Quantity) -> i64| {
                node.status.allocatable.get(name).map_or(0, amount)
            };
            let room = [
                room("cpu", Quantity::milli_value),
                room("memory", Quantity::value),
                room("pods", Quantity::value),
            ];
            if used.iter().zip(&room).any(|(used, room)| used > room) {
                problems.push(format!(
                    "{name} has requests of {used:?}, allocatable {room:?}"
                ));
            }
        }
        problems
    }

    fn broken_anti_affinity(&self) -> Result<Vec<String>> {
        let mut counted: HashMap<String, AffinityTermPodCounts> = HashMap::new();
        let mut problems = Vec::new();
        for pod in &self.pods {
            for term in required(pod, "podAntiAffinity") {
                let counts = self.counts(&mut counted, std::slice::from_ref(term), pod)?;
                let own = usize::from(counts.matches(self, pod));
                for (key, domains) in &counts.domains {
                    let Some(domain) = self.domain(pod, key) else {
                        continue;
                    };
                    let others = domains.get(domain).map_or(0, |count| count - own);
                    if others > 0 {
                        let name = &pod.metadata.name;
                        problems.push(format!(
                            "{name} breaks anti-affinity with {others} pods in {domain}"
                        ));
                    }
                }
            }
        }
        Ok(problems)
    }

    fn broken_affinity(&self) -> Result<Vec<String>> {
        let mut counted: HashMap<String, AffinityTermPodCounts> = HashMap::new();
        let mut problems = Vec::new();
        for pod in &self.pods {
            let terms = required(pod, "podAffinity");
            if terms.is_empty() {
                continue;
            }
            let counts = self.counts(&mut counted, terms, pod)?;
            let own = usize::from(counts.matches(self, pod));
            // The first pod of a self-affine group has no matching pod; upstream allows that.
            if own == 1 && counts.total == 1 {
                continue;
            }
            for (key, domains) in &counts.domains {
                let domain = self.domain(pod, key).unwrap_or_default();
                if domains.get(domain).is_none_or(|count| count - own == 0) {
                    let name = &pod.metadata.name;
                    problems.push(format!("{name} has no affine pod in {key} {domain:?}"));
                }
            }
        }
        Ok(problems)
    }

    fn broken_spread(&self) -> Result<Vec<String>> {
        let mut looked_at: HashMap<String, ()> = HashMap::new();
        let mut problems = Vec::new();
        for pod in &self.pods {
            let constraints = pod.spec.topology_spread_constraints.as_array();
            for constraint in constraints.into_iter().flatten() {
                let namespace = &pod.metadata.namespace;
                if looked_at
                    .insert(format!("{namespace} {constraint}"), ())
                    .is_none()
                {
                    problems.extend(self.broken_constraint(namespace, constraint)?);
                }
            }
        }
        Ok(problems)
    }

    fn broken_constraint(&self, namespace: &str, constraint: &Value) -> Result<Option<String>> {
        let fields = SpreadConstraintFields::deserialize(constraint)?;
        if fields.when_unsatisfiable != "DoNotSchedule" {
            return Ok(None);
        }
        let key = &fields.topology_key;
        let selector = LabelSelector::to_selector(fields.label_selector.as_ref())?;
        let values = self.nodes.values();
        let values = values.filter_map(|node| node.metadata.labels.get(key));
        let mut domains: HashMap<&str, usize> = values.map(|value| (value.as_str(), 0)).collect();
        for pod in &self.pods {
            let of_it = pod.metadata.namespace == namespace;
            if of_it && selector.matches(&pod.metadata.labels) {
                let domain = self.domain(pod, key);
                *domains.entry(domain.unwrap_or_default()).or_default() += 1;
            }
        }
        let most = domains.values().max().copied().unwrap_or(0);
        let least = domains.values().min().copied().unwrap_or(0);
        let is_broken = most - least > fields.max_skew;
        Ok(is_broken.then(|| format!("{least} to {most} pods of {namespace} in each {key}")))
    }

    /// Counts of the pods that match all these terms of a pod.
    fn counts<'c>(
        &self,
        counted: &'c mut HashMap<String, AffinityTermPodCounts>,
        terms: &[Value],
        pod: &Pod,
    ) -> Result<&'c AffinityTermPodCounts> {
        // A term without namespaces and namespaceSelector applies to the pod's own namespace.
        let names_none = |term: &Value| {
            term.get("namespaces").is_none() && term.get("namespaceSelector").is_none()
        };
        let mut identity = Value::from(terms).to_string();
        if terms.iter().any(names_none) {
            identity += &pod.metadata.namespace;
        }
        if !counted.contains_key(&identity) {
            let counts = AffinityTermPodCounts::of(self, terms, &pod.metadata.namespace)?;
            counted.insert(identity.clone(), counts);
        }
        counted.get(&identity).context("just counted")
    }
}

fn required<'p>(pod: &'p Pod, kind: &str) -> &'p [Value] {
    let terms = &pod.spec.affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"];
    terms.as_array().map_or(&[], Vec::as_slice)
}

async fn list<T: for<'de> Deserialize<'de>>(
    connection: &mut ApiConnection,
    path: &str,
) -> Result<Vec<T>> {
    let bytes = connection.execute(Method::GET, path, Bytes::new()).await?;
    let list: ObjectList<T> =
        serde_json::from_slice(&bytes).context("failed to parse a list response")?;
    Ok(list.items)
}

/// Parsed affinity term: namespaces and pod selector.
struct AffinityTerm {
    labels: Selector,
    namespaces: Vec<String>,
    /// Namespaces selected by label, in addition to those by name.
    namespace_labels: Selector,
    topology_key: String,
}

impl AffinityTerm {
    fn read(term: &Value, own_namespace: &str) -> Result<Self> {
        let mut fields = AffinityTermFields::deserialize(term)?;
        if fields.namespaces.is_empty() && fields.namespace_selector.is_none() {
            fields.namespaces.push(own_namespace.to_owned());
        }
        Ok(Self {
            labels: LabelSelector::to_selector(fields.label_selector.as_ref())?,
            namespaces: fields.namespaces,
            namespace_labels: LabelSelector::to_selector(fields.namespace_selector.as_ref())?,
            topology_key: fields.topology_key,
        })
    }

    fn matches(&self, cluster: &ClusterSnapshot, pod: &Pod) -> bool {
        let namespace = &pod.metadata.namespace;
        let labels = cluster.namespaces.get(namespace);
        let in_namespace = self.namespaces.contains(namespace)
            || labels.is_some_and(|labels| self.namespace_labels.matches(labels));
        in_namespace && self.labels.matches(&pod.metadata.labels)
    }
}

/// Number of pods that match a set of terms: in total, and per domain of each topology key.
struct AffinityTermPodCounts {
    terms: Vec<AffinityTerm>,
    total: usize,
    domains: HashMap<String, HashMap<String, usize>>,
}

impl AffinityTermPodCounts {
    fn of(cluster: &ClusterSnapshot, terms: &[Value], own_namespace: &str) -> Result<Self> {
        let terms = terms
            .iter()
            .map(|term| AffinityTerm::read(term, own_namespace));
        let terms: Vec<AffinityTerm> = terms.collect::<Result<_>>()?;
        let keys = terms.iter().map(|term| term.topology_key.clone());
        let mut counts = Self {
            domains: keys.map(|key| (key, HashMap::new())).collect(),
            terms,
            total: 0,
        };
        for pod in &cluster.pods {
            if !counts.matches(cluster, pod) {
                continue;
            }
            counts.total += 1;
            for (key, domains) in &mut counts.domains {
                if let Some(domain) = cluster.domain(pod, key) {
                    *domains.entry(domain.to_owned()).or_default() += 1;
                }
            }
        }
        Ok(counts)
    }

    fn matches(&self, cluster: &ClusterSnapshot, pod: &Pod) -> bool {
        self.terms.iter().all(|term| term.matches(cluster, pod))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(pods: &[Value]) -> ClusterSnapshot {
        let namespaces = json!([
            {"metadata": {"name": "a", "labels": {"team": "x"}}},
            {"metadata": {"name": "b", "labels": {"team": "x"}}},
            {"metadata": {"name": "c"}},
        ]);
        let node = |name: &str, zone: &str| {
            let labels = json!({"kubernetes.io/hostname": name, "zone": zone});
            let room = json!({"cpu": "1", "memory": "1Gi", "pods": "3"});
            json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room}})
        };
        let nodes = json!([node("n1", "z1"), node("n2", "z1"), node("n3", "z2")]);
        ClusterSnapshot::new(
            serde_json::from_value(namespaces).expect("namespaces"),
            serde_json::from_value(nodes).expect("nodes"),
            serde_json::from_value(Value::from(pods)).expect("pods"),
        )
    }

    /// Pod with the label `color: green`.
    fn pod(namespace: &str, node: &str, spec: &Value) -> Value {
        let mut spec = spec.clone();
        spec["nodeName"] = node.into();
        spec["containers"] = json!([{"resources": {"requests": {"cpu": "400m"}}}]);
        let labels = json!({"color": "green"});
        let metadata =
            json!({"name": format!("on-{node}"), "namespace": namespace, "labels": labels});
        json!({"metadata": metadata, "spec": spec})
    }

    fn term(kind: &str, key: &str, more: &Value) -> Value {
        let mut term = more.clone();
        term["topologyKey"] = key.into();
        term["labelSelector"] = json!({"matchLabels": {"color": "green"}});
        json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    }

    fn check(pods: &[Value], expected: &[&str]) {
        let problems = cluster(pods).problems().expect("problems");
        assert_eq!(problems, expected, "{pods:?}");
    }

    #[test]
    fn overcommitted_nodes_are_detected() {
        let free = json!({});
        check(&[pod("a", "n1", &free), pod("b", "n1", &free)], &[]);
        let three = [
            pod("a", "n1", &free),
            pod("b", "n1", &free),
            pod("c", "n1", &free),
        ];
        check(
            &three,
            &["n1 has requests of [1200, 0, 3], allocatable [1000, 1073741824, 3]"],
        );
        check(
            &[pod("a", "n9", &free)],
            &["pods are bound to n9, which does not exist"],
        );
        check(&[pod("a", "", &free)], &[]);
    }

    #[test]
    fn anti_affinity_violations_are_detected() {
        let (free, hostname) = (json!({}), "kubernetes.io/hostname");
        let own = term("podAntiAffinity", hostname, &json!({}));
        check(&[pod("a", "n1", &own), pod("b", "n1", &own)], &[]);
        let against = ["on-n1 breaks anti-affinity with 1 pods in n1"];
        check(&[pod("a", "n1", &own), pod("a", "n1", &free)], &against);
        let team = json!({"namespaceSelector": {"matchLabels": {"team": "x"}}});
        let team = term("podAntiAffinity", hostname, &team);
        check(&[pod("a", "n1", &team), pod("b", "n1", &free)], &against);
        check(&[pod("a", "n1", &team), pod("c", "n1", &free)], &[]);
        let named = term("podAntiAffinity", "zone", &json!({"namespaces": ["c"]}));
        let pods = [pod("a", "n1", &named), pod("c", "n2", &free)];
        check(&pods, &["on-n1 breaks anti-affinity with 1 pods in z1"]);
        check(&[pod("a", "n1", &named), pod("c", "n3", &free)], &[]);
    }

    #[test]
    fn affinity_violations_are_detected() {
        let free = json!({});
        let own = term("podAffinity", "zone", &json!({}));
        check(&[pod("a", "n1", &own)], &[]);
        check(&[pod("a", "n1", &own), pod("a", "n2", &own)], &[]);
        let alone = [r#"on-n1 has no affine pod in zone "z1""#];
        check(&[pod("a", "n1", &own), pod("a", "n3", &free)], &alone);
        check(&[pod("a", "n1", &own), pod("b", "n3", &free)], &[]);
    }

    #[test]
    fn spread_violations_are_detected() {
        let spread = json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"color": "green"}},
        }]});
        check(&[pod("a", "n1", &spread)], &[]);
        let pods = [pod("a", "n1", &spread), pod("a", "n2", &spread)];
        check(&pods, &["0 to 2 pods of a in each zone"]);
        check(&[pod("a", "n1", &spread), pod("b", "n2", &spread)], &[]);
    }
}
