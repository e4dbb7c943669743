//! Compares compiled webhooks with the exclusion oracle on random rules and requests: a webhook without its exclusion
//! rules must be called for the same requests.

use std::collections::BTreeMap;

use rhumb_expressions::Environment;
use rhumb_seeded_rng::SeededRng;
use serde_json::{Value, json};

use super::*;
use crate::explain::ExplainedWrite;
use crate::match_attributes::ResourceAndKind;
use crate::match_conditions::{MatchConditions, MatchConditionsResult};
use crate::match_criteria_oracle::{
    CASES, ComparedMatchOutcome, EQUIVALENT_RESOURCES, RandomMatchCase, TestEquivalentResources,
    actual_outcome, oracle_outcome, random_case, resource_and_kind,
};
use crate::review::UserInfo;
use crate::webhook::FailurePolicy;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn resource_sets() -> EquivalentResourceSets {
    let set = |resources: &TestEquivalentResources| {
        let resources = resources.iter();
        let mut set: Vec<_> = resources
            .map(|gvr| resource_and_kind(gvr).resource)
            .collect();
        set.sort();
        set
    };
    let mut sets: Vec<_> = EQUIVALENT_RESOURCES.iter().map(set).collect();
    sets.sort();
    sets.dedup();
    EquivalentResourceSets(sets)
}

/// A case in which most rules can be compiled: selectors that need labels are rare, and the labels of the namespace are
/// known.
fn compilable_case(random: &mut SeededRng) -> RandomMatchCase {
    let mut case = random_case(random);
    let labels = case.namespace_labels.get_or_insert_default();
    labels.insert(NAME_LABEL.to_owned(), case.namespace.to_owned());
    let rules = case.webhook["excludeResourceRules"]
        .as_array_mut()
        .expect("a list");
    for rule in rules {
        let selector = &rule["namespaceSelector"];
        if !selector.is_null() && *selector != json!({}) && !random.one_in(6) {
            rule["namespaceSelector"] = name_selector(random);
        } else if random.one_in(3) {
            // So that some selectors can be moved to the webhook.
            for list in ["apiGroups", "apiVersions", "operations"] {
                rule[list] = json!(["*"]);
            }
            rule["resources"] = json!(["*/*"]);
            rule["resourceNames"] = json!([]);
            rule["namespaces"] = json!([]);
        }
    }
    // Most random rules match no request.
    if !random.one_in(4) {
        let rules = case.webhook["rules"].as_array_mut().expect("a list");
        rules.push(json!({
            "apiGroups": ["*"], "apiVersions": random.choose(&[["*"], ["v1"], ["v2"]]), "operations": ["*"],
            "resources": ["*/*"],
        }));
        case.webhook["objectSelector"] = Value::Null;
    }
    if random.one_in(3) {
        for rule in case.webhook["rules"].as_array_mut().expect("a list") {
            rule["scope"] = json!("Namespaced");
        }
    }
    case
}

fn name_selector(random: &mut SeededRng) -> Value {
    let operator = random.choose(&["In", "NotIn", "Exists", "DoesNotExist"]);
    match operator {
        "In" | "NotIn" => json!({"matchExpressions": [
            {"key": NAME_LABEL, "operator": operator, "values": [random.choose(&["n1", "n2"]), "n3"]},
        ]}),
        _ => json!({"matchExpressions": [{"key": NAME_LABEL, "operator": operator}]}),
    }
}

/// Whether the conditions of a webhook are true for the request, as which its rules matched it.
fn conditions_met(case: &RandomMatchCase, webhook: &Map<String, Value>, matched: usize) -> bool {
    let names: Vec<ResourceAndKind> = case.resources.iter().map(resource_and_kind).collect();
    let conditions = webhook.get("matchConditions").unwrap_or(&Value::Null);
    let conditions = MatchConditions::compile(conditions, &Environment::match_conditions());
    let write = ExplainedWrite {
        attributes: case.attributes(&names),
        object: None,
        old_object: None,
        namespace: None,
        user: UserInfo {
            username: "",
            uid: "",
            groups: &[],
            extra: &BTreeMap::new(),
        },
        dry_run: false,
    };
    match write.evaluate_conditions(&conditions, None, &names[matched], FailurePolicy::Fail) {
        MatchConditionsResult::Matched => true,
        MatchConditionsResult::NotMatched { .. } => false,
        error => panic!("{error:?}: {case:#?} {webhook:#?}"),
    }
}

#[test]
fn compiled_conditions_agree_with_the_exclusion_oracle() {
    let mut random = SeededRng::new(0xce1);
    let sets = resource_sets();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut compared = 0;
    while compared < CASES {
        let mut case = compilable_case(&mut random);
        let webhook = case.webhook.as_object().expect("an object").clone();
        let Ok(compiled) = compile_webhook(&webhook, &sets) else {
            *counts.entry("refused".to_owned()).or_default() += 1;
            continue;
        };
        compared += 1;
        let expected = oracle_outcome(&case);
        case.webhook = Value::Object(compiled.webhook.clone());
        let actual = match actual_outcome(&case) {
            ComparedMatchOutcome::Matched(at) => conditions_met(&case, &compiled.webhook, at),
            ComparedMatchOutcome::NotMatched => false,
            other => panic!("{other:?}: {case:#?}"),
        };
        let is_called = matches!(expected, ComparedMatchOutcome::Matched(_));
        assert_eq!(actual, is_called, "{expected:?}: {webhook:#?} {case:#?}");
        *counts.entry(format!("{expected:?}")).or_default() += 1;
        if !compiled.notes.is_empty() {
            *counts.entry("moved or with notes".to_owned()).or_default() += 1;
        }
    }
    // Matched as two resources, excluded, not matched, refused, with notes: each often enough.
    assert_eq!(counts.len(), 6, "{counts:?}");
    assert!(counts.values().all(|&count| count > 500), "{counts:?}");
}
