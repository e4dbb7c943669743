//! What pods count for: themselves while they live, what they ask for, and what they are limited to.

use std::collections::BTreeSet;

use rhumb_api::Object;
use rhumb_api::partial::ResourceList;
use rhumb_api::pods::outline::{Basis, Container, Outline};
use rhumb_api::resource_names::{is_extended, is_native};
use rhumb_meta::Quantity;

use super::counts::{self, ONE};
use crate::{Amounts, Charge, Traits};

/// Counts pods for as long as they are stored, whatever has become of them.
const COUNT: &str = "count/pods";
const PODS: &str = "pods";
const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// What a resource of containers is called as a request, by its bare name as well, and as a limit.
const COMPUTE: &[(&str, &str, &str)] = &[
    ("cpu", "requests.cpu", "limits.cpu"),
    ("memory", "requests.memory", "limits.memory"),
    (
        "ephemeral-storage",
        "requests.ephemeral-storage",
        "limits.ephemeral-storage",
    ),
];

/// What every container must name if a quota limits it. Nothing else is ever required.
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
        || name.strip_prefix("requests.").is_some_and(|requested| {
            requested.starts_with(HUGE_PAGES)
                || requested.starts_with(DEVICE_CLASS)
                || !is_native(name)
        })
}

pub(super) fn measure(object: &Object) -> Charge {
    charge(&Outline::of(object))
}

pub(super) fn measure_json(json: &[u8]) -> Result<Charge, serde_json::Error> {
    Ok(charge(&Outline::from_json(json)?))
}

fn charge(pod: &Outline<'_>) -> Charge {
    let traits = Traits::Pod {
        is_terminating: pod.is_terminating(),
        is_best_effort: pod.is_best_effort(),
        priority_class: pod.priority_class().into(),
        has_cross_namespace_affinity: pod.has_cross_namespace_affinity(),
    };
    if pod.is_terminal() {
        return Charge {
            amounts: counts::one(COUNT),
            traits,
            unnamed: unnamed(pod),
            ..Charge::default()
        };
    }
    let mut amounts = compute(&pod.requests(Basis::QUOTA), &pod.limits(Basis::QUOTA));
    amounts.set(COUNT, ONE);
    amounts.set(PODS, ONE);
    let lapses = pod.overdue_from();
    let later = lapses.map(|_| counts::one(COUNT));
    Charge {
        amounts,
        traits,
        lapses,
        later: later.unwrap_or_default(),
        unnamed: unnamed(pod),
    }
}

/// What some container does not name. Those of a pod that asks for something as a whole need not.
fn unnamed(pod: &Outline<'_>) -> Vec<&'static str> {
    if pod.has_pod_level_resources() {
        return Vec::new();
    }
    let lacks = |name: &str| {
        let mut containers = pod.containers().iter().chain(pod.init_containers());
        containers.any(|container| !names_amount(container, name))
    };
    let required = REQUIRED.iter().copied();
    required.filter(|name| lacks(name)).collect()
}

fn compute(requests: &ResourceList<'_>, limits: &ResourceList<'_>) -> Amounts {
    let mut amounts = Amounts::default();
    for (name, amount) in requests.iter() {
        charge_request(&mut amounts, name, amount);
    }
    for (bare, _, limit) in COMPUTE {
        if let Some(amount) = limits.get(bare) {
            amounts.set(*limit, amount.clone());
        }
    }
    amounts
}

fn charge_request(amounts: &mut Amounts, name: &str, amount: &Quantity) {
    if let Some((bare, request, _)) = COMPUTE.iter().find(|(bare, ..)| *bare == name) {
        amounts.set(*bare, amount.clone());
        amounts.set(*request, amount.clone());
        return;
    }
    let is_huge_page = name.starts_with(HUGE_PAGES);
    if is_huge_page {
        amounts.set(name.to_owned(), amount.clone());
    }
    if is_huge_page || name.starts_with(DEVICE_CLASS) || is_extended(name) {
        amounts.set(format!("requests.{name}"), amount.clone());
    }
}

/// Which containers do not name what a quota limits.
pub(super) fn missing(required: &Amounts, object: &Object) -> Option<String> {
    let names = || required.names().filter(|name| REQUIRED.contains(name));
    names().next()?;
    let pod = Outline::of(object);
    if pod.has_pod_level_resources() {
        return None;
    }
    let parts: Vec<String> = names()
        .filter_map(|name| {
            let containers = pod.containers().iter().chain(pod.init_containers());
            let missing: BTreeSet<&str> = containers
                .filter(|container| !names_amount(container, name))
                .map(|container| &*container.name)
                .collect();
            let missing: Vec<&str> = missing.into_iter().collect();
            (!missing.is_empty()).then(|| format!("{name} for: {}", missing.join(",")))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("must specify {}", parts.join("; ")))
}

fn names_amount(container: &Container<'_>, required: &str) -> bool {
    let resources = &container.resources;
    match required.split_once('.') {
        Some(("limits", name)) => resources.limits.get(name).is_some(),
        Some(("requests", name)) => resources.requests.get(name).is_some(),
        _ => resources.requests.get(required).is_some(),
    }
}

/// An update of a pod cannot ask for more, but a deadline brings it into other scopes.
pub(super) fn minds_update(subresource: &str, old: &Object, new: &Object) -> bool {
    match subresource {
        "" => Outline::of(old).is_terminating() != Outline::of(new).is_terminating(),
        "resize" => true,
        _ => false,
    }
}
