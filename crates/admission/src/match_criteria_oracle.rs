//! Compares [`MatchCriteria`] with a reference evaluator, written plainly from the documented order, on random rules
//! and requests.

use std::collections::BTreeMap;

use rhumb_meta::labels::{LabelSelector, Labels};
use rhumb_meta::{GroupVersionKind, GroupVersionResource, Status};
use rhumb_seeded_rng::SeededRng;
use serde_json::{Value, json};

use crate::match_attributes::{MatchAttributes, Operation, ResourceAndKind, SelectorLabels};
use crate::match_criteria::{CriteriaFeatures, MatchCriteria, MatchOutcome};

/// The number of random requests.
pub(crate) const CASES: usize = 60_000;

/// `*`, or up to three of the values.
fn wildcard_or_some(random: &mut SeededRng, from: &[&str]) -> Vec<String> {
    if random.one_in(2) {
        return vec!["*".to_owned()];
    }
    random.some(from, 3)
}

const GROUPS: &[&str] = &["", "apps", "events.k8s.io", "*"];
const VERSIONS: &[&str] = &["v1", "v2", "*"];
const RESOURCES: &[&str] = &[
    "pods",
    "events",
    "namespaces",
    "nodes",
    "*",
    "*/*",
    "pods/*",
    "*/status",
    "pods/status",
];
const OPERATIONS: &[&str] = &["CREATE", "UPDATE", "DELETE", "CONNECT", "*"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const NAMES: &[&str] = &["x", "y"];
const NAMESPACES: &[&str] = &["n1", "n2"];

/// The equivalent (group, version, resource) triples of a request; the first is the requested one.
pub(crate) type TestEquivalentResources = &'static [(&'static str, &'static str, &'static str)];

pub(crate) const EQUIVALENT_RESOURCES: &[TestEquivalentResources] = &[
    &[("", "v1", "pods")],
    &[("", "v1", "events"), ("events.k8s.io", "v1", "events")],
    &[("events.k8s.io", "v1", "events"), ("", "v1", "events")],
    &[("apps", "v1", "pods"), ("apps", "v2", "pods")],
    &[("", "v1", "namespaces")],
    &[("", "v1", "nodes")],
];

#[derive(Debug)]
pub(crate) struct RandomMatchCase {
    pub(crate) webhook: Value,
    pub(crate) resources: TestEquivalentResources,
    pub(crate) operation: Operation,
    pub(crate) subresource: &'static str,
    pub(crate) name: &'static str,
    pub(crate) namespace: &'static str,
    pub(crate) namespace_labels: Option<BTreeMap<String, String>>,
    pub(crate) object: Option<BTreeMap<String, String>>,
    pub(crate) old: Option<BTreeMap<String, String>>,
}

fn random_selector(random: &mut SeededRng) -> Value {
    match random.below(7) {
        0 => json!({}),
        1 => json!({"matchLabels": {"a": "1"}}),
        2 => json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}),
        3 => json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}),
        _ => Value::Null,
    }
}

fn random_labels(random: &mut SeededRng) -> Option<BTreeMap<String, String>> {
    match random.below(4) {
        0 => None,
        1 => Some(BTreeMap::new()),
        2 => Some(BTreeMap::from([("a".into(), "1".into())])),
        _ => Some(BTreeMap::from([("b".into(), "2".into())])),
    }
}

fn random_rule(random: &mut SeededRng) -> Value {
    json!({
        "apiGroups": wildcard_or_some(random, GROUPS), "apiVersions": wildcard_or_some(random, VERSIONS),
        "resources": wildcard_or_some(random, RESOURCES), "operations": wildcard_or_some(random, OPERATIONS),
        "scope": random.choose(SCOPES),
    })
}

fn random_exclusion(random: &mut SeededRng) -> Value {
    let mut rule = random_rule(random);
    rule["resourceNames"] = json!(random.some(NAMES, 1));
    rule["namespaces"] = json!(random.some(NAMESPACES, 1));
    rule["namespaceSelector"] = random_selector(random);
    rule
}

