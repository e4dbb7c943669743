//! Defects that can be told from a policy alone, against trying everything out.

use rhumb_netpol::flaws::{Flaw, find};
use serde_json::{Map, Value, json};

use crate::dice::Dice;
use crate::evaluator::{Block, list, picks, text};
use crate::seeds::multiplier;

const KEYS: [&str; 3] = ["app", "tier", "zone"];
const VALUES: [&str; 3] = ["x", "y", "z"];

fn selector(dice: &mut Dice) -> Value {
    let mut selector = json!({});
    if dice.percent(50) {
        selector["matchLabels"] = json!({*dice.pick(&KEYS): dice.pick(&VALUES)});
    }
    let count = dice.below(5);
    selector["matchExpressions"] = (0..count).map(|_| expression(dice)).collect();
    selector
}

fn expression(dice: &mut Dice) -> Value {
    let key = dice.pick(&KEYS);
    let values: Vec<_> = (0..dice.between(1, 2))
        .map(|_| dice.pick(&VALUES))
        .collect();
    match dice.below(10) {
        0..4 => json!({"key": key, "operator": "In", "values": values}),
        4..7 => json!({"key": key, "operator": "NotIn", "values": values}),
        7 | 8 => json!({"key": key, "operator": "Exists"}),
        _ => json!({"key": key, "operator": "DoesNotExist"}),
    }
}

fn peer(dice: &mut Dice) -> Value {
    match dice.below(4) {
        0 => json!({"podSelector": selector(dice)}),
        1 => json!({"namespaceSelector": selector(dice)}),
        2 => json!({"podSelector": selector(dice), "namespaceSelector": selector(dice)}),
        _ => block(dice),
    }
}

/// A block, and excepts that are parts of it or not.
fn block(dice: &mut Dice) -> Value {
    let v4 = [
        "10.0.0.0/8",
        "10.0.0.0/24",
        "10.0.0.5/24",
        "10.1.0.0/16",
        "10.0.0.128/25",
        "010.0.0.7/32",
    ];
    let v6 = [
        "fd00::/16",
        "fd00::/64",
        "fd00::5/64",
        "fd00:0:0:1::/64",
        "fd00::8000/113",
    ];
    let pool = if dice.percent(60) { &v4[..] } else { &v6[..] };
    let cidr = *dice.pick(pool);
    let excepts: Vec<_> = (0..dice.below(3)).map(|_| *dice.pick(pool)).collect();
    json!({"ipBlock": {"cidr": cidr, "except": excepts}})
}

fn spec(dice: &mut Dice) -> Value {
    let rules = |dice: &mut Dice, field: &str| -> Value {
        let rule = |dice: &mut Dice| -> Value {
            let peers: Value = (0..dice.below(3)).map(|_| peer(dice)).collect();
            json!({field: peers})
        };
        (0..dice.below(3)).map(|_| rule(dice)).collect()
    };
    json!({
        "podSelector": selector(dice), "policyTypes": ["Ingress", "Egress"],
        "ingress": rules(dice, "from"), "egress": rules(dice, "to"),
    })
}

/// Whether no labels at all would do: all keys that are written of, with all values, another one, and none.
fn never_matches(selector: &Value) -> bool {
    let mut tried: Vec<Map<String, Value>> = vec![Map::new()];
    for key in KEYS {
        for without in tried.clone() {
            for value in VALUES.iter().chain(&["other"]) {
                let mut labels = without.clone();
                labels.insert(key.to_owned(), json!(value));
                tried.push(labels);
            }
        }
    }
    !tried
        .into_iter()
        .any(|labels| picks(selector, &Value::Object(labels)))
}

/// What is wrong: the reason, and what the message has to name.
fn wanted(spec: &Value) -> Vec<(&'static str, String)> {
    let mut wanted = Vec::new();
    let mut look_at = |selector: &Value, place: String| {
        if !selector.is_null() && never_matches(selector) {
            wanted.push(("SelectorNeverMatches", place));
        }
    };
    look_at(&spec["podSelector"], "spec.podSelector".to_owned());
    for (place, peer) in peers(spec) {
        for field in ["podSelector", "namespaceSelector"] {
            look_at(&peer[field], format!("{place}.{field}"));
        }
    }
    for (place, peer) in peers(spec) {
        let block = &peer["ipBlock"];
        let Some(cidr) = Block::read(text(&block["cidr"])) else {
            continue;
        };
        for cidr in [&block["cidr"]].into_iter().chain(list(&block["except"])) {
            if Block::read(text(cidr)).is_some_and(|cidr| cidr.is_ambiguous) {
                wanted.push(("AmbiguousCIDR", text(cidr).to_owned()));
            }
        }
        let excepts = list(&block["except"]).iter();
        let excepts: Vec<Block> = excepts
            .filter_map(|except| Block::read(text(except)))
            .collect();
        let is_apart = |except: &&Block| !except.covers(&cidr) && !cidr.covers(except);
        for _ in excepts.iter().filter(is_apart) {
            wanted.push(("ExceptOutsideBlock", place.clone()));
        }
        if !cidr.has_rest(&excepts) {
            wanted.push(("ExceptCoversBlock", place));
        }
    }
    wanted
}

fn peers(spec: &Value) -> Vec<(String, &Value)> {
    let mut peers = Vec::new();
    for (rules, field) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(&spec[rules]).iter().enumerate() {
            for (number, peer) in list(&rule[field]).iter().enumerate() {
                peers.push((format!("spec.{rules}[{index}].{field}[{number}]"), peer));
            }
        }
    }
    peers
}

#[test]
fn flaws_are_found_where_trying_everything_out_finds_them() {
    let mut seen = [0; 2];
    for seed in 0..800 * multiplier() {
        let spec = spec(&mut Dice::new(seed));
        let wanted = wanted(&spec);
        let mut found = find(&serde_json::from_value(spec.clone()).expect("a spec"));
        seen[usize::from(wanted.is_empty())] += 1;
        for (reason, place) in &wanted {
            let is_it = |flaw: &Flaw| flaw.reason == *reason && flaw.message.contains(place);
            let at = found.iter().position(is_it);
            let at = at.unwrap_or_else(|| {
                panic!("seed {seed}: no {reason} at {place} in {found:#?}: {spec}")
            });
            found.remove(at);
        }
        assert!(
            found.is_empty(),
            "seed {seed}: there is no {found:#?} in {spec}"
        );
    }
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}
