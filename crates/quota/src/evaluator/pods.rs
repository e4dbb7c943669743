//! Usage of pods: `pods` until they terminate, `count/pods`, and compute requests and limits (upstream:
//! `podEvaluator`).

use std::collections::BTreeSet;

use rhumb_api::JsonObject;
use rhumb_api::partial_decode::ResourceList;
use rhumb_api::pods::partial_pod::{PartialContainer, PartialPod, PodResourcesOptions};
use rhumb_api::resource_names::{is_extended, is_native};
use rhumb_meta::Quantity;

use super::object_count::{self, ONE};
use crate::extended_resources::{IMPLICIT_RESOURCE_PREFIX, REQUESTS_PREFIX};
use crate::{
    ExtendedResourceLink, ExtendedResourcePod, ObjectUsage, ResourceQuantities, ScopeAttributes,
};

/// Counts pods as long as they are stored, also terminated ones.
const COUNT: &str = "count/pods";
const PODS: &str = "pods";
const HUGE_PAGES: &str = "hugepages-";

/// Compute resources: the bare name and the request name, which both count requests, and the limit name.
const COMPUTE: &[(&str, &str, &str)] = &[
    ("cpu", "requests.cpu", "limits.cpu"),
    ("memory", "requests.memory", "limits.memory"),
    (
        "ephemeral-storage",
        "requests.ephemeral-storage",
        "limits.ephemeral-storage",
    ),
];

/// Resources that every container must specify if a quota limits them. No others are required.
const REQUIRED: &[&str] = &[
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

pub(super) fn covers(name: &str) -> bool {
    matches!(name, COUNT | PODS)
        || COMPUTE
            .iter()
            .any(|(bare, request, limit)| [*bare, *request, *limit].contains(&name))
        || name.starts_with(HUGE_PAGES)
        || name
            .strip_prefix(REQUESTS_PREFIX)
            .is_some_and(|requested| requested.starts_with(HUGE_PAGES))
        || is_extended_resource_request(name)
}

/// Whether a quota name is for requests of an extended resource (upstream: `isExtendedResourceNameForQuota`).
pub(super) fn is_extended_resource_request(name: &str) -> bool {
    name.strip_prefix(REQUESTS_PREFIX).is_some_and(|requested| {
        requested.starts_with(IMPLICIT_RESOURCE_PREFIX) || !is_native(name)
    })
}

pub(super) fn usage(object: &JsonObject) -> ObjectUsage {
    usage_of(&PartialPod::from_object(object))
}

pub(super) fn usage_from_json(json: &[u8]) -> Result<ObjectUsage, serde_json::Error> {
    Ok(usage_of(&PartialPod::from_json(json)?))
}

fn usage_of(pod: &PartialPod<'_>) -> ObjectUsage {
    let scope_attributes = ScopeAttributes::Pod {
        is_terminating: pod.has_active_deadline(),
        is_best_effort: pod.is_best_effort(),
        priority_class: pod.priority_class().into(),
        has_cross_namespace_affinity: pod.has_cross_namespace_affinity(),
    };
    if pod.is_terminal() {
        return ObjectUsage {
            quantities: object_count::one(COUNT),
            scope_attributes,
            unspecified: unspecified(pod),
            ..ObjectUsage::default()
        };
    }
    let mut amounts = compute_resources(
        &pod.requests(PodResourcesOptions::QUOTA),
        &pod.limits(PodResourcesOptions::QUOTA),
    );
    amounts.set(COUNT, ONE);
    amounts.set(PODS, ONE);
    let lapses = pod.termination_overdue_at();
    let later = lapses.map(|_| object_count::one(COUNT));
    let extended_resources = extended_resource_link(pod, &amounts);
    ObjectUsage {
        extended_resources,
        quantities: amounts,
        scope_attributes,
        lapses_at: lapses,
        after_lapse: later.unwrap_or_default(),
        unspecified: unspecified(pod),
    }
}

fn extended_resource_link(
    pod: &PartialPod<'_>,
    quantities: &ResourceQuantities,
) -> ExtendedResourceLink {
    if !quantities.names().any(is_extended_resource_request) {
        return ExtendedResourceLink::None;
    }
    ExtendedResourceLink::Pod(ExtendedResourcePod {
        uid: pod.uid().into(),
        claim_name: pod.extended_resource_claim().into(),
    })
}

/// Required names that some container does not specify. Pods with pod-level resources need not specify any.
fn unspecified(pod: &PartialPod<'_>) -> Vec<&'static str> {
    if pod.has_pod_level_resources() {
        return Vec::new();
    }
    let lacks = |name: &str| {
        let mut containers = pod.containers().iter().chain(pod.init_containers());
        containers.any(|container| !specifies(container, name))
    };
    let required = REQUIRED.iter().copied();
    required.filter(|name| lacks(name)).collect()
}

fn compute_resources(requests: &ResourceList<'_>, limits: &ResourceList<'_>) -> ResourceQuantities {
    let mut amounts = ResourceQuantities::default();
    for (name, amount) in requests.iter() {
        add_request(&mut amounts, name, amount);
    }
    for (bare, _, limit) in COMPUTE {
        if let Some(amount) = limits.get(bare) {
            amounts.set(*limit, amount.clone());
        }
    }
    amounts
}

fn add_request(amounts: &mut ResourceQuantities, name: &str, amount: &Quantity) {
    if let Some((bare, request, _)) = COMPUTE.iter().find(|(bare, ..)| *bare == name) {
        amounts.set(*bare, amount.clone());
        amounts.set(*request, amount.clone());
        return;
    }
    let is_huge_page = name.starts_with(HUGE_PAGES);
    if is_huge_page {
        amounts.set(name.to_owned(), amount.clone());
    }
    if is_huge_page || name.starts_with(IMPLICIT_RESOURCE_PREFIX) || is_extended(name) {
        amounts.set(format!("{REQUESTS_PREFIX}{name}"), amount.clone());
    }
}

/// Lists the containers that do not specify what a quota limits, in upstream's words.
pub(super) fn missing_constraints(
    required: &ResourceQuantities,
    object: &JsonObject,
) -> Option<String> {
    let names = || required.names().filter(|name| REQUIRED.contains(name));
    names().next()?;
    let pod = PartialPod::from_object(object);
    if pod.has_pod_level_resources() {
        return None;
    }
    let parts: Vec<String> = names()
        .filter_map(|name| {
            let containers = pod.containers().iter().chain(pod.init_containers());
            let missing: BTreeSet<&str> = containers
                .filter(|container| !specifies(container, name))
                .map(|container| &*container.name)
                .collect();
            let missing: Vec<&str> = missing.into_iter().collect();
            (!missing.is_empty()).then(|| format!("{name} for: {}", missing.join(",")))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("must specify {}", parts.join("; ")))
}

fn specifies(container: &PartialContainer<'_>, required: &str) -> bool {
    let resources = &container.resources;
    match required.split_once('.') {
        Some(("limits", name)) => resources.limits.get(name).is_some(),
        Some(("requests", name)) => resources.requests.get(name).is_some(),
        _ => resources.requests.get(required).is_some(),
    }
}

/// An update cannot increase a pod's requests, but a deadline moves it into other scopes. A resize may increase them.
pub(super) fn handles_update(subresource: &str, old: &JsonObject, new: &JsonObject) -> bool {
    match subresource {
        "" => {
            PartialPod::from_object(old).has_active_deadline()
                != PartialPod::from_object(new).has_active_deadline()
        }
        "resize" => true,
        _ => false,
    }
}
