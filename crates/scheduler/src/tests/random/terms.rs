//! Random selectors, pod affinity terms and spread constraints.

use serde_json::{Value, json};

use super::{JsonChoices, NAMESPACES, SeededRng};

pub(super) const POD_KEYS: [&str; 2] = ["app", "tier"];
pub(super) const VALUES: [&str; 3] = ["a", "b", "c"];
pub(super) const NAMESPACE_KEYS: [&str; 2] = ["team", "env"];
pub(super) const TOPOLOGIES: [&str; 4] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "rack",
    "nobody-has-this",
];

/// A random valid label selector.
pub(super) fn selector(rng: &mut SeededRng, keys: &[&str]) -> Value {
    let mut selector = json!({});
    rng.maybe_set(&mut selector, "matchLabels", 50, |rng| {
        rng.random_labels(keys, &VALUES, 40)
    });
    rng.maybe_set(&mut selector, "matchExpressions", 50, |rng| {
        rng.random_list(2, |rng| expression(rng, keys))
    });
    selector
}

fn expression(rng: &mut SeededRng, keys: &[&str]) -> Value {
    let key = rng.choose(keys);
    match rng.below(4) {
        0 => json!({"key": key, "operator": "In", "values": some_values(rng)}),
        1 => json!({"key": key, "operator": "NotIn", "values": some_values(rng)}),
        2 => json!({"key": key, "operator": "Exists"}),
        _ => json!({"key": key, "operator": "DoesNotExist"}),
    }
}

fn some_values(rng: &mut SeededRng) -> Value {
    let first = rng.choose(&VALUES);
    match rng.choose(&VALUES) {
        second if second != first => json!([first, second]),
        _ => json!([first]),
    }
}

/// `podAffinity` or `podAntiAffinity`.
pub(super) fn pod_affinity(rng: &mut SeededRng) -> Value {
    let mut affinity = json!({});
    rng.maybe_set(&mut affinity, REQUIRED, 60, |rng| rng.random_list(3, term));
    rng.maybe_set(&mut affinity, PREFERRED, 60, |rng| {
        rng.random_list(
            3,
            |rng| json!({"weight": 1 + rng.below(100), "podAffinityTerm": term(rng)}),
        )
    });
    affinity
}

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn term(rng: &mut SeededRng) -> Value {
    let mut term = json!({"topologyKey": topology(rng)});
    rng.maybe_set(&mut term, "labelSelector", 90, |rng| {
        selector(rng, &POD_KEYS)
    });
    rng.maybe_set(&mut term, "namespaces", 30, |rng| {
        rng.random_list(2, |rng| rng.choose(&NAMESPACES).into())
    });
    rng.maybe_set(&mut term, "namespaceSelector", 50, |rng| {
        selector(rng, &NAMESPACE_KEYS)
    });
    term
}

pub(super) fn topology(rng: &mut SeededRng) -> &'static str {
    let known = if rng.percent(5) { 4 } else { 3 };
    rng.choose(&TOPOLOGIES[..known])
}

/// A random topology spread constraint.
pub(super) fn spread_constraint(rng: &mut SeededRng) -> Value {
    let when = rng.choose(&["DoNotSchedule", "ScheduleAnyway"]);
    let mut constraint = json!({
        "maxSkew": 1 + rng.below(3),
        "topologyKey": topology(rng),
        "whenUnsatisfiable": when,
    });
    rng.maybe_set(&mut constraint, "labelSelector", 90, |rng| {
        selector(rng, &POD_KEYS)
    });
    if when == "DoNotSchedule" {
        rng.maybe_set(&mut constraint, "minDomains", 30, |rng| {
            (1 + rng.below(4)).into()
        });
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        rng.maybe_set(&mut constraint, policy, 50, |rng| {
            rng.choose(&["Honor", "Ignore"]).into()
        });
    }
    rng.maybe_set(&mut constraint, "matchLabelKeys", 20, |rng| {
        rng.random_list(1, |rng| rng.choose(&POD_KEYS).into())
    });
    constraint
}
