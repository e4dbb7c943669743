//! Pods that scheduling cannot tell apart ([`Pod::is_alike`]) are found together.

use std::hash::{BuildHasher, Hash, Hasher};

use crate::model::Pod;

/// The same for all that are alike, and different for others wherever many pods can differ in nothing else.
pub(super) fn hash(hasher: &impl BuildHasher, pod: &Pod) -> u64 {
    let mut hasher = hasher.build_hasher();
    let into = &mut hasher;
    pod.key.namespace.hash(into);
    pod.labels.hash(into);
    pod.scheduler_name.hash(into);
    pod.nominated_node_name.hash(into);
    pod.scheduling_gates.hash(into);
    pod.priority.hash(into);
    pod.requests.milli_cpu.hash(into);
    pod.requests.memory.hash(into);
    pod.requests.ephemeral_storage.hash(into);
    pod.requests.others.hash(into);
    pod.ports.hash(into);
    pod.images.hash(into);
    pod.nodes.hash(into);
    pod.preferred_nodes.hash(into);
    pod.tolerations.hash(into);
    for affinity in [&pod.affinity, &pod.anti_affinity] {
        affinity.required.hash(into);
        affinity.preferred.len().hash(into);
        for preferred in &affinity.preferred {
            preferred.term.hash(into);
            preferred.weight.hash(into);
        }
    }
    pod.spread.len().hash(into);
    for constraint in &pod.spread {
        constraint.topology_key.hash(into);
        constraint.selector.hash(into);
        constraint.max_skew.hash(into);
    }
    pod.controller.hash(into);
    pod.claims.hash(into);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::collections::hash_map::RandomState;

    use serde_json::{Value, json};

    use super::*;
    use crate::plugins::testing;

    fn affinity(kind: &str, how: &str, term: &Value) -> Value {
        json!({"affinity": {kind: {how: [term]}}})
    }

    /// Pods that differ in one thing each.
    fn different() -> Vec<Pod> {
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
        let claim = |name: &str| json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]});
        let near = |app: &str| json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}});
        let weighted = |weight: i32| json!({"weight": weight, "podAffinityTerm": near("a")});
        let node = |name: &str| json!({"weight": 1, "preference": {"matchExpressions": [{"key": name, "operator": "Exists"}]}});
        let container = |parts: Value| {
            let mut container = json!({"name": "c", "image": "i"});
            for (key, value) in parts.as_object().into_iter().flatten() {
                container[key] = value.clone();
            }
            json!({"containers": [container]})
        };
        let asks = |name: &str| container(json!({"resources": {"requests": {name: "1"}}}));
        let spread = |skew: i32| {
            json!({"topologySpreadConstraints": [{
                "maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }]})
        };
        let specs = [
            json!({}),
            claim("one"),
            claim("two"),
            json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
            json!({"tolerations": [{"key": "b", "operator": "Exists"}]}),
            container(json!({"ports": [{"containerPort": 1, "hostPort": 1}]})),
            container(json!({"ports": [{"containerPort": 1, "hostPort": 2}]})),
            container(json!({"image": "j"})),
            asks("cpu"),
            asks("memory"),
            asks("ephemeral-storage"),
            asks("example.com/device"),
            affinity("podAffinity", REQUIRED, &near("a")),
            affinity("podAffinity", REQUIRED, &near("b")),
            affinity("podAntiAffinity", REQUIRED, &near("a")),
            affinity("podAntiAffinity", PREFERRED, &weighted(1)),
            affinity("podAntiAffinity", PREFERRED, &weighted(2)),
            affinity("nodeAffinity", PREFERRED, &node("a")),
            affinity("nodeAffinity", PREFERRED, &node("b")),
            json!({"nodeSelector": {"a": "b"}}),
            spread(1),
            spread(2),
            json!({"schedulerName": "other"}),
            json!({"priority": 1}),
            json!({"schedulingGates": [{"name": "g"}]}),
        ];
        specs
            .into_iter()
            .map(|spec| testing::pod("p", json!({}), spec))
            .collect()
    }

    /// If not, there would be classes by the thousand for one hash, and each pod would be compared with all of them.
    #[test]
    fn pods_that_are_not_alike_have_other_hashes() {
        let hasher = RandomState::new();
        let mut known: HashMap<u64, Pod> = HashMap::new();
        for pod in different() {
            assert_eq!(hash(&hasher, &pod), hash(&hasher, &pod.clone()));
            assert!(pod.is_alike(&pod.clone()));
            if let Some(other) = known.insert(hash(&hasher, &pod), pod.clone()) {
                panic!("the same hash: {pod:?} and {other:?}");
            }
        }
    }
}
