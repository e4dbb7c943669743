use serde_json::{Value, json};

use super::super::{NetworkPolicyRules, kind};
use super::*;
use crate::network_policies::Feature as PolicyFeature;
use crate::{Kind, testing};

const GATE: Feature = Feature::NetworkPolicyVersioning;

fn off() -> Gates {
    Gates::default().with(GATE, false)
}

fn end_port() -> Value {
    json!({"ingress": [{"ports": [{"port": 1, "endPort": 2}]}]})
}

fn policy(spec: Value) -> Value {
    json!({ "spec": spec })
}

fn min_version(policy: &Object) -> &str {
    fields::str(policy, MIN_VERSION)
}

/// A policy with a version.
fn versioned(mut spec: Value, version: &str) -> Value {
    spec["minVersion"] = version.into();
    policy(spec)
}

fn accepted(made: (Object, ErrorList)) -> Object {
    let (made, errors) = made;
    assert!(errors.is_empty(), "{errors}");
    made
}

fn refused(made: (Object, ErrorList)) -> Vec<String> {
    made.1.iter().map(ToString::to_string).collect()
}

fn create(value: Value) -> (Object, ErrorList) {
    testing::create(&kind(), value, &Gates::default())
}

fn update(old: Value, patch: Value) -> (Object, ErrorList) {
    testing::update(&kind(), old, patch)
}

#[test]
fn a_version_that_is_left_out_is_filled_in() {
    assert_eq!(min_version(&accepted(create(json!({})))), "1.3");
    assert_eq!(min_version(&accepted(create(policy(end_port())))), "1.21");
    let empty = versioned(end_port(), "");
    assert_eq!(min_version(&accepted(create(empty))), "1.21");
}

#[test]
fn a_version_that_was_filled_in_follows_what_the_policy_says() {
    let old = versioned(json!({}), "1.3");
    let newer = accepted(update(old, policy(end_port())));
    assert_eq!(min_version(&newer), "1.21");
    let less = accepted(update(Value::Object(newer), policy(json!({"ingress": []}))));
    assert_eq!(min_version(&less), "1.3");
}

#[test]
fn a_client_that_does_not_know_versions_gets_one() {
    let patch = policy(json!({"minVersion": null, "egress": [{}]}));
    for stored in ["1.3", "1.21"] {
        let old = versioned(json!({}), stored);
        let made = accepted(update(old, patch.clone()));
        assert_eq!(min_version(&made), "1.8");
    }
}

#[test]
fn a_version_that_was_set_stays() {
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
fn a_version_that_nobody_knows_is_refused() {
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
fn what_needs_more_than_the_version_that_was_set_is_refused_where_it_is() {
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
fn only_egress_among_the_types_needs_more() {
    let types = |types: Value| versioned(json!({ "policyTypes": types }), "1.3");
    accepted(create(types(json!(["Ingress"]))));
    let want = "spec.policyTypes[1]: Forbidden: needs version 1.8 of network policies, but spec.minVersion is 1.3: set \
                that to 1.8, or leave it out";
    assert_eq!(refused(create(types(json!(["Ingress", "Egress"])))), [want]);
}

#[test]
fn policies_that_were_stored_without_a_version_have_one_for_readers() {
    let mut stored = testing::object(&kind(), policy(end_port()));
    assert!(!mend(&mut stored, &off()));
    assert_eq!(min_version(&stored), "");
    assert!(mend(&mut stored, &Gates::default()));
    assert_eq!(min_version(&stored), "1.21");
    assert!(!mend(&mut stored, &Gates::default()));
}

#[test]
fn without_the_gate_no_policy_gets_a_version() {
    let wrong = versioned(end_port(), "1.3");
    let made = accepted(testing::create(&kind(), wrong.clone(), &off()));
    assert_eq!(min_version(&made), "");
    let made = testing::update_with(&kind(), json!({}), wrong, &off());
    assert_eq!(min_version(&accepted(made)), "");
}

#[test]
fn without_the_gate_a_policy_that_has_a_version_keeps_it_right() {
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

/// The kind as a server has it that knows a made-up alpha feature.
fn with_alpha(version: &'static str) -> Kind {
    let made_up = PolicyFeature::new("MadeUp", version, |spec, found| {
        let field = spec.field("madeUp");
        if field.exists() {
            found(&field);
        }
    });
    let catalog = Catalog::with(&[made_up.gated(Feature::HPAScaleToZero)]).expect("sound");
    kind().rules(NetworkPolicyRules { catalog })
}

fn alpha_on() -> Gates {
    Gates::default().with(Feature::HPAScaleToZero, true)
}

#[test]
fn an_alpha_feature_gets_its_revision_while_its_gate_is_on() {
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
fn an_alpha_feature_is_refused_while_its_gate_is_off() {
    let (kind, off) = (with_alpha("1.37-alpha.1"), Gates::default());
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
fn a_policy_keeps_its_alpha_feature_when_the_gate_goes_off() {
    let (kind, off) = (with_alpha("1.37-alpha.1"), Gates::default());
    let old = versioned(json!({"madeUp": 1}), "1.37-alpha.1");
    let patch = policy(json!({"egress": [{}]}));
    let made = accepted(testing::update_with(&kind, old.clone(), patch, &off));
    assert_eq!(min_version(&made), "1.37-alpha.1");
    let gone = policy(json!({"madeUp": null}));
    let made = accepted(testing::update_with(&kind, old, gone, &off));
    assert_eq!(min_version(&made), "1.3");
}

#[test]
fn a_policy_of_an_older_alpha_stays_until_what_it_says_changes() {
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