pub(crate) fn random_case(random: &mut SeededRng) -> RandomMatchCase {
    let rules: Vec<Value> = (0..1 + random.below(2))
        .map(|_| random_rule(random))
        .collect();
    let exclusions: Vec<Value> = (0..random.below(3))
        .map(|_| random_exclusion(random))
        .collect();
    let resources: TestEquivalentResources = random.choose(EQUIVALENT_RESOURCES);
    let is_inside = !matches!(resources[0].2, "namespaces" | "nodes");
    let operation = random.choose(&Operation::ALL);
    RandomMatchCase {
        webhook: json!({
            "rules": rules, "excludeResourceRules": exclusions,
            "matchPolicy": random.choose(&["Exact", "Equivalent"]),
            "namespaceSelector": random_selector(random), "objectSelector": random_selector(random),
        }),
        resources,
        operation,
        subresource: random.choose(&["", "", "status"]),
        name: random.choose(&["", "x", "y"]),
        namespace: match resources[0].2 {
            "namespaces" if operation != Operation::Create => "n1",
            _ if is_inside => random.choose(NAMESPACES),
            _ => "",
        },
        namespace_labels: random_labels(random),
        object: random_labels(random),
        old: random_labels(random),
    }
}

fn list(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

pub(crate) fn resource_and_kind(
    gvr: &(&'static str, &'static str, &'static str),
) -> ResourceAndKind {
    ResourceAndKind {
        resource: GroupVersionResource::new(gvr.0, gvr.1, gvr.2),
        kind: GroupVersionKind::new(gvr.0, gvr.1, "Kind"),
    }
}

/// Whether a rule matches a request; an absent list matches everything if `open`.
fn rule_matches(rule: &Value, case: &RandomMatchCase, gvr: (&str, &str, &str), open: bool) -> bool {
    let word = |field: &str, wanted: &str| {
        let words = list(&rule[field]);
        (open && words.is_empty()) || words.iter().any(|&word| word == "*" || word == wanted)
    };
    let resources = list(&rule["resources"]);
    let resource = (open && resources.is_empty() && case.subresource.is_empty())
        || resources.iter().any(|pattern| {
            let mut parts = pattern.splitn(2, '/');
            let own = parts.next().unwrap_or_default();
            let sub = parts.next().unwrap_or_default();
            (own == "*" || own == gvr.2) && (sub == "*" || sub == case.subresource)
        });
    let is_namespace = gvr == ("", "v1", "namespaces");
    let inside = !case.namespace.is_empty() && !is_namespace;
    let scope = match rule["scope"].as_str() {
        Some("Cluster") => !inside,
        Some("Namespaced") => inside,
        _ => true,
    };
    let names = list(&rule["resourceNames"]);
    word("apiGroups", gvr.0)
        && word("apiVersions", gvr.1)
        && word("operations", case.operation.as_str())
        && resource
        && scope
        && (names.is_empty() || names.contains(&case.name))
}

fn exclusion_matches(rule: &Value, case: &RandomMatchCase, gvr: (&str, &str, &str)) -> bool {
    let inside = !case.namespace.is_empty() && case.resources[0].2 != "namespaces";
    let namespaces = list(&rule["namespaces"]);
    let selector = &rule["namespaceSelector"];
    let by_name = namespaces.is_empty() || (inside && namespaces.contains(&case.namespace));
    let by_selector = selector.is_null()
        || (inside
            && (*selector == json!({})
                || case
                    .namespace_labels
                    .as_ref()
                    .is_some_and(|labels| selects(selector, labels))));
    rule_matches(rule, case, gvr, true) && by_name && by_selector
}

fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let selector: LabelSelector =
        serde_json::from_value(selector.clone()).expect("a valid selector");
    let selector = LabelSelector::to_selector(Some(&selector)).expect("a valid selector");
    selector.matches(labels)
}

#[derive(Debug, PartialEq)]
pub(crate) enum ComparedMatchOutcome {
    /// The index of the matching resource.
    Matched(usize),
    Excluded,
    NotMatched,
    Failed,
}

/// The documented order: namespaceSelector, objectSelector, exclusion rules, rules. A failed selector counts only if a
/// rule matched.
pub(crate) fn oracle_outcome(case: &RandomMatchCase) -> ComparedMatchOutcome {
    let everything = |selector: &Value| selector.is_null() || *selector == json!({});
    let selector = &case.webhook["namespaceSelector"];
    let outside = case.namespace.is_empty() && case.resources[0].2 != "namespaces";
    let mut failed = false;
    if !outside && !everything(selector) {
        match &case.namespace_labels {
            None => failed = true,
            Some(labels) if !selects(selector, labels) => return ComparedMatchOutcome::NotMatched,
            Some(_) => {}
        }
    }
    let selector = &case.webhook["objectSelector"];
    // The options of a CONNECT request have no labels.
    let states = match case.operation {
        Operation::Connect => [&None, &None],
        _ => [&case.object, &case.old],
    };
    if !everything(selector)
        && !states
            .iter()
            .any(|labels| labels.as_ref().is_some_and(|it| selects(selector, it)))
    {
        return ComparedMatchOutcome::NotMatched;
    }
    let reach = if case.webhook["matchPolicy"] == "Exact" {
        1
    } else {
        case.resources.len()
    };
    let rules = |field: &str| case.webhook[field].as_array().cloned().unwrap_or_default();
    let excluded = rules("excludeResourceRules").iter().any(|rule| {
        case.resources[..reach]
            .iter()
            .any(|&gvr| exclusion_matches(rule, case, gvr))
    });
    let fitting = (0..reach).find(|&at| {
        rules("rules")
            .iter()
            .any(|rule| rule_matches(rule, case, case.resources[at], false))
    });
    match fitting {
        None => ComparedMatchOutcome::NotMatched,
        Some(_) if excluded => ComparedMatchOutcome::Excluded,
        Some(_) if failed => ComparedMatchOutcome::Failed,
        Some(at) => ComparedMatchOutcome::Matched(at),
    }
}

impl RandomMatchCase {
    /// `names` are those of `resources`.
    pub(crate) fn attributes<'a>(&'a self, names: &'a [ResourceAndKind]) -> MatchAttributes<'a> {
        MatchAttributes {
            operation: self.operation,
            requested: &names[0],
            equivalents: &names[1..],
            subresource: self.subresource,
            name: self.name,
            namespace: self.namespace,
        }
    }
}

pub(crate) fn actual_outcome(case: &RandomMatchCase) -> ComparedMatchOutcome {
    let names: Vec<ResourceAndKind> = case.resources.iter().map(resource_and_kind).collect();
    let attributes = case.attributes(&names);
    let missing = Status::internal_error("no namespace");
    let labels = SelectorLabels {
        namespace: case
            .namespace_labels
            .as_ref()
            .map(|it| it as &dyn Labels)
            .ok_or(&missing),
        object: case.object.as_ref().map(|it| it as &dyn Labels),
        old_object: case.old.as_ref().map(|it| it as &dyn Labels),
    };
    let criteria = MatchCriteria::of_webhook(
        &case.webhook,
        CriteriaFeatures {
            exclusion_rules: true,
        },
    );
    match criteria.evaluate(&attributes, &labels) {
        MatchOutcome::Matched(seen) => ComparedMatchOutcome::Matched(
            names
                .iter()
                .position(|names| *names == seen)
                .expect("the match is one of the candidates"),
        ),
        MatchOutcome::Excluded { .. } => ComparedMatchOutcome::Excluded,
        MatchOutcome::Failed(_) => ComparedMatchOutcome::Failed,
        MatchOutcome::NoRule
        | MatchOutcome::NamespaceNotSelected
        | MatchOutcome::ObjectNotSelected => ComparedMatchOutcome::NotMatched,
    }
}

#[test]
fn random_requests_match_like_the_oracle() {
    let mut random = SeededRng::new(0x5eed);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..CASES {
        let case = random_case(&mut random);
        let want = oracle_outcome(&case);
        assert_eq!(actual_outcome(&case), want, "case {number}: {case:#?}");
        *seen.entry(format!("{want:?}")).or_default() += 1;
        // Without exclusion rules, the outcome is never `Excluded`.
        if random.one_in(8) {
            let mut without = case;
            without.webhook["excludeResourceRules"] = Value::Null;
            assert_ne!(oracle_outcome(&without), ComparedMatchOutcome::Excluded);
            assert_eq!(actual_outcome(&without), oracle_outcome(&without));
        }
    }
    // Each outcome must occur often enough to be covered.
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen.values().all(|&count| count > 100), "{seen:?}");
}
