//! The hash by which equivalent pods ([`Pod::is_equivalent`]) are found.

use std::hash::{BuildHasher, Hash, Hasher};

use crate::model::Pod;

/// Equal for equivalent pods. Covers every field in which many pods may differ while being equal otherwise.
pub(super) fn equivalence_hash(hasher: &impl BuildHasher, pod: &Pod) -> u64 {
    let mut hasher = hasher.build_hasher();
    let state = &mut hasher;
    pod.key.namespace.hash(state);
    pod.labels.hash(state);
    pod.scheduler_name.hash(state);
    pod.nominated_node_name.hash(state);
    pod.scheduling_gates.hash(state);
    pod.priority.hash(state);
    pod.requests.milli_cpu.hash(state);
    pod.requests.memory.hash(state);
    pod.requests.ephemeral_storage.hash(state);
    pod.requests.scalars.hash(state);
    pod.ports.hash(state);
    pod.images.hash(state);
    pod.node_selector.hash(state);
    pod.preferred_nodes.hash(state);
    pod.tolerations.hash(state);
    for affinity in [&pod.affinity, &pod.anti_affinity] {
        affinity.required.hash(state);
        affinity.preferred.len().hash(state);
        for preferred in &affinity.preferred {
            preferred.term.hash(state);
            preferred.weight.hash(state);
        }
    }
    pod.spread_constraints.len().hash(state);
    for constraint in &pod.spread_constraints {
        constraint.topology_key.hash(state);
        constraint.selector.hash(state);
        constraint.max_skew.hash(state);
    }
    pod.controller.hash(state);
    pod.volume_claims.hash(state);
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

    /// Pods that differ in one field each.
    fn distinct_pods() -> Vec<Pod> {
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

    /// Otherwise thousands of classes could share one hash, and each pod would be compared with all of them.
    #[test]
    fn pods_that_are_not_equivalent_have_different_hashes() {
        let hasher = RandomState::new();
        let mut known: HashMap<u64, Pod> = HashMap::new();
        for pod in distinct_pods() {
            assert_eq!(
                equivalence_hash(&hasher, &pod),
                equivalence_hash(&hasher, &pod.clone())
            );
            assert!(pod.is_equivalent(&pod.clone()));
            if let Some(other) = known.insert(equivalence_hash(&hasher, &pod), pod.clone()) {
                panic!("hash collision: {pod:?} and {other:?}");
            }
        }
    }
}
