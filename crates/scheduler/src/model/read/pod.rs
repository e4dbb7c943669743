//! Pods from JSON.

use std::sync::Arc;

use rhumb_api::partial::{ResourceList, Text, or_default};
use rhumb_api::pods::outline::{Basis, Outline};
use rhumb_meta::Timestamp;
use rhumb_meta::labels::Selector;
use serde::Deserialize;

use super::affinity::{WireAffinity, WireSpread};
use super::parts::{Metadata, WireToleration};
use crate::model::pod::{Controller, NotScheduled};
use crate::model::{HostPort, NodeSelector, Pod, PodKey, PreemptionPolicy, Resources};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Text<'a>,
    #[serde(borrow)]
    scheduler_name: Text<'a>,
    priority: Option<i32>,
    #[serde(borrow)]
    preemption_policy: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    scheduling_gates: Vec<Named<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    containers: Vec<Container<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    init_containers: Vec<Container<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    node_selector: std::collections::BTreeMap<Text<'a>, Text<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    affinity: WireAffinity<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    tolerations: Vec<WireToleration<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    topology_spread_constraints: Vec<WireSpread<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    volumes: Vec<Volume<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    resource_claims: Vec<Named<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container<'a> {
    #[serde(borrow)]
    image: Text<'a>,
    #[serde(borrow)]
    restart_policy: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    ports: Vec<Port<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port<'a> {
    host_port: i32,
    #[serde(rename = "hostIP", borrow)]
    host_ip: Text<'a>,
    #[serde(borrow)]
    protocol: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    persistent_volume_claim: Option<Claim<'a>>,
    ephemeral: Option<serde::de::IgnoredAny>,
    #[serde(borrow)]
    image: Option<ImageSource<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImageSource<'a> {
    #[serde(borrow)]
    reference: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Claim<'a> {
    #[serde(borrow)]
    claim_name: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    nominated_node_name: Text<'a>,
    #[serde(borrow)]
    start_time: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    conditions: Vec<Condition<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow)]
    reason: Text<'a>,
    #[serde(borrow)]
    message: Text<'a>,
}

impl Pod {
    /// Reads a pod from its JSON.
    pub fn from_json(json: &[u8]) -> Result<Pod, serde_json::Error> {
        let wire: Wire<'_> = serde_json::from_slice(json)?;
        let outline = Outline::from_json(json)?;
        let requests = resources(&outline.requests(Basis::SCHEDULING));
        let assumed = outline.requests(Basis::SCHEDULING_SCORE);
        let Wire {
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
            is_preempted: !metadata.deletion_timestamp.is_empty() && status.makes_room(),
            is_terminal: outline.is_terminal(),
            scheduler_name: (*spec.scheduler_name).into(),
            node_name: present(&spec.node_name),
            nominated_node_name: present(&status.nominated_node_name),
            not_scheduled: status.not_scheduled(),
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
            assumed_milli_cpu: assumed
                .get("cpu")
                .map_or(0, rhumb_meta::Quantity::milli_value),
            assumed_memory: assumed.get("memory").map_or(0, rhumb_meta::Quantity::value),
            requests,
            ports: spec.host_ports(),
            images: spec.images(),
            containers: spec.containers.len() + spec.init_containers.len(),
            nodes: Arc::new(spec.nodes()),
            preferred_nodes: spec.preferred_nodes(),
            tolerations: spec
                .tolerations
                .iter()
                .filter_map(WireToleration::read)
                .collect(),
            affinity: spec.affinity.pod_affinity.read(&metadata.namespace),
            anti_affinity: spec.affinity.pod_anti_affinity.read(&metadata.namespace),
            spread: spec
                .topology_spread_constraints
                .iter()
                .map(|constraint| constraint.read(&labels))
                .collect(),
            controller: metadata.controller(),
            claims: spec.claims(&metadata.name),
            device_claims: spec
                .resource_claims
                .iter()
                .map(|claim| (*claim.name).into())
                .collect(),
            key: PodKey {
                namespace: (*metadata.namespace).into(),
                name: (*metadata.name).into(),
            },
            labels,
        })
    }
}

fn present(text: &str) -> Option<Box<str>> {
    (!text.is_empty()).then(|| text.into())
}

