use serde_json::{Value, json};

use super::super::{NetworkPolicyStrategy, kind};
use super::*;
use crate::network_policy_versions::NetworkPolicyFeature as PolicyFeature;
use crate::{Kind, testing};

const GATE: Feature = Feature::NetworkPolicyVersioning;

fn off() -> FeatureGates {
    FeatureGates::default().with(GATE, false)
}

fn end_port() -> Value {
    json!({"ingress": [{"ports": [{"port": 1, "endPort": 2}]}]})
}

fn policy(spec: Value) -> Value {
    json!({ "spec": spec })
}

fn min_version(policy: &JsonObject) -> &str {
    fields::str(policy, MIN_VERSION)
}

/// A policy with `minVersion` set.
fn versioned(mut spec: Value, version: &str) -> Value {
    spec["minVersion"] = version.into();
    policy(spec)
}

fn accepted(made: (JsonObject, ErrorList)) -> JsonObject {
    let (made, errors) = made;
    assert!(errors.is_empty(), "{errors}");
    made
}

fn refused(made: (JsonObject, ErrorList)) -> Vec<String> {
    made.1.iter().map(ToString::to_string).collect()
}

fn create(value: Value) -> (JsonObject, ErrorList) {
    testing::create(&kind(), value, &FeatureGates::default())
}

fn update(old: Value, patch: Value) -> (JsonObject, ErrorList) {
    testing::update(&kind(), old, patch)
}

#[test]
fn absent_min_version_is_defaulted() {
    assert_eq!(min_version(&accepted(create(json!({})))), "1.3");
    assert_eq!(min_version(&accepted(create(policy(end_port())))), "1.21");
    let empty = versioned(end_port(), "");
    assert_eq!(min_version(&accepted(create(empty))), "1.21");
}

#[test]
fn defaulted_min_version_follows_spec_changes() {
    let old = versioned(json!({}), "1.3");
    let newer = accepted(update(old, policy(end_port())));
    assert_eq!(min_version(&newer), "1.21");
    let less = accepted(update(Value::Object(newer), policy(json!({"ingress": []}))));
    assert_eq!(min_version(&less), "1.3");
}

#[test]
fn min_version_removed_by_an_old_client_is_computed_again() {
    let patch = policy(json!({"minVersion": null, "egress": [{}]}));
    for stored in ["1.3", "1.21"] {
        let old = versioned(json!({}), stored);
        let made = accepted(update(old, patch.clone()));
        assert_eq!(min_version(&made), "1.8");
    }
}

#[test]
fn min_version_omitted_by_an_old_client_that_changes_nothing_else_is_kept() {
    for (stored, gates) in [
        ("1.21", FeatureGates::default()),
        ("1.12", off()),
        ("1.3", FeatureGates::default()),
    ] {
        let spec = json!({"podSelector": {}, "policyTypes": ["Ingress"]});
        let old = versioned(spec, stored);
        let patch = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"minVersion": null}});
        let made = accepted(testing::update_with(&kind(), old, patch, &gates));
        assert_eq!(min_version(&made), stored);
    }
}

#[test]
fn min_version_removed_by_a_patch_is_computed() {
    let (old, patch) = (
        versioned(json!({}), "1.21"),
        policy(json!({"minVersion": null})),
    );
    let gates = FeatureGates::default();
    for (is_patch, want) in [(true, "1.3"), (false, "1.21")] {
        let old = testing::object(&kind(), old.clone());
        let mut made = testing::patched(&old, patch.clone());
        let request = StrategyContext {
            is_patch,
            ..testing::request(&gates)
        };
        prepare(&mut made, Some(&old), &FeatureCatalog::builtin(), &request);
        assert_eq!(min_version(&made), want);
    }
}

#[test]
fn explicit_min_version_is_kept() {
    let made = accepted(create(versioned(end_port(), "1.21")));
    assert_eq!(min_version(&made), "1.21");
    let made = accepted(create(versioned(json!({}), "1.12")));
    assert_eq!(min_version(&made), "1.12");
    let made = accepted(update(Value::Object(made), policy(json!({"egress": [{}]}))));
    assert_eq!(min_version(&made), "1.12");
    let lower = policy(json!({"minVersion": "1.8"}));
    let made = accepted(update(Value::Object(made), lower));
    assert_eq!(min_version(&made), "1.8");
}

