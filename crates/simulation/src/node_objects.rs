//! API objects of simulated nodes: Node, its status and conditions, Lease. No I/O.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::names::SIMULATED;
use crate::node_pools::NodeIdentity;
use crate::node_template::{DEFAULT_CAPACITY, NodeTemplate, YamlQuantity};
use crate::partial_objects::{self, Condition};
use crate::pods::status::time;

pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: i64 = 40;
const KUBELET_PORT: u16 = 10250;
const REGION: &str = "simulated";

/// Type, status, reason and message of the conditions of a healthy kubelet.
const HEALTHY_CONDITIONS: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    (
        "Ready",
        "True",
        "KubeletReady",
        "the node is simulated, and runs nothing",
    ),
];

/// The Node object to register.
pub(crate) fn object(identity: &NodeIdentity, template: &NodeTemplate, now: Timestamp) -> Value {
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": identity.name,
            "labels": labels(identity, template),
            "annotations": template.metadata.annotations,
        },
        "spec": {
            "podCIDR": identity.pod_cidr(),
            "podCIDRs": [identity.pod_cidr()],
            "providerID": format!("simulated://{}", identity.name),
            "taints": template.spec.taints,
        },
        "status": status(identity, template, None, now),
    });
    if template.spec.unschedulable {
        node["spec"]["unschedulable"] = json!(true);
    }
    node
}

/// Patch, besides the status, for a node that exists from an earlier run; `None` if it is up to date. Fields that
/// others may have changed, such as taints, are kept.
pub(crate) fn adoption(
    identity: &NodeIdentity,
    template: &NodeTemplate,
    node: &partial_objects::Node,
) -> Option<Value> {
    let labels = labels(identity, template);
    let annotations = &template.metadata.annotations;
    let has = |own: &Option<BTreeMap<String, String>>, wanted: &BTreeMap<String, String>| {
        let is_there = |(key, value): (&String, &String)| {
            own.as_ref().and_then(|own| own.get(key)) == Some(value)
        };
        wanted.iter().all(is_there)
    };
    let metadata = &node.metadata;
    let has_network = !node.spec.pod_cidr.is_empty();
    if has_network && has(&metadata.labels, &labels) && has(&metadata.annotations, annotations) {
        return None;
    }
    let mut patch = json!({"metadata": {
        "uid": metadata.uid,
        "labels": labels,
        "annotations": annotations,
    }});
    if !has_network {
        patch["spec"] = json!({"podCIDR": identity.pod_cidr(), "podCIDRs": [identity.pod_cidr()]});
    }
    Some(patch)
}

fn labels(identity: &NodeIdentity, template: &NodeTemplate) -> BTreeMap<String, String> {
    let info = &template.status.node_info;
    let (arch, os) = (
        or(&info.architecture, "amd64"),
        or(&info.operating_system, "linux"),
    );
    let own = [
        ("kubernetes.io/arch", arch),
        ("kubernetes.io/os", os),
        ("topology.kubernetes.io/region", REGION),
        ("topology.kubernetes.io/zone", identity.zone()),
    ];
    // A template may override these labels, but not the hostname and the simulation label.
    let mut labels: BTreeMap<String, String> = own
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    labels.extend(template.metadata.labels.clone());
    labels.insert("kubernetes.io/hostname".to_owned(), identity.name.clone());
    labels.insert(SIMULATED.to_owned(), "true".to_owned());
    labels
}

/// The whole status as a merge patch: resources that the node no longer has are set to null.
pub(crate) fn status(
    identity: &NodeIdentity,
    template: &NodeTemplate,
    before: Option<&partial_objects::Node>,
    now: Timestamp,
) -> Value {
    let info = &template.status.node_info;
    let known = before.map(|node| &node.status);
    let none = Vec::new();
    let conditions = known.map_or(&none, |status| &status.conditions);
    let capacity = amounts(&template.status.capacity, &[]);
    let allocatable = amounts(&template.status.capacity, &[&template.status.allocatable]);
    let merged = |wanted: Map<String, Value>, known: Option<&BTreeMap<String, _>>| {
        let gone = known.into_iter().flatten().map(|(name, _)| name);
        let gone = gone.filter(|name| !wanted.contains_key(*name));
        let gone: Vec<String> = gone.cloned().collect();
        let mut all = wanted;
        all.extend(gone.into_iter().map(|name| (name, Value::Null)));
        all
    };
    json!({
        "capacity": merged(capacity, known.map(|status| &status.capacity)),
        "allocatable": merged(allocatable, known.map(|status| &status.allocatable)),
        "conditions": self::conditions(&wrong_conditions(conditions), now),
        "addresses": [
            {"type": "InternalIP", "address": identity.address()},
            {"type": "Hostname", "address": identity.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
        "nodeInfo": {
            "machineID": identity.name,
            "systemUUID": identity.name,
            // No kernel is simulated; an empty boot id matches any agent report.
            "bootID": "",
            "kernelVersion": or(&info.kernel_version, "simulated"),
            "osImage": or(&info.os_image, "simulated by rhumb"),
            "containerRuntimeVersion": or(&info.container_runtime_version, "simulated://1.0.0"),
            "kubeletVersion": or(&info.kubelet_version, "v1.36.0+simulated"),
            "kubeProxyVersion": "",
            "operatingSystem": or(&info.operating_system, "linux"),
            "architecture": or(&info.architecture, "amd64"),
        },
    })
}

fn amounts(
    capacity: &BTreeMap<String, YamlQuantity>,
    over: &[&BTreeMap<String, YamlQuantity>],
) -> Map<String, Value> {
    let own = DEFAULT_CAPACITY.into_iter();
    let mut all: Map<String, Value> = own
        .map(|(name, amount)| (name.to_owned(), json!(amount)))
        .collect();
    for said in [&[capacity], over].concat() {
        let said = said.iter();
        all.extend(said.map(|(name, amount)| (name.clone(), json!(amount.text()))));
    }
    all
}

fn or<'a>(said: &'a str, default: &'a str) -> &'a str {
    if said.is_empty() { default } else { said }
}

/// Types of the conditions that differ from the healthy ones: another controller changed them, or the node has not
/// reported yet.
pub(crate) fn wrong_conditions(known: &[Condition]) -> Vec<&'static str> {
    let is_right = |type_: &str, status: &str| {
        let mut known = known.iter();
        known.any(|own| own.type_ == type_ && own.status == status)
    };
    let all = HEALTHY_CONDITIONS.into_iter();
    let wrong = all.filter(|(type_, status, ..)| !is_right(type_, status));
    wrong.map(|(type_, ..)| type_).collect()
}

/// Conditions of a periodic status report; those that were wrong get a new transition time.
pub(crate) fn conditions(wrong: &[&str], now: Timestamp) -> Vec<Value> {
    let all = HEALTHY_CONDITIONS.into_iter();
    all.map(|(type_, status, reason, message)| {
        let mut condition = json!({
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": time(now),
        });
        if wrong.contains(&type_) {
            condition["lastTransitionTime"] = json!(time(now));
        }
        condition
    })
    .collect()
}

pub(crate) fn lease(node: &str, uid: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}],
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": MicroTime(now),
        },
    })
}

