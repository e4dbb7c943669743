//! Resource requests of pods and quantities.

use std::collections::BTreeMap;

use serde_json::Value;

use super::list;

/// In billionths (nano units), so that every quantity is a whole number.
pub(super) type ResourceAmounts = BTreeMap<String, i128>;

const ONE: i128 = 1_000_000_000;

/// Containers plus sidecars; or, if larger, an init container plus the sidecars before it. Plus overhead, and one unit
/// of `pods`.
pub(super) fn requests(pod: &Value) -> ResourceAmounts {
    let spec = &pod["spec"];
    let of = |container: &Value| amounts(&container["resources"]["requests"]);
    let mut together = ResourceAmounts::new();
    for container in list(&spec["containers"]) {
        add(&mut together, of(container));
    }
    let (mut sidecars, mut init_maximum) = (ResourceAmounts::new(), ResourceAmounts::new());
    for container in list(&spec["initContainers"]) {
        let mut needed = sidecars.clone();
        add(&mut needed, of(container));
        if container["restartPolicy"] == "Always" {
            sidecars.clone_from(&needed);
            add(&mut together, of(container));
        }
        raise(&mut init_maximum, needed);
    }
    raise(&mut together, init_maximum);
    together.extend(amounts(&spec["resources"]["requests"]));
    add(&mut together, amounts(&spec["overhead"]));
    together.insert("pods".to_owned(), ONE);
    together
}

fn add(sum: &mut ResourceAmounts, more: ResourceAmounts) {
    for (name, amount) in more {
        *sum.entry(name).or_default() += amount;
    }
}

fn raise(most: &mut ResourceAmounts, to: ResourceAmounts) {
    for (name, amount) in to {
        let most = most.entry(name).or_default();
        *most = amount.max(*most);
    }
}

pub(super) fn amounts(list: &Value) -> ResourceAmounts {
    let list = list.as_object().into_iter().flatten();
    list.map(|(name, amount)| {
        let written = match amount {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (name.clone(), amount_of(&written))
    })
    .collect()
}

fn amount_of(written: &str) -> i128 {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let digits = written.trim_end_matches(|c| !is_digit(c));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let part = format!("{part:0<9}");
    let number = |text: &str| text.parse::<i128>().unwrap_or(0);
    let billionths = number(whole) * ONE + number(&part[..9]);
    let thousands = |times: u32| billionths * 1000i128.pow(times);
    match &written[digits.len()..] {
        "n" => billionths / ONE,
        "u" => billionths / 1_000_000,
        "m" => billionths / 1000,
        "" => billionths,
        "k" => thousands(1),
        "M" => thousands(2),
        "G" => thousands(3),
        "T" => thousands(4),
        "P" => thousands(5),
        "E" => thousands(6),
        "Ki" => billionths << 10,
        "Mi" => billionths << 20,
        "Gi" => billionths << 30,
        "Ti" => billionths << 40,
        "Pi" => billionths << 50,
        "Ei" => billionths << 60,
        unit => panic!("{written}: unknown suffix {unit:?}"),
    }
}
