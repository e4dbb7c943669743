//! Affinity and anti-affinity between pods. Pods that look alike to terms are matched once, and terms that say the same
//! are looked at once, so that many thousands of pods take little time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::selectors::matches;
use super::{Objects, Placed, label, list, placed, text};

/// All pods of a namespace that have the same labels.
type Alike<'a> = HashMap<(&'a str, String), Vec<Placed<'a>>>;

/// Which pods terms are about.
struct Matching<'a> {
    namespaces: HashMap<&'a str, &'a Value>,
    alike: Alike<'a>,
}

impl<'a> Matching<'a> {
    fn new(objects: &Objects<'a>, placed: &[Placed<'a>]) -> Matching<'a> {
        let mut alike = Alike::new();
        for one in placed {
            let metadata = &one.pod["metadata"];
            let kind = (text(&metadata["namespace"]), metadata["labels"].to_string());
            alike.entry(kind).or_default().push(*one);
        }
        let namespaces = objects.namespaces.iter();
        Matching {
            namespaces: namespaces
                .map(|one| (super::name(one), &one["metadata"]["labels"]))
                .collect(),
            alike,
        }
    }

    /// The pods that all the terms of an owner are about.
    fn picked(&self, terms: &[Value], own: &str) -> Vec<Placed<'a>> {
        let alike = self.alike.iter().filter(|((namespace, _), pods)| {
            let labels = &pods[0].pod["metadata"]["labels"];
            terms.iter().all(|term| {
                self.includes(term, own, namespace) && matches(&term["labelSelector"], labels)
            })
        });
        alike.flat_map(|(_, pods)| pods.iter().copied()).collect()
    }

    fn includes(&self, term: &Value, own: &str, namespace: &str) -> bool {
        let (names, selector) = (list(&term["namespaces"]), &term["namespaceSelector"]);
        if names.is_empty() && selector.is_null() {
            return namespace == own;
        }
        let labels = self
            .namespaces
            .get(namespace)
            .copied()
            .unwrap_or(&Value::Null);
        names.iter().any(|name| name == namespace) || matches(selector, labels)
    }
}

fn required<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    list(&pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"])
}

fn own_namespace(pod: &Value) -> &str {
    text(&pod["metadata"]["namespace"])
}

/// Pods in a domain that required anti-affinity of another one there keeps them out of.
pub(super) fn repelled(objects: &Objects<'_>, placed: &[Placed<'_>]) -> Vec<String> {
    let matching = Matching::new(objects, placed);
    let mut owners: BTreeMap<(String, &str), (&Value, Vec<Placed<'_>>)> = BTreeMap::new();
    for one in placed {
        for term in required(one.pod, "podAntiAffinity") {
            let said = (term.to_string(), own_namespace(one.pod));
            let (_, owners) = owners.entry(said).or_insert((term, Vec::new()));
            owners.push(*one);
        }
    }
    let mut found = Vec::new();
    for ((_, own), (term, owners)) in owners {
        let key = text(&term["topologyKey"]);
        let mut picked: HashMap<&str, Vec<Placed<'_>>> = HashMap::new();
        for one in matching.picked(std::slice::from_ref(term), own) {
            if let Some(value) = label(one.node, key) {
                picked.entry(value).or_default().push(one);
            }
        }
        for owner in owners {
            let there = label(owner.node, key).and_then(|value| picked.get(value));
            let mut others = there.into_iter().flatten();
            if let Some(other) = others.find(|one| !std::ptr::eq(one.pod, owner.pod)) {
                found.push(format!(
                    "{owner}: its anti-affinity by {key} keeps {other} away"
                ));
            }
        }
    }
    found
}

/// Pods whose required affinity nobody meets. Only the first of a group meets its own, and it is there: so this holds
/// in whatever order they came, as long as none of them was deleted or relabelled.
pub(crate) fn unattracted(objects: &Objects<'_>) -> Vec<String> {
    let (placed, _) = placed(objects);
    let matching = Matching::new(objects, &placed);
    let mut owners: BTreeMap<(String, &str), Vec<Placed<'_>>> = BTreeMap::new();
    for one in &placed {
        let terms = required(one.pod, "podAffinity");
        if !terms.is_empty() {
            let said = (Value::from(terms).to_string(), own_namespace(one.pod));
            owners.entry(said).or_default().push(*one);
        }
    }
    let mut found = Vec::new();
    for ((_, own), owners) in owners {
        let terms = required(owners[0].pod, "podAffinity");
        let picked = matching.picked(terms, own);
        for term in terms {
            let key = text(&term["topologyKey"]);
            let domains: BTreeSet<&str> = picked
                .iter()
                .filter_map(|one| label(one.node, key))
                .collect();
            for owner in &owners {
                if !label(owner.node, key).is_some_and(|value| domains.contains(value)) {
                    found.push(format!(
                        "{owner}: nobody is there whom its affinity is about"
                    ));
                }
            }
        }
    }
    found
}
