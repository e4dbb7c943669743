//! Random objects and watch requests for the oracle tests.

use std::collections::BTreeMap;

use rhumb_cache::{WatchRequest, WatchScope, WatchStart};
use rhumb_meta::labels;
use rhumb_store_conformance::SeededRng;

/// A random object in the oracle's model.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomObject {
    pub labels: BTreeMap<&'static str, &'static str>,
    pub node: &'static str,
    pub phase: &'static str,
}

impl RandomObject {
    pub fn random(random: &mut SeededRng) -> Self {
        let mut labels = BTreeMap::new();
        for key in ["app", "tier", "size"] {
            if random.below(3) > 0 {
                labels.insert(key, choose(random, &["a", "b", "c", "1", "5", "9"]));
            }
        }
        RandomObject {
            labels,
            node: choose(random, &["", "n1", "n2", "n3"]),
            phase: choose(random, &["Pending", "Running"]),
        }
    }

    pub fn to_stored(&self) -> String {
        let labels = self
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<_> = labels.collect();
        format!("{};{},{};x", labels.join(","), self.node, self.phase)
    }
}

pub fn choose<T: Copy>(random: &mut SeededRng, from: &[T]) -> T {
    from[random.below(from.len())]
}

pub fn random_request(random: &mut SeededRng) -> WatchRequest {
    let label_selectors = [
        "",
        "",
        "app=a",
        "app=b",
        "tier==c",
        "app in (a,b)",
        "app in (a,b),tier=c",
        "app",
        "!app",
        "app!=a",
        "tier notin (a,b)",
        "size>3",
        "size<6,app",
        "app=a,tier=b",
        "app=a,app=b",
        "size in (1,5,9),tier",
        "other=x",
    ];
    let field_selectors = [
        "",
        "",
        "",
        "node=n1",
        "node=",
        "node!=n2",
        "phase=Running",
        "phase=Pending,node=n1",
        "metadata.name=o3",
        "metadata.namespace=ns1",
        "metadata.name=o2,metadata.namespace=ns0",
        "metadata.name!=o1",
        "unknown=",
        "unknown=x",
    ];
    let scope = match random.below(6) {
        0 | 1 => WatchScope::Namespace(format!("ns{}", random.below(3)).into()),
        2 => WatchScope::Object {
            namespace: Some(format!("ns{}", random.below(3)).into()),
            name: format!("o{}", random.below(6)).into(),
        },
        _ => WatchScope::All,
    };
    let nothing = random.below(40) == 0;
    WatchRequest {
        start: choose(random, &[WatchStart::Latest, WatchStart::InitialList]),
        scope,
        labels: match nothing {
            true => labels::Selector::nothing(),
            false => choose(random, &label_selectors)
                .parse()
                .expect("a selector"),
        },
        fields: choose(random, &field_selectors)
            .parse()
            .expect("a selector"),
    }
}
