//! What pods ask for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::list;

/// In billionths, so that all that can be written is whole.
pub(super) type Amounts = BTreeMap<String, i128>;

const ONE: i128 = 1_000_000_000;

/// Containers and sidecars together; or, if that is more, one that comes before with the sidecars before it. And that
/// it is one pod.
pub(super) fn requests(pod: &Value) -> Amounts {
    let spec = &pod["spec"];
    let of = |container: &Value| amounts(&container["resources"]["requests"]);
    let mut together = Amounts::new();
    for container in list(&spec["containers"]) {
        add(&mut together, of(container));
    }
    let (mut sidecars, mut before) = (Amounts::new(), Amounts::new());
    for container in list(&spec["initContainers"]) {
        let mut needed = sidecars.clone();
        add(&mut needed, of(container));
        if container["restartPolicy"] == "Always" {
            sidecars.clone_from(&needed);
            add(&mut together, of(container));
        }
        raise(&mut before, needed);
    }
    raise(&mut together, before);
    together.extend(amounts(&spec["resources"]["requests"]));
    add(&mut together, amounts(&spec["overhead"]));
    together.insert("pods".to_owned(), ONE);
    together
}

fn add(sum: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        *sum.entry(name).or_default() += amount;
    }
}

fn raise(most: &mut Amounts, to: Amounts) {
    for (name, amount) in to {
        let most = most.entry(name).or_default();
        *most = amount.max(*most);
    }
}

pub(super) fn amounts(list: &Value) -> Amounts {
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
        unit => panic!("{written}: unit {unit:?}"),
    }
}
