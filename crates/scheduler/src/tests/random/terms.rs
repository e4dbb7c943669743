//! Selectors and terms of affinity, of all kinds.

use serde_json::{Value, json};

use super::{Dice, NAMESPACES};

pub(super) const POD_KEYS: [&str; 2] = ["app", "tier"];
pub(super) const VALUES: [&str; 3] = ["a", "b", "c"];
pub(super) const NAMESPACE_KEYS: [&str; 2] = ["team", "env"];
pub(super) const TOPOLOGIES: [&str; 4] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "rack",
    "nobody-has-this",
];

/// A selector that a server would let in.
pub(super) fn selector(dice: &mut Dice, keys: &[&str]) -> Value {
    let mut selector = json!({});
    dice.maybe(&mut selector, "matchLabels", 50, |dice| {
        dice.labels(keys, &VALUES, 40)
    });
    dice.maybe(&mut selector, "matchExpressions", 50, |dice| {
        dice.list(2, |dice| expression(dice, keys))
    });
    selector
}

fn expression(dice: &mut Dice, keys: &[&str]) -> Value {
    let key = dice.one_of(keys);
    match dice.below(4) {
        0 => json!({"key": key, "operator": "In", "values": some_values(dice)}),
        1 => json!({"key": key, "operator": "NotIn", "values": some_values(dice)}),
        2 => json!({"key": key, "operator": "Exists"}),
        _ => json!({"key": key, "operator": "DoesNotExist"}),
    }
}

fn some_values(dice: &mut Dice) -> Value {
    let first = dice.one_of(&VALUES);
    match dice.one_of(&VALUES) {
        second if second != first => json!([first, second]),
        _ => json!([first]),
    }
}

/// `podAffinity` or `podAntiAffinity`.
pub(super) fn pod_affinity(dice: &mut Dice) -> Value {
    let mut affinity = json!({});
    dice.maybe(&mut affinity, REQUIRED, 60, |dice| dice.list(3, term));
    dice.maybe(&mut affinity, PREFERRED, 60, |dice| {
        dice.list(
            3,
            |dice| json!({"weight": 1 + dice.below(100), "podAffinityTerm": term(dice)}),
        )
    });
    affinity
}

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn term(dice: &mut Dice) -> Value {
    let mut term = json!({"topologyKey": topology(dice)});
    dice.maybe(&mut term, "labelSelector", 90, |dice| {
        selector(dice, &POD_KEYS)
    });
    dice.maybe(&mut term, "namespaces", 30, |dice| {
        dice.list(2, |dice| dice.one_of(&NAMESPACES).into())
    });
    dice.maybe(&mut term, "namespaceSelector", 50, |dice| {
        selector(dice, &NAMESPACE_KEYS)
    });
    term
}

pub(super) fn topology(dice: &mut Dice) -> &'static str {
    let known = if dice.chance(5) { 4 } else { 3 };
    dice.one_of(&TOPOLOGIES[..known])
}

/// What pods are to be spread over.
pub(super) fn spread(dice: &mut Dice) -> Value {
    let when = dice.one_of(&["DoNotSchedule", "ScheduleAnyway"]);
    let mut constraint = json!({
        "maxSkew": 1 + dice.below(3),
        "topologyKey": topology(dice),
        "whenUnsatisfiable": when,
    });
    dice.maybe(&mut constraint, "labelSelector", 90, |dice| {
        selector(dice, &POD_KEYS)
    });
    if when == "DoNotSchedule" {
        dice.maybe(&mut constraint, "minDomains", 30, |dice| {
            (1 + dice.below(4)).into()
        });
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        dice.maybe(&mut constraint, policy, 50, |dice| {
            dice.one_of(&["Honor", "Ignore"]).into()
        });
    }
    dice.maybe(&mut constraint, "matchLabelKeys", 20, |dice| {
        dice.list(1, |dice| dice.one_of(&POD_KEYS).into())
    });
    constraint
}