#[test]
fn unknown_min_version_is_rejected() {
    for version in ["1.4", "1.36", "1.21-alpha.1", "v1.3", "1.3 "] {
        let want = format!(
            "spec.minVersion: Unsupported value: \"{version}\": supported values: \"1.3\", \"1.8\", \"1.9\", \
             \"1.11\", \"1.12\", \"1.21\""
        );
        let new = versioned(json!({}), version);
        assert_eq!(refused(create(new.clone())), [want.as_str()]);
        assert_eq!(refused(update(json!({}), new)), [want]);
    }
}

#[test]
fn fields_beyond_explicit_min_version_are_rejected_by_path() {
    let mut spec = end_port();
    spec["egress"] = json!([{"to": [{"ipBlock": {"cidr": "fd00::/8"}}]}]);
    let needs = |field: &str, version: &str, asked: &str| {
        format!(
            "{field}: Forbidden: needs version {version} of network policies, but spec.minVersion is {asked}: set \
             that to 1.21, or leave it out"
        )
    };
    let block = "spec.egress[0].to[0].ipBlock";
    let end_port = "spec.ingress[0].ports[0].endPort";
    assert_eq!(
        refused(create(versioned(spec.clone(), "1.3"))),
        [
            needs("spec.egress", "1.8", "1.3"),
            needs(block, "1.8", "1.3"),
            needs(&format!("{block}.cidr"), "1.9", "1.3"),
            needs(end_port, "1.21", "1.3"),
        ]
    );
    let want = [needs(end_port, "1.21", "1.12")];
    assert_eq!(refused(create(versioned(spec.clone(), "1.12"))), want);
    let explicit = versioned(json!({}), "1.12");
    assert_eq!(refused(update(explicit, policy(spec))), want);
}

#[test]
fn egress_policy_type_requires_version_1_8() {
    let types = |types: Value| versioned(json!({ "policyTypes": types }), "1.3");
    accepted(create(types(json!(["Ingress"]))));
    let want = "spec.policyTypes[1]: Forbidden: needs version 1.8 of network policies, but spec.minVersion is 1.3: set \
                that to 1.8, or leave it out";
    assert_eq!(refused(create(types(json!(["Ingress", "Egress"])))), [want]);
}

#[test]
fn stored_policies_without_min_version_are_read_with_one() {
    let mut stored = testing::object(&kind(), policy(end_port()));
    assert!(!fill_missing_min_version(&mut stored, &off()));
    assert_eq!(min_version(&stored), "");
    assert!(fill_missing_min_version(
        &mut stored,
        &FeatureGates::default()
    ));
    assert_eq!(min_version(&stored), "1.21");
    assert!(!fill_missing_min_version(
        &mut stored,
        &FeatureGates::default()
    ));
}

#[test]
fn min_version_is_not_defaulted_while_the_gate_is_off() {
    let wrong = versioned(end_port(), "1.3");
    let made = accepted(testing::create(&kind(), wrong.clone(), &off()));
    assert_eq!(min_version(&made), "");
    let made = testing::update_with(&kind(), json!({}), wrong, &off());
    assert_eq!(min_version(&accepted(made)), "");
}

#[test]
fn existing_min_version_stays_correct_while_the_gate_is_off() {
    let old = versioned(json!({}), "1.3");
    for patch in [
        end_port(),
        json!({"minVersion": null, "ingress": end_port()["ingress"]}),
    ] {
        let made = testing::update_with(&kind(), old.clone(), policy(patch), &off());
        assert_eq!(min_version(&accepted(made)), "1.21");
    }
    let set = versioned(json!({}), "1.12");
    let made = testing::update_with(
        &kind(),
        set.clone(),
        policy(json!({"egress": [{}]})),
        &off(),
    );
    assert_eq!(min_version(&accepted(made)), "1.12");
    let made = testing::update_with(&kind(), set, policy(end_port()), &off());
    assert_eq!(refused(made).len(), 1);
}

