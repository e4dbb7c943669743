//! Matching beside an evaluator that is written plainly from the documented order, on random rules and requests.

use std::collections::BTreeMap;

use rhumb_meta::labels::{LabelSelector, Labels};
use rhumb_meta::{GroupVersionKind, GroupVersionResource, Status};
use serde_json::{Value, json};

use crate::criteria::{Criteria, Outcome, Reading};
use crate::facts::{Facts, LabelSets, Names, Operation};

/// How many random requests are compared.
const CASES: usize = 60_000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Everything, or up to three of them.
    fn words(&mut self, from: &[&str]) -> Vec<String> {
        if self.one_in(2) {
            return vec!["*".to_owned()];
        }
        self.some(from, 3)
    }

    fn some(&mut self, from: &[&str], at_most: usize) -> Vec<String> {
        (0..self.below(at_most + 1))
            .map(|_| self.pick(from).to_owned())
            .collect()
    }
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

/// A request that can be asked for by any of these.
type Asked = &'static [(&'static str, &'static str, &'static str)];

const ASKED: &[Asked] = &[
    &[("", "v1", "pods")],
    &[("", "v1", "events"), ("events.k8s.io", "v1", "events")],
    &[("events.k8s.io", "v1", "events"), ("", "v1", "events")],
    &[("apps", "v1", "pods"), ("apps", "v2", "pods")],
    &[("", "v1", "namespaces")],
    &[("", "v1", "nodes")],
];

#[derive(Debug)]
struct Case {
    webhook: Value,
    asked: Asked,
    operation: Operation,
    subresource: &'static str,
    name: &'static str,
    namespace: &'static str,
    namespace_labels: Option<BTreeMap<String, String>>,
    object: Option<BTreeMap<String, String>>,
    old: Option<BTreeMap<String, String>>,
}

fn random_selector(random: &mut Random) -> Value {
    match random.below(7) {
        0 => json!({}),
        1 => json!({"matchLabels": {"a": "1"}}),
        2 => json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}),
        3 => json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}),
        _ => Value::Null,
    }
}

fn random_labels(random: &mut Random) -> Option<BTreeMap<String, String>> {
    match random.below(4) {
        0 => None,
        1 => Some(BTreeMap::new()),
        2 => Some(BTreeMap::from([("a".into(), "1".into())])),
        _ => Some(BTreeMap::from([("b".into(), "2".into())])),
    }
}

fn random_rule(random: &mut Random) -> Value {
    json!({
        "apiGroups": random.words(GROUPS), "apiVersions": random.words(VERSIONS),
        "resources": random.words(RESOURCES), "operations": random.words(OPERATIONS),
        "scope": random.pick(SCOPES),
    })
}

fn random_exclusion(random: &mut Random) -> Value {
    let mut rule = random_rule(random);
    rule["resourceNames"] = json!(random.some(NAMES, 1));
    rule["namespaces"] = json!(random.some(NAMESPACES, 1));
    rule["namespaceSelector"] = random_selector(random);
    rule
}