/// Patch that renews a lease. With `uid`, it also repairs a lease of an earlier node of the same name.
pub(crate) fn renewal(node: &str, uid: Option<&str>, now: Timestamp) -> Value {
    match uid {
        None => json!({"spec": {"renewTime": MicroTime(now)}}),
        Some(uid) => {
            let mut whole = lease(node, uid, now);
            if let Some(metadata) = whole["metadata"].as_object_mut() {
                metadata.remove("name");
                metadata.remove("namespace");
            }
            whole
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_pools::NodePools;

    fn identity(template: &str) -> (NodePools, NodeIdentity) {
        let text = format!("apiVersion: v1\nkind: Node\n{template}");
        let node_pools = NodePools::from_template(&text, Some(2)).expect("node pools");
        let identity = node_pools.places().remove(1);
        (node_pools, identity)
    }

    #[test]
    fn node_follows_its_template_and_is_labelled_simulated() {
        let (node_pools, identity) = identity(
            "metadata: {name: gpu, labels: {simulation.rhumb/simulated: 'no', topology.kubernetes.io/zone: z, a: b}}
spec: {taints: [{key: gpu, effect: NoSchedule}], unschedulable: true}
status:
  capacity: {cpu: 8, nvidia.com/gpu: '4'}
  allocatable: {cpu: 7500m}
  nodeInfo: {architecture: arm64}
",
        );
        let node = object(
            &identity,
            node_pools.template(&identity),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(node["metadata"]["name"], "gpu-00002");
        let labels = &node["metadata"]["labels"];
        assert_eq!(labels[SIMULATED], "true");
        assert_eq!(labels["topology.kubernetes.io/zone"], "z");
        assert_eq!(labels["kubernetes.io/arch"], "arm64");
        assert_eq!(labels["kubernetes.io/hostname"], "gpu-00002");
        assert_eq!(
            node["spec"]["taints"],
            json!([{"key": "gpu", "effect": "NoSchedule"}])
        );
        assert_eq!(node["spec"]["unschedulable"], true);
        let status = &node["status"];
        let gpu = "nvidia.com/gpu";
        assert_eq!(
            status["capacity"],
            json!({"cpu": "8", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110", gpu: "4"})
        );
        assert_eq!(status["allocatable"]["cpu"], "7500m");
        assert_eq!(status["allocatable"][gpu], "4");
        assert_eq!(status["nodeInfo"]["architecture"], "arm64");
    }

    #[test]
    fn node_of_an_earlier_run_is_updated() {
        let (node_pools, identity) = identity("");
        let template = node_pools.template(&identity);
        let mut before: partial_objects::Node = serde_json::from_value(json!({
            "metadata": {"uid": "u", "labels": {SIMULATED: "true"}},
            "status": {
                "capacity": {"cpu": "1", "example.com/old": "1"},
                "conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "PIDPressure", "status": "False"}],
            },
        }))
        .expect("a node");
        let status = status(&identity, template, Some(&before), Timestamp::UNIX_EPOCH);
        assert_eq!(status["capacity"]["cpu"], "32");
        assert_eq!(status["capacity"]["example.com/old"], Value::Null);
        let since = |type_: &str| {
            let conditions = status["conditions"].as_array().expect("conditions");
            let mut conditions = conditions.iter();
            let own = conditions.find(|own| own["type"] == type_);
            own.expect("a condition")
                .get("lastTransitionTime")
                .is_some()
        };
        assert!(since("Ready"));
        assert!(!since("PIDPressure"));
        let patch = adoption(&identity, template, &before).expect("a patch");
        assert_eq!(patch["spec"]["podCIDR"], "10.16.4.0/22");
        before.metadata.labels = Some(labels(&identity, template));
        before.spec.pod_cidr = "10.16.4.0/22".to_owned();
        assert_eq!(adoption(&identity, template, &before), None);
    }
}