/// The kind with a catalog that has a fictitious alpha feature.
fn with_alpha(version: &'static str) -> Kind {
    let made_up = PolicyFeature::new("MadeUp", version, |spec, found| {
        let field = spec.field("madeUp");
        if field.exists() {
            found(&field);
        }
    });
    let catalog =
        FeatureCatalog::with_features(&[made_up.gated(Feature::HPAScaleToZero)]).expect("sound");
    kind().strategy(NetworkPolicyStrategy { catalog })
}

fn alpha_on() -> FeatureGates {
    FeatureGates::default().with(Feature::HPAScaleToZero, true)
}

#[test]
fn alpha_feature_sets_its_revision_while_its_gate_is_on() {
    let kind = with_alpha("1.37-alpha.1");
    let used = policy(json!({"madeUp": 1}));
    let made = accepted(testing::create(&kind, used.clone(), &alpha_on()));
    assert_eq!(min_version(&made), "1.37-alpha.1");
    let asked = versioned(json!({}), "1.37-alpha.1");
    accepted(testing::create(&kind, asked.clone(), &alpha_on()));
    let too_low = testing::create(&kind, versioned(json!({"madeUp": 1}), "1.21"), &alpha_on());
    let want = "spec.madeUp: Forbidden: needs version 1.37-alpha.1 of network policies, but spec.minVersion is 1.21: set \
                that to 1.37-alpha.1, or leave it out";
    assert_eq!(refused(too_low), [want]);
}

#[test]
fn alpha_feature_is_rejected_while_its_gate_is_off() {
    let (kind, off) = (with_alpha("1.37-alpha.1"), FeatureGates::default());
    let want =
        "spec.madeUp: Forbidden: may not be set while the feature gate HPAScaleToZero is off";
    let used = policy(json!({"madeUp": 1}));
    assert_eq!(refused(testing::create(&kind, used.clone(), &off)), [want]);
    assert_eq!(
        refused(testing::update_with(&kind, json!({}), used, &off)),
        [want]
    );
    let asked = testing::create(&kind, versioned(json!({}), "1.37-alpha.1"), &off);
    let [error] = &refused(asked)[..] else {
        panic!("one error is expected");
    };
    assert!(error.ends_with("\"1.12\", \"1.21\""), "{error}");
}

#[test]
fn alpha_feature_in_use_is_kept_when_its_gate_is_disabled() {
    let (kind, off) = (with_alpha("1.37-alpha.1"), FeatureGates::default());
    let old = versioned(json!({"madeUp": 1}), "1.37-alpha.1");
    let patch = policy(json!({"egress": [{}]}));
    let made = accepted(testing::update_with(&kind, old.clone(), patch, &off));
    assert_eq!(min_version(&made), "1.37-alpha.1");
    let gone = policy(json!({"madeUp": null}));
    let made = accepted(testing::update_with(&kind, old, gone, &off));
    assert_eq!(min_version(&made), "1.3");
}

#[test]
fn policy_of_an_older_alpha_revision_is_kept_until_its_spec_changes() {
    let kind = with_alpha("1.37-alpha.2");
    let old = versioned(json!({"madeUp": 1}), "1.37-alpha.1");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let made = testing::update_with(&kind, old.clone(), label, &alpha_on());
    assert_eq!(min_version(&accepted(made)), "1.37-alpha.1");
    let changed = policy(json!({"madeUp": 2}));
    let made = testing::update_with(&kind, old.clone(), changed, &alpha_on());
    let [error] = &refused(made)[..] else {
        panic!("one error is expected");
    };
    let want = "spec.minVersion: Unsupported value: \"1.37-alpha.1\"";
    assert!(error.starts_with(want), "{error}");
    let again = policy(json!({"madeUp": 2, "minVersion": null}));
    let made = testing::update_with(&kind, old, again, &alpha_on());
    assert_eq!(min_version(&accepted(made)), "1.37-alpha.2");
}