fn random_case(random: &mut Random) -> Case {
    let rules: Vec<Value> = (0..1 + random.below(2))
        .map(|_| random_rule(random))
        .collect();
    let exclusions: Vec<Value> = (0..random.below(3))
        .map(|_| random_exclusion(random))
        .collect();
    let asked: Asked = random.pick(ASKED);
    let is_inside = !matches!(asked[0].2, "namespaces" | "nodes");
    let operation = random.pick(&Operation::ALL);
    Case {
        webhook: json!({
            "rules": rules, "excludeResourceRules": exclusions,
            "matchPolicy": random.pick(&["Exact", "Equivalent"]),
            "namespaceSelector": random_selector(random), "objectSelector": random_selector(random),
        }),
        asked,
        operation,
        subresource: random.pick(&["", "", "status"]),
        name: random.pick(&["", "x", "y"]),
        namespace: match asked[0].2 {
            "namespaces" if operation != Operation::Create => "n1",
            _ if is_inside => random.pick(NAMESPACES),
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

fn names_of(asked: &(&'static str, &'static str, &'static str)) -> Names {
    Names {
        resource: GroupVersionResource::new(asked.0, asked.1, asked.2),
        kind: GroupVersionKind::new(asked.0, asked.1, "Kind"),
    }
}

/// Whether a rule is about a request; an absent list is everything where `open`.
fn rule_fits(rule: &Value, case: &Case, asked: (&str, &str, &str), open: bool) -> bool {
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
            (own == "*" || own == asked.2) && (sub == "*" || sub == case.subresource)
        });
    let is_namespace = asked == ("", "v1", "namespaces");
    let inside = !case.namespace.is_empty() && !is_namespace;
    let scope = match rule["scope"].as_str() {
        Some("Cluster") => !inside,
        Some("Namespaced") => inside,
        _ => true,
    };
    let names = list(&rule["resourceNames"]);
    word("apiGroups", asked.0)
        && word("apiVersions", asked.1)
        && word("operations", case.operation.as_str())
        && resource
        && scope
        && (names.is_empty() || names.contains(&case.name))
}

fn exclusion_fits(rule: &Value, case: &Case, asked: (&str, &str, &str)) -> bool {
    let inside = !case.namespace.is_empty() && case.asked[0].2 != "namespaces";
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
    rule_fits(rule, case, asked, true) && by_name && by_selector
}

fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let selector: LabelSelector = serde_json::from_value(selector.clone()).expect("a selector");
    let selector = LabelSelector::to_selector(Some(&selector)).expect("a selector");
    selector.matches(labels)
}

#[derive(Debug, PartialEq)]
enum Expected {
    /// Under which of the names.
    Seen(usize),
    Excluded,
    NotSeen,
    Failed,
}

/// In the documented order: namespaceSelector, objectSelector, exclusion, rules; a selector that failed counts only
/// if a rule matched.
fn expected(case: &Case) -> Expected {
    let everything = |selector: &Value| selector.is_null() || *selector == json!({});
    let selector = &case.webhook["namespaceSelector"];
    let outside = case.namespace.is_empty() && case.asked[0].2 != "namespaces";
    let mut failed = false;
    if !outside && !everything(selector) {
        match &case.namespace_labels {
            None => failed = true,
            Some(labels) if !selects(selector, labels) => return Expected::NotSeen,
            Some(_) => {}
        }
    }
    let selector = &case.webhook["objectSelector"];
    let states = [&case.object, &case.old];
    if !everything(selector)
        && !states
            .iter()
            .any(|labels| labels.as_ref().is_some_and(|it| selects(selector, it)))
    {
        return Expected::NotSeen;
    }
    let reach = if case.webhook["matchPolicy"] == "Exact" {
        1
    } else {
        case.asked.len()
    };
    let rules = |field: &str| case.webhook[field].as_array().cloned().unwrap_or_default();
    let excluded = rules("excludeResourceRules").iter().any(|rule| {
        case.asked[..reach]
            .iter()
            .any(|&asked| exclusion_fits(rule, case, asked))
    });
    let fitting = (0..reach).find(|&at| {
        rules("rules")
            .iter()
            .any(|rule| rule_fits(rule, case, case.asked[at], false))
    });
    match fitting {
        None => Expected::NotSeen,
        Some(_) if excluded => Expected::Excluded,
        Some(_) if failed => Expected::Failed,
        Some(at) => Expected::Seen(at),
    }
}

fn decided(case: &Case) -> Expected {
    let names: Vec<Names> = case.asked.iter().map(names_of).collect();
    let facts = Facts {
        operation: case.operation,
        asked: &names[0],
        equivalents: &names[1..],
        subresource: case.subresource,
        name: case.name,
        namespace: case.namespace,
    };
    let missing = Status::internal_error("no namespace");
    let labels = LabelSets {
        namespace: case
            .namespace_labels
            .as_ref()
            .map(|it| it as &dyn Labels)
            .ok_or(&missing),
        object: case.object.as_ref().map(|it| it as &dyn Labels),
        old: case.old.as_ref().map(|it| it as &dyn Labels),
    };
    let criteria = Criteria::of_webhook(&case.webhook, Reading { exclusions: true });
    match criteria.decide(&facts, &labels) {
        Outcome::Seen(seen) => Expected::Seen(
            names
                .iter()
                .position(|names| *names == seen)
                .expect("one of them"),
        ),
        Outcome::Excluded { .. } => Expected::Excluded,
        Outcome::Failed(_) => Expected::Failed,
        Outcome::NoRule | Outcome::OtherNamespace | Outcome::OtherObject => Expected::NotSeen,
    }
}

#[test]
fn random_requests_are_seen_by_whom_the_oracle_says() {
    let mut random = Random(0x5eed);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..CASES {
        let case = random_case(&mut random);
        let want = expected(&case);
        assert_eq!(decided(&case), want, "case {number}: {case:#?}");
        *seen.entry(format!("{want:?}")).or_default() += 1;
        // A webhook that could not have exclusions is asked as if it had none.
        if random.one_in(8) {
            let mut without = case;
            without.webhook["excludeResourceRules"] = Value::Null;
            assert_ne!(expected(&without), Expected::Excluded);
            assert_eq!(decided(&without), expected(&without));
        }
    }
    // Each kind of answer is there often enough to mean something.
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen.values().all(|&count| count > 100), "{seen:?}");
}
