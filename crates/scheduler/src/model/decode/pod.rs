//! Decodes pods.

use std::sync::Arc;

use rhumb_api::partial_decode::{BorrowedStr, ResourceList, or_default};
use rhumb_api::pods::partial_pod::{PartialPod, PodResourcesOptions};
use rhumb_meta::Timestamp;
use rhumb_meta::labels::Selector;
use serde::Deserialize;

use super::affinity::{WireAffinity, WireTopologySpreadConstraint};
use super::common::{WireObjectMeta, WireToleration};
use crate::model::pod::{ControllerRef, UnscheduledCondition};
use crate::model::{HostPort, NamespacedName, NodeSelector, Pod, PreemptionPolicy, Resources};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WirePod<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: WireObjectMeta<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: WirePodSpec<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: WirePodStatus<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WirePodSpec<'a> {
    #[serde(borrow)]
    node_name: BorrowedStr<'a>,
    #[serde(borrow)]
    scheduler_name: BorrowedStr<'a>,
    priority: Option<i32>,
    #[serde(borrow)]
    preemption_policy: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    scheduling_gates: Vec<WireNamedEntry<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    containers: Vec<WireContainer<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    init_containers: Vec<WireContainer<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    node_selector: std::collections::BTreeMap<BorrowedStr<'a>, BorrowedStr<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    affinity: WireAffinity<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    tolerations: Vec<WireToleration<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    topology_spread_constraints: Vec<WireTopologySpreadConstraint<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    volumes: Vec<WireVolume<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    resource_claims: Vec<WireNamedEntry<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireNamedEntry<'a> {
    #[serde(borrow)]
    name: BorrowedStr<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireContainer<'a> {
    #[serde(borrow)]
    image: BorrowedStr<'a>,
    #[serde(borrow)]
    restart_policy: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    ports: Vec<WireContainerPort<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireContainerPort<'a> {
    host_port: i32,
    #[serde(rename = "hostIP", borrow)]
    host_ip: BorrowedStr<'a>,
    #[serde(borrow)]
    protocol: BorrowedStr<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireVolume<'a> {
    #[serde(borrow)]
    name: BorrowedStr<'a>,
    #[serde(borrow)]
    persistent_volume_claim: Option<WirePersistentVolumeClaimSource<'a>>,
    ephemeral: Option<serde::de::IgnoredAny>,
    #[serde(borrow)]
    image: Option<WireImageVolumeSource<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireImageVolumeSource<'a> {
    #[serde(borrow)]
    reference: BorrowedStr<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WirePersistentVolumeClaimSource<'a> {
    #[serde(borrow)]
    claim_name: BorrowedStr<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WirePodStatus<'a> {
    #[serde(borrow)]
    nominated_node_name: BorrowedStr<'a>,
    #[serde(borrow)]
    start_time: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    conditions: Vec<WirePodCondition<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WirePodCondition<'a> {
    #[serde(rename = "type", borrow)]
    kind: BorrowedStr<'a>,
    #[serde(borrow)]
    status: BorrowedStr<'a>,
    #[serde(borrow)]
    reason: BorrowedStr<'a>,
    #[serde(borrow)]
    message: BorrowedStr<'a>,
}