impl Metadata<'_> {
    fn controller(&self) -> Option<Controller> {
        let mut owners = self.owner_references.iter();
        owners
            .find(|owner| owner.controller)
            .map(|owner| Controller {
                api_version: (*owner.api_version).into(),
                kind: (*owner.kind).into(),
                name: (*owner.name).into(),
                uid: (*owner.uid).into(),
            })
    }
}

impl Status<'_> {
    /// Whether it was told to make room for another pod.
    fn makes_room(&self) -> bool {
        let mut conditions = self.conditions.iter();
        let told = conditions.find(|condition| &*condition.kind == "DisruptionTarget");
        told.is_some_and(|told| &*told.status == "True" && &*told.reason == "PreemptionByScheduler")
    }
}

impl Status<'_> {
    /// One without a reason says nothing.
    fn not_scheduled(&self) -> Option<Box<NotScheduled>> {
        let mut conditions = self.conditions.iter();
        let said = conditions.find(|condition| &*condition.kind == "PodScheduled")?;
        let is_said = &*said.status == "False" && !said.reason.is_empty();
        is_said.then(|| {
            Box::new(NotScheduled {
                reason: (*said.reason).into(),
                message: (*said.message).into(),
            })
        })
    }
}

impl Spec<'_> {
    /// Init containers that keep running take ports too.
    fn host_ports(&self) -> Box<[HostPort]> {
        let sidecars = self.init_containers.iter();
        let sidecars = sidecars.filter(|container| &*container.restart_policy == "Always");
        self.containers
            .iter()
            .chain(sidecars)
            .flat_map(|container| &container.ports)
            .filter(|port| port.host_port > 0)
            .map(|port| HostPort {
                address: or(&port.host_ip, "0.0.0.0"),
                protocol: or(&port.protocol, "TCP"),
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
            .map(|image| normal_image(image))
            .collect()
    }

    fn nodes(&self) -> NodeSelector {
        let labels = self.node_selector.iter();
        let labels = labels.map(|(key, value)| (&**key, &**value));
        let terms = self.affinity.node_affinity.required.as_ref();
        NodeSelector::new(
            (!self.node_selector.is_empty()).then(|| Selector::from_labels(labels)),
            terms.map(|required| {
                let terms = required.node_selector_terms.iter();
                terms
                    .filter_map(super::affinity::WireNodeTerm::read)
                    .collect()
            }),
        )
    }

    fn preferred_nodes(&self) -> Arc<[(crate::model::NodeTerm, i32)]> {
        let preferred = self.affinity.node_affinity.preferred.iter();
        preferred
            .filter_map(super::affinity::WirePreferredNodes::read)
            .collect()
    }

    /// A claim that belongs to the pod is named after it.
    fn claims(&self, pod: &str) -> Box<[Box<str>]> {
        let claim = |volume: &Volume<'_>| match &volume.persistent_volume_claim {
            Some(claim) => Some((*claim.claim_name).into()),
            None if volume.ephemeral.is_some() => Some(format!("{pod}-{}", &*volume.name).into()),
            None => None,
        };
        self.volumes.iter().filter_map(claim).collect()
    }
}

fn or(text: &str, default: &str) -> Box<str> {
    if text.is_empty() { default } else { text }.into()
}

/// With the tag that is meant where none is written.
pub(super) fn normal_image(name: &str) -> Box<str> {
    if name.rfind(':') <= name.rfind('/') {
        format!("{name}:latest").into()
    } else {
        name.into()
    }
}

/// In whole amounts.
pub(super) fn resources(list: &ResourceList<'_>) -> Resources {
    let mut resources = Resources::default();
    for (name, amount) in list.iter() {
        match &**name {
            "cpu" => resources.milli_cpu = amount.milli_value(),
            "memory" => resources.memory = amount.value(),
            "ephemeral-storage" => resources.ephemeral_storage = amount.value(),
            "pods" => {}
            name => resources.others.push((name.into(), amount.value())),
        }
    }
    resources
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::normal_image;
    use crate::model::Pod;

    #[test]
    fn who_makes_room_is_told_from_others_that_leave() {
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
    fn images_without_a_tag_are_the_latest() {
        for (name, normal) in [
            ("nginx", "nginx:latest"),
            ("nginx:1.27", "nginx:1.27"),
            ("registry:5000/nginx", "registry:5000/nginx:latest"),
            (
                "registry:5000/nginx@sha256:ab",
                "registry:5000/nginx@sha256:ab",
            ),
        ] {
            assert_eq!(&*normal_image(name), normal, "{name}");
        }
    }
}
