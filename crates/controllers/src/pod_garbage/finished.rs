//! Finished pods, in the order in which they are deleted when there are more than the limit.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::partial_objects::{Pod, PodKey};

#[derive(Debug)]
pub(super) struct FinishedPods {
    /// 0 means no limit.
    max: usize,
    pods: BTreeSet<FinishedPod>,
    by_key: HashMap<PodKey, FinishedPod>,
}

/// Ordered by its fields: pods evicted by the kubelet first, then the oldest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FinishedPod {
    is_not_evicted: bool,
    created: Option<Time>,
    name: String,
    namespace: String,
    pub(super) uid: Option<String>,
}

impl FinishedPod {
    fn new(pod: &Pod) -> FinishedPod {
        let is_evicted = pod.status.phase == "Failed" && pod.status.reason == "Evicted";
        let PodKey { namespace, name } = pod.key();
        FinishedPod {
            is_not_evicted: !is_evicted,
            created: pod.metadata.creation_timestamp.clone(),
            name,
            namespace,
            uid: pod.metadata.uid.clone(),
        }
    }

    pub(super) fn key(&self) -> PodKey {
        PodKey {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl FinishedPods {
    pub(super) fn new(max: usize) -> FinishedPods {
        FinishedPods {
            max,
            pods: BTreeSet::new(),
            by_key: HashMap::new(),
        }
    }

    pub(super) fn add(&mut self, pod: &Pod) {
        // Also for a pod that is not finished: one of the same name may have been deleted while the watch was interrupted.
        let key = pod.key();
        self.remove(&key);
        if self.max > 0 && is_finished(pod) {
            let finished = FinishedPod::new(pod);
            self.pods.insert(finished.clone());
            self.by_key.insert(key, finished);
        }
    }

    pub(super) fn remove(&mut self, key: &PodKey) {
        if let Some(pod) = self.by_key.remove(key) {
            self.pods.remove(&pod);
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&PodKey) -> bool) {
        let gone = self.by_key.keys().filter(|key| !keep(key));
        for key in gone.cloned().collect::<Vec<_>>() {
            self.remove(&key);
        }
    }

    /// The pods beyond the limit.
    pub(super) fn surplus(&self) -> impl Iterator<Item = &FinishedPod> {
        let count = match self.max {
            0 => 0,
            max => self.pods.len().saturating_sub(max),
        };
        self.pods.iter().take(count)
    }
}

pub(super) fn is_finished(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, minute: u32, phase: &str, reason: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "namespace": "ns",
                "creationTimestamp": format!("2030-01-01T00:{minute:02}:00Z"),
            },
            "status": {"phase": phase, "reason": reason},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_that_was_recreated_unseen_is_no_longer_finished() {
        let mut finished = FinishedPods::new(1);
        for name in ["a", "b"] {
            finished.add(&pod(name, 1, "Succeeded", ""));
        }
        assert_eq!(finished.surplus().count(), 1);
        finished.add(&pod("a", 2, "Running", ""));
        assert_eq!(finished.surplus().count(), 0);
    }

    #[test]
    fn evicted_pods_are_deleted_first_and_then_the_oldest() {
        let mut finished = FinishedPods::new(2);
        let mut check = |pod: Pod, expect: &[&str]| {
            finished.add(&pod);
            let names: Vec<&str> = finished.surplus().map(|own| own.name.as_str()).collect();
            assert_eq!(names, expect);
        };
        check(pod("b", 1, "Succeeded", ""), &[]);
        check(pod("runs", 0, "Running", ""), &[]);
        check(pod("waits", 0, "Pending", ""), &[]);
        check(pod("c", 2, "Failed", "Error"), &[]);
        check(pod("c", 2, "Failed", "Error"), &[]);
        check(pod("d", 3, "Failed", ""), &["b"]);
        check(pod("a", 1, "Succeeded", ""), &["a", "b"]);
        check(pod("e", 9, "Failed", "Evicted"), &["e", "a", "b"]);
        check(pod("d", 3, "Failed", "Evicted"), &["d", "e", "a"]);
        finished.remove(&pod("d", 3, "Failed", "").key());
        finished.retain(|key| key.name != "e");
        assert_eq!(finished.surplus().count(), 1);
        assert_eq!(FinishedPods::new(0).surplus().count(), 0);
    }
}
