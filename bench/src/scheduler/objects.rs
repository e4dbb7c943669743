//! Manifests of the nodes, namespaces and pods of a case, with the paths they are created at.

use bytes::Bytes;
use serde_json::{Value, json};

use super::workload::{PodTemplate, SchedulerWorkload, WorkloadCase};

/// Pod label with the pod's role in the case.
pub(super) const ROLE: &str = "bench.rhumb/role";
pub(super) const MEASURED: &str = "measured";

const NODES: &str = "/api/v1/nodes";
const NAMESPACES: &str = "/api/v1/namespaces";
/// Namespace of the measured pods, unless they share those of the existing pods.
const MEASURED_NAMESPACE: &str = "measured";
/// Namespace of warm-up and churn pods.
pub(super) const OTHER_NAMESPACE: &str = "others";

/// Collection path and body of a create request.
pub(super) type CreateRequest = (String, Bytes);

fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

fn existing_namespace(case: &WorkloadCase, pod: usize) -> String {
    format!("existing-{}", pod % case.namespaces)
}

pub(super) fn namespaces(workload: &SchedulerWorkload, case: &WorkloadCase) -> Vec<CreateRequest> {
    let existing = (0..case.namespaces).map(|number| existing_namespace(case, number));
    let others = [MEASURED_NAMESPACE, OTHER_NAMESPACE].map(str::to_owned);
    let names = existing.chain(others);
    names
        .map(|name| {
            let labels = &workload.namespace_labels;
            let namespace = json!({"metadata": {"name": name, "labels": labels}});
            (NAMESPACES.to_owned(), namespace.to_string().into())
        })
        .collect()
}

pub(super) fn priority_classes(workload: &SchedulerWorkload) -> Vec<CreateRequest> {
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let classes = workload.priority_classes.iter();
    classes
        .map(|(name, value)| {
            let class = json!({"metadata": {"name": name}, "value": value});
            (path.to_owned(), class.to_string().into())
        })
        .collect()
}

/// Ready node without heartbeats.
pub(super) fn node(workload: &SchedulerWorkload, number: usize) -> CreateRequest {
    let name = node_name(number);
    let mut labels = json!({"kubernetes.io/hostname": name});
    if !workload.zones.is_empty() {
        let zone = &workload.zones[number % workload.zones.len()];
        labels["topology.kubernetes.io/zone"] = zone.as_str().into();
    }
    let amounts = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    let node = json!({
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    (NODES.to_owned(), node.to_string().into())
}

/// Existing pods are assigned to nodes round-robin, which satisfies the constraints of all workloads.
pub(super) fn existing_pod(case: &WorkloadCase, number: usize) -> CreateRequest {
    let mut pod = pod(
        &case.existing_pod,
        &format!("existing-{number:06}"),
        "existing",
    );
    pod["spec"]["nodeName"] = node_name(number % case.nodes).into();
    at(&existing_namespace(case, number), &pod)
}

pub(super) fn measured_pod(case: &WorkloadCase, number: usize) -> CreateRequest {
    let namespace = match case.together {
        true => existing_namespace(case, number),
        false => MEASURED_NAMESPACE.to_owned(),
    };
    let pod = pod(&case.pod, &measured_name(number), MEASURED);
    at(&namespace, &pod)
}

fn measured_name(number: usize) -> String {
    format!("measured-{number:06}")
}

/// Number of the measured pod with this name.
pub(super) fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix("measured-")?.parse().ok()
}

/// Warm-up or churn pod.
pub(super) fn other_pod(template: &PodTemplate, name: &str) -> CreateRequest {
    at(OTHER_NAMESPACE, &pod(template, name, "other"))
}

fn at(namespace: &str, pod: &Value) -> CreateRequest {
    let path = format!("{NAMESPACES}/{namespace}/pods");
    (path, pod.to_string().into())
}

fn pod(template: &PodTemplate, name: &str, role: &str) -> Value {
    let mut labels = json!(template.labels);
    labels[ROLE] = role.into();
    let amounts = json!({"cpu": template.cpu, "memory": template.memory});
    let mut spec = json!(template.spec);
    spec["containers"] = json!([{
        "name": "pause",
        "image": "pause:3.10.1",
        "ports": [{"containerPort": 80}],
        "resources": {"requests": amounts, "limits": amounts},
    }]);
    json!({"metadata": {"name": name, "labels": labels}, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_pods_are_identified_by_name() {
        assert_eq!(number_of(&measured_name(0)), Some(0));
        assert_eq!(number_of(&measured_name(1_234_567)), Some(1_234_567));
        assert_eq!(number_of("existing-000001"), None);
        assert_eq!(number_of("measured-x"), None);
    }
}
