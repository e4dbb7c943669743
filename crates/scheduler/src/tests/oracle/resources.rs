//! Oracles for `NodeResourcesFit` and `NodeResourcesBalancedAllocation`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{list, pods_on};
use crate::tests::random::ClusterObjects;

/// Milli-CPU, and whole units of everything else.
type ResourceAmounts = BTreeMap<String, i64>;

/// Requests assumed for scoring if a container has none.
const ASSUMED: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 * 1024 * 1024)];

pub(super) fn fit_rejection(objects: &ClusterObjects, pod: &Value, node: &Value) -> Option<bool> {
    let has = amounts(&node["status"]["allocatable"]);
    let has = |name: &str| has.get(name).copied().unwrap_or(0);
    let used = used_on(objects, node, &[]);
    let count = pods_on(objects, node).count() as i64;
    let mut is_refused = count + 1 > has("pods");
    let mut is_hopeless = false;
    for (name, wanted) in requests(pod, &[]) {
        let left = has(&name) - used.get(&name).copied().unwrap_or(0);
        if wanted > 0 && wanted > left {
            is_refused = true;
            is_hopeless |= wanted > has(&name);
        }
    }
    is_refused.then_some(!is_hopeless)
}

/// The score grows with the unrequested CPU and memory.
pub(super) fn least_allocated_scores(
    objects: &ClusterObjects,
    pod: &Value,
    nodes: &[&Value],
) -> (Vec<i64>, Vec<i64>) {
    let rate = |node: &&Value| {
        let has = amounts(&node["status"]["allocatable"]);
        let (used, wanted) = (used_on(objects, node, &ASSUMED), requests(pod, &ASSUMED));
        let (mut sum, mut kinds) = (0, 0);
        for name in ["cpu", "memory"] {
            let has = has.get(name).copied().unwrap_or(0);
            if has > 0 {
                let taken = used
                    .get(name)
                    .unwrap_or(&0)
                    .saturating_add(*wanted.get(name).unwrap_or(&0));
                kinds += 1;
                sum += (has - taken.min(has)) * 100 / has;
            }
        }
        if kinds == 0 { 0 } else { sum / kinds }
    };
    let raw: Vec<i64> = nodes.iter().map(rate).collect();
    (raw.clone(), raw)
}

/// The score grows with how much the pod evens out CPU and memory utilization.
pub(super) fn balanced_allocation_scores(
    objects: &ClusterObjects,
    pod: &Value,
    nodes: &[&Value],
) -> (Vec<i64>, Vec<i64>) {
    let wanted = requests(pod, &[]);
    let wants = |name: &str| wanted.get(name).copied().unwrap_or(0);
    let rate = |node: &&Value| {
        if wants("cpu") == 0 && wants("memory") == 0 {
            return 0;
        }
        let has = amounts(&node["status"]["allocatable"]);
        let used = used_on(objects, node, &[]);
        let balance = |with_pod: i64| {
            let mut parts = Vec::new();
            for name in ["cpu", "memory"] {
                let has = has.get(name).copied().unwrap_or(0);
                if has > 0 {
                    let taken = used
                        .get(name)
                        .unwrap_or(&0)
                        .saturating_add(with_pod * wants(name));
                    parts.push((taken as f64 / has as f64).min(1.0));
                }
            }
            let spread = match parts.as_slice() {
                [one, other] => ((one - other) / 2.0).abs(),
                _ => 0.0,
            };
            ((1.0 - spread) * 100.0) as i64
        };
        50 + (50 + balance(1) - balance(0)) / 2
    };
    let raw: Vec<i64> = nodes.iter().map(rate).collect();
    (raw.clone(), raw)
}

fn used_on(objects: &ClusterObjects, node: &Value, assumed: &[(&str, i64)]) -> ResourceAmounts {
    let mut sum = ResourceAmounts::new();
    for pod in pods_on(objects, node) {
        add(&mut sum, &requests(pod, assumed));
    }
    sum
}

/// Containers plus all sidecars; or, if larger, an init container plus the sidecars before it. Plus overhead.
fn requests(pod: &Value, assumed: &[(&str, i64)]) -> ResourceAmounts {
    let of = |container: &Value| {
        let mut requests = amounts(&container["resources"]["requests"]);
        for (name, amount) in assumed {
            requests.entry((*name).to_owned()).or_insert(*amount);
        }
        requests
    };
    let mut together = ResourceAmounts::new();
    for container in list(&pod["spec"]["containers"]) {
        add(&mut together, &of(container));
    }
    let mut sidecars = ResourceAmounts::new();
    let mut init_maximum = ResourceAmounts::new();
    for container in list(&pod["spec"]["initContainers"]) {
        let mut needed = sidecars.clone();
        add(&mut needed, &of(container));
        if container["restartPolicy"] == "Always" {
            sidecars.clone_from(&needed);
            add(&mut together, &of(container));
        }
        for (name, amount) in needed {
            let most = init_maximum.entry(name).or_default();
            *most = amount.max(*most);
        }
    }
    for (name, amount) in init_maximum {
        let most = together.entry(name).or_default();
        *most = amount.max(*most);
    }
    add(&mut together, &amounts(&pod["spec"]["overhead"]));
    together
}

fn add(sum: &mut ResourceAmounts, more: &ResourceAmounts) {
    for (name, amount) in more {
        let sum = sum.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn amounts(list: &Value) -> ResourceAmounts {
    let list = list.as_object().into_iter().flatten();
    list.map(|(name, amount)| {
        let milli = milli(amount.as_str().expect("the amount is a string"));
        let amount = if name == "cpu" { milli } else { milli / 1000 };
        (
            name.clone(),
            amount.try_into().expect("the amount fits in i64"),
        )
    })
    .collect()
}

/// Parses a quantity into thousandths; supports the suffixes used in the tests.
fn milli(written: &str) -> i128 {
    let digits = written.trim_end_matches(char::is_alphabetic);
    let number: i128 = digits.parse().expect("the quantity is a whole number");
    number
        * match &written[digits.len()..] {
            "m" => 1,
            "" => 1000,
            "M" => 1_000_000_000,
            "Mi" => 1000 << 20,
            "Gi" => 1000 << 30,
            other => panic!("unknown suffix {other}"),
        }
}
