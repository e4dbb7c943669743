//! Compares the linter with brute force on random policies.

use rhumb_netpol::lint::{LintWarning, lint_policy};
use serde_json::{Map, Value, json};

use crate::reference_evaluator::{ReferenceCidr, list, selector_matches, text};
use crate::seeds::multiplier;
use rhumb_seeded_rng::SeededRng;

const KEYS: [&str; 3] = ["app", "tier", "zone"];
const VALUES: [&str; 3] = ["x", "y", "z"];

fn selector(rng: &mut SeededRng) -> Value {
    let mut selector = json!({});
    if rng.percent(50) {
        selector["matchLabels"] = json!({*rng.pick(&KEYS): rng.pick(&VALUES)});
    }
    let count = rng.below(5);
    selector["matchExpressions"] = (0..count).map(|_| expression(rng)).collect();
    selector
}

fn expression(rng: &mut SeededRng) -> Value {
    let key = rng.pick(&KEYS);
    let values: Vec<_> = (0..rng.between(1, 2)).map(|_| rng.pick(&VALUES)).collect();
    match rng.below(10) {
        0..4 => json!({"key": key, "operator": "In", "values": values}),
        4..7 => json!({"key": key, "operator": "NotIn", "values": values}),
        7 | 8 => json!({"key": key, "operator": "Exists"}),
        _ => json!({"key": key, "operator": "DoesNotExist"}),
    }
}

fn peer(rng: &mut SeededRng) -> Value {
    match rng.below(4) {
        0 => json!({"podSelector": selector(rng)}),
        1 => json!({"namespaceSelector": selector(rng)}),
        2 => json!({"podSelector": selector(rng), "namespaceSelector": selector(rng)}),
        _ => block(rng),
    }
}

/// A CIDR with `except` entries inside and outside of it.
fn block(rng: &mut SeededRng) -> Value {
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
    let pool = if rng.percent(60) { &v4[..] } else { &v6[..] };
    let cidr = *rng.pick(pool);
    let excepts: Vec<_> = (0..rng.below(3)).map(|_| *rng.pick(pool)).collect();
    json!({"ipBlock": {"cidr": cidr, "except": excepts}})
}

fn spec(rng: &mut SeededRng) -> Value {
    let rules = |rng: &mut SeededRng, field: &str| -> Value {
        let rule = |rng: &mut SeededRng| -> Value {
            let peers: Value = (0..rng.below(3)).map(|_| peer(rng)).collect();
            json!({field: peers})
        };
        (0..rng.below(3)).map(|_| rule(rng)).collect()
    };
    json!({
        "podSelector": selector(rng), "policyTypes": ["Ingress", "Egress"],
        "ingress": rules(rng, "from"), "egress": rules(rng, "to"),
    })
}

/// Whether no labels match: tries all keys with all values in use, another value, and none.
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
        .any(|labels| selector_matches(selector, &Value::Object(labels)))
}

/// The expected warnings: the reason, and what the message must contain.
fn wanted(spec: &Value) -> Vec<(&'static str, String)> {
    let mut wanted = Vec::new();
    let mut check_one = |selector: &Value, field_path: String| {
        if !selector.is_null() && never_matches(selector) {
            wanted.push(("SelectorNeverMatches", field_path));
        }
    };
    check_one(&spec["podSelector"], "spec.podSelector".to_owned());
    for (field_path, peer) in peers(spec) {
        for field in ["podSelector", "namespaceSelector"] {
            check_one(&peer[field], format!("{field_path}.{field}"));
        }
    }
    for (field_path, peer) in peers(spec) {
        let block = &peer["ipBlock"];
        let Some(cidr) = ReferenceCidr::parse(text(&block["cidr"])) else {
            continue;
        };
        for cidr in [&block["cidr"]].into_iter().chain(list(&block["except"])) {
            if ReferenceCidr::parse(text(cidr)).is_some_and(|cidr| cidr.is_ambiguous) {
                wanted.push(("AmbiguousCIDR", text(cidr).to_owned()));
            }
        }
        let excepts = list(&block["except"]).iter();
        let excepts: Vec<ReferenceCidr> = excepts
            .filter_map(|except| ReferenceCidr::parse(text(except)))
            .collect();
        let is_apart = |except: &&ReferenceCidr| !except.covers(&cidr) && !cidr.covers(except);
        for _ in excepts.iter().filter(is_apart) {
            wanted.push(("ExceptOutsideBlock", field_path.clone()));
        }
        if !cidr.has_addresses_outside(&excepts) {
            wanted.push(("ExceptCoversBlock", field_path));
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
fn lint_warnings_agree_with_exhaustive_search() {
    let mut seen = [0; 2];
    for seed in 0..800 * multiplier() {
        let spec = spec(&mut SeededRng::new(seed));
        let wanted = wanted(&spec);
        let mut found = lint_policy(&serde_json::from_value(spec.clone()).expect("valid spec"));
        seen[usize::from(wanted.is_empty())] += 1;
        for (reason, field_path) in &wanted {
            let is_same = |warning: &LintWarning| {
                warning.reason == *reason && warning.message.contains(field_path)
            };
            let at = found.iter().position(is_same);
            let at = at.unwrap_or_else(|| {
                panic!("seed {seed}: no {reason} at {field_path} in {found:#?}: {spec}")
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