impl Pod {
    /// Decodes a pod from JSON.
    pub fn from_json(json: &[u8]) -> Result<Pod, serde_json::Error> {
        let wire: WirePod<'_> = serde_json::from_slice(json)?;
        let outline = PartialPod::from_json(json)?;
        let requests = decode_resources(&outline.requests(PodResourcesOptions::SCHEDULING));
        let assumed = outline.requests(PodResourcesOptions::SCHEDULING_SCORE);
        let WirePod {
            metadata,
            spec,
            status,
        } = &wire;
        let labels = metadata.labels();
        Ok(Pod {
            uid: (*metadata.uid).into(),
            resource_version: (*metadata.resource_version).into(),
            generation: metadata.generation,
            created: metadata.creation_timestamp.parse().ok(),
            started: status.start_time.parse::<Timestamp>().ok(),
            is_terminating: !metadata.deletion_timestamp.is_empty(),
            is_preempted: !metadata.deletion_timestamp.is_empty() && status.is_preemption_victim(),
            is_terminal: outline.is_terminal(),
            scheduler_name: (*spec.scheduler_name).into(),
            node_name: non_empty(&spec.node_name),
            nominated_node_name: non_empty(&status.nominated_node_name),
            unscheduled_condition: status.unscheduled_condition(),
            scheduling_gates: spec
                .scheduling_gates
                .iter()
                .map(|gate| (*gate.name).into())
                .collect(),
            priority: spec.priority.unwrap_or_default(),
            preemption_policy: match &*spec.preemption_policy {
                "Never" => PreemptionPolicy::Never,
                _ => PreemptionPolicy::LowerPriority,
            },
            non_zero_milli_cpu: assumed
                .get("cpu")
                .map_or(0, rhumb_meta::Quantity::milli_value),
            non_zero_memory: assumed.get("memory").map_or(0, rhumb_meta::Quantity::value),
            requests,
            ports: spec.host_ports(),
            images: spec.images(),
            container_count: spec.containers.len() + spec.init_containers.len(),
            node_selector: Arc::new(spec.decode_node_selector()),
            preferred_nodes: spec.preferred_nodes(),
            tolerations: spec
                .tolerations
                .iter()
                .filter_map(WireToleration::decode)
                .collect(),
            affinity: spec.affinity.pod_affinity.decode(&metadata.namespace),
            anti_affinity: spec.affinity.pod_anti_affinity.decode(&metadata.namespace),
            spread_constraints: spec
                .topology_spread_constraints
                .iter()
                .map(|constraint| constraint.decode(&labels))
                .collect(),
            controller: metadata.controller(),
            volume_claims: spec.volume_claims(&metadata.name),
            device_claims: spec
                .resource_claims
                .iter()
                .map(|claim| (*claim.name).into())
                .collect(),
            key: NamespacedName {
                namespace: (*metadata.namespace).into(),
                name: (*metadata.name).into(),
            },
            labels,
        })
    }
}

fn non_empty(text: &str) -> Option<Box<str>> {
    (!text.is_empty()).then(|| text.into())
}

impl WireObjectMeta<'_> {
    fn controller(&self) -> Option<ControllerRef> {
        let mut owners = self.owner_references.iter();
        owners
            .find(|owner| owner.controller)
            .map(|owner| ControllerRef {
                api_version: (*owner.api_version).into(),
                kind: (*owner.kind).into(),
                name: (*owner.name).into(),
                uid: (*owner.uid).into(),
            })
    }
}

impl WirePodStatus<'_> {
    /// Whether the scheduler preempts it, by its condition `DisruptionTarget`.
    fn is_preemption_victim(&self) -> bool {
        let mut conditions = self.conditions.iter();
        let target = conditions.find(|condition| &*condition.kind == "DisruptionTarget");
        target.is_some_and(|target| {
            &*target.status == "True" && &*target.reason == "PreemptionByScheduler"
        })
    }
}

impl WirePodStatus<'_> {
    /// The condition `PodScheduled` if it is false and has a reason.
    fn unscheduled_condition(&self) -> Option<Box<UnscheduledCondition>> {
        let mut conditions = self.conditions.iter();
        let condition = conditions.find(|condition| &*condition.kind == "PodScheduled")?;
        let is_false = &*condition.status == "False" && !condition.reason.is_empty();
        is_false.then(|| {
            Box::new(UnscheduledCondition {
                reason: (*condition.reason).into(),
                message: (*condition.message).into(),
            })
        })
    }
}

impl WirePodSpec<'_> {
    /// The host ports of containers and sidecars (restartable init containers).
    fn host_ports(&self) -> Box<[HostPort]> {
        let sidecars = self.init_containers.iter();
        let sidecars = sidecars.filter(|container| &*container.restart_policy == "Always");
        self.containers
            .iter()
            .chain(sidecars)
            .flat_map(|container| &container.ports)
            .filter(|port| port.host_port > 0)
            .map(|port| HostPort {
                address: non_empty_or(&port.host_ip, "0.0.0.0"),
                protocol: non_empty_or(&port.protocol, "TCP"),
                port: port.host_port,
            })
            .collect()
    }

    fn images(&self) -> Box<[Box<str>]> {
        let containers = self.init_containers.iter().chain(&self.containers);
        let volumes = self.volumes.iter();
        let volumes = volumes.filter_map(|volume| Some(&volume.image.as_ref()?.reference));
        containers
            .map(|container| &container.image)
            .chain(volumes)
            .map(|image| normalized_image(image))
            .collect()
    }

    fn decode_node_selector(&self) -> NodeSelector {
        let labels = self.node_selector.iter();
        let labels = labels.map(|(key, value)| (&**key, &**value));
        let terms = self.affinity.node_affinity.required.as_ref();
        NodeSelector::new(
            (!self.node_selector.is_empty()).then(|| Selector::from_labels(labels)),
            terms.map(|required| {
                let terms = required.node_selector_terms.iter();
                terms
                    .filter_map(super::affinity::WireNodeSelectorTerm::decode)
                    .collect()
            }),
        )
    }

    fn preferred_nodes(&self) -> Arc<[(crate::model::NodeSelectorTerm, i32)]> {
        let preferred = self.affinity.node_affinity.preferred.iter();
        preferred
            .filter_map(super::affinity::WirePreferredSchedulingTerm::decode)
            .collect()
    }

    /// The claim of an ephemeral volume is named after the pod and the volume.
    fn volume_claims(&self, pod: &str) -> Box<[Box<str>]> {
        let claim = |volume: &WireVolume<'_>| match &volume.persistent_volume_claim {
            Some(claim) => Some((*claim.claim_name).into()),
            None if volume.ephemeral.is_some() => Some(format!("{pod}-{}", &*volume.name).into()),
            None => None,
        };
        self.volumes.iter().filter_map(claim).collect()
    }
}

fn non_empty_or(text: &str, default: &str) -> Box<str> {
    if text.is_empty() { default } else { text }.into()
}

/// Appends the default tag `latest` if the image name has none.
pub(super) fn normalized_image(name: &str) -> Box<str> {
    if name.rfind(':') <= name.rfind('/') {
        format!("{name}:latest").into()
    } else {
        name.into()
    }
}

/// Converts a resource list to integer amounts; `pods` is left out.
pub(super) fn decode_resources(list: &ResourceList<'_>) -> Resources {
    let mut resources = Resources::default();
    for (name, amount) in list.iter() {
        match &**name {
            "cpu" => resources.milli_cpu = amount.milli_value(),
            "memory" => resources.memory = amount.value(),
            "ephemeral-storage" => resources.ephemeral_storage = amount.value(),
            "pods" => {}
            name => resources.scalars.push((name.into(), amount.value())),
        }
    }
    resources
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::normalized_image;
    use crate::model::Pod;

    #[test]
    fn preemption_victims_are_terminating_pods_with_the_scheduler_condition() {
        let deleted = Some("2026-01-01T00:00:00Z");
        for (deletion, kind, reason, expected) in [
            (deleted, "DisruptionTarget", "PreemptionByScheduler", true),
            (deleted, "DisruptionTarget", "EvictionByEvictionAPI", false),
            (deleted, "Ready", "PreemptionByScheduler", false),
            (None, "DisruptionTarget", "PreemptionByScheduler", false),
        ] {
            let pod = json!({
                "metadata": {"deletionTimestamp": deletion},
                "status": {"conditions": [{"type": kind, "status": "True", "reason": reason}]},
            });
            let pod = Pod::from_json(pod.to_string().as_bytes()).unwrap();
            assert_eq!(pod.is_preempted, expected, "{deletion:?} {kind} {reason}");
        }
    }

    #[test]
    fn images_without_a_tag_are_normalized_to_latest() {
        for (name, normal) in [
            ("nginx", "nginx:latest"),
            ("nginx:1.27", "nginx:1.27"),
            ("registry:5000/nginx", "registry:5000/nginx:latest"),
            (
                "registry:5000/nginx@sha256:ab",
                "registry:5000/nginx@sha256:ab",
            ),
        ] {
            assert_eq!(&*normalized_image(name), normal, "{name}");
        }
    }
}
