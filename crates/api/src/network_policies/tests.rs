use serde_json::{Value, json};

use super::*;
use crate::gates::Feature as Gate;

fn from(peer: Value) -> Value {
    json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [peer]}]})
}

fn port(port: Value) -> Value {
    json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}, {"ports": [{"port": 1}, port]}]})
}

fn check(spec: Value, version: &'static str, path: Option<&str>) {
    let want = Required {
        version,
        path: path.map(str::to_owned),
    };
    assert_eq!(Catalog::builtin().required(&spec), want, "{spec}");
    assert_eq!(required(&spec), version, "{spec}");
}

#[test]
fn every_feature_has_the_version_that_brought_it() {
    let selector = json!({"matchLabels": {"a": "b"}});
    check(Value::Null, "1.3", None);
    check(json!({}), "1.3", None);
    check(json!({"policyTypes": ["Ingress"]}), "1.3", None);
    check(from(json!({"podSelector": selector})), "1.3", None);
    check(from(json!({"namespaceSelector": selector})), "1.3", None);
    check(port(json!({"port": "web", "protocol": "UDP"})), "1.3", None);
    let egress = json!({"egress": [{}], "policyTypes": ["Egress"]});
    check(egress, "1.8", Some("spec.egress"));
    let denied = json!({"policyTypes": ["Ingress", "Egress"]});
    check(denied, "1.8", Some("spec.policyTypes[1]"));
    let ignored = json!({"policyTypes": ["Ingress"], "egress": [{}]});
    check(ignored, "1.8", Some("spec.egress"));
    check(
        from(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}})),
        "1.8",
        Some("spec.ingress[0].from[0].ipBlock"),
    );
    check(
        from(json!({"ipBlock": {"cidr": "fd00::/8"}})),
        "1.9",
        Some("spec.ingress[0].from[0].ipBlock.cidr"),
    );
    check(
        from(json!({"podSelector": {}, "namespaceSelector": {}})),
        "1.11",
        Some("spec.ingress[0].from[0]"),
    );
    check(
        port(json!({"protocol": "SCTP"})),
        "1.12",
        Some("spec.ingress[1].ports[1].protocol"),
    );
    check(
        port(json!({"port": 1, "endPort": 2})),
        "1.21",
        Some("spec.ingress[1].ports[1].endPort"),
    );
}

#[test]
fn what_is_empty_or_null_needs_nothing() {
    check(json!({"egress": [], "policyTypes": null}), "1.3", None);
    let peer = json!({"podSelector": {}, "namespaceSelector": null, "ipBlock": null});
    check(from(peer), "1.3", None);
    check(
        port(json!({"endPort": null, "protocol": null})),
        "1.3",
        None,
    );
}

#[test]
fn a_policy_needs_the_newest_of_what_it_uses() {
    let spec = json!({"egress": [
        {"to": [{"ipBlock": {"cidr": "fd00::/8", "except": ["fd00:1::/32"]}}]},
        {"ports": [{"protocol": "SCTP"}, {"protocol": "SCTP"}]},
    ]});
    check(
        spec.clone(),
        "1.12",
        Some("spec.egress[1].ports[0].protocol"),
    );
    let catalog = Catalog::builtin();
    let used = catalog.used(&spec);
    let used: Vec<(&str, Vec<&str>)> = used
        .iter()
        .map(|used| {
            let paths = used.paths.iter().map(String::as_str);
            (used.feature.name, paths.collect())
        })
        .collect();
    let block = "spec.egress[0].to[0].ipBlock";
    let (cidr, except) = (format!("{block}.cidr"), format!("{block}.except[0]"));
    assert_eq!(
        used,
        [
            ("Egress", vec!["spec.egress"]),
            ("IPBlock", vec![block]),
            ("IPv6", vec![&cidr, &except]),
            (
                "SCTP",
                vec![
                    "spec.egress[1].ports[0].protocol",
                    "spec.egress[1].ports[1].protocol"
                ]
            ),
        ]
    );
    assert!(SCTP.is_used(&spec) && !PORT_RANGES.is_used(&spec));
}

#[test]
fn the_versions_are_those_of_the_releases_in_order() {
    let catalog = Catalog::builtin();
    let versions = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];
    assert_eq!(catalog.versions(), versions);
    assert_eq!(catalog.check(), Ok(()));
    assert!(catalog.features.is_sorted_by_key(Feature::order));
    assert!(versions.iter().all(|version| catalog.knows(version)));
    for unknown in ["", "1.4", "1.22", "1.21-alpha.1", "1.03", "latest"] {
        assert!(!catalog.knows(unknown), "{unknown}");
    }
}

#[test]
fn what_is_beyond_a_version_is_found_by_the_order_of_versions() {
    let spec = json!({"egress": [{"ports": [{"port": 1, "endPort": 2}]}]});
    let catalog = Catalog::builtin();
    let beyond = |version: &str| -> Vec<&str> {
        let uses = catalog.used_beyond(version.parse().expect(version), &spec);
        uses.iter().map(|used| used.feature.name).collect()
    };
    assert_eq!(beyond("1.3"), ["Egress", "EndPort"]);
    assert_eq!(beyond("1.11"), ["EndPort"]);
    assert!(beyond("1.21").is_empty());
}

/// A made-up alpha feature, as a server and a plugin of two releases have it.
fn made_up(version: &'static str) -> Feature {
    Feature::new("MadeUp", version, |spec, found| {
        let field = spec.field("madeUp");
        if field.exists() {
            found(&field);
        }
    })
    .gated(Gate::HPAScaleToZero)
}

#[test]
fn an_alpha_feature_needs_its_own_revision_and_a_server_offers_it_by_its_gate() {
    let catalog = Catalog::with(&[made_up("1.37-alpha.1")]).expect("sound");
    let used = catalog.required(&json!({"madeUp": true, "egress": [{}]}));
    assert_eq!(used.version, "1.37-alpha.1");
    assert_eq!(used.path.as_deref(), Some("spec.madeUp"));
    assert_eq!(catalog.required(&json!({"egress": [{}]})).version, "1.8");
    let off = Gates::default();
    let on = off.with(Gate::HPAScaleToZero, true);
    assert_eq!(catalog.versions_with(&off), Catalog::builtin().versions());
    assert_eq!(catalog.versions_with(&on).last(), Some(&"1.37-alpha.1"));
}

#[test]
fn a_plugin_understands_only_its_own_revision_of_an_alpha() {
    let spec = json!({"madeUp": true});
    let released = Feature {
        gate: None,
        ..made_up("1.37")
    };
    let catalogs = [
        Catalog::builtin(),
        Catalog::with(&[made_up("1.37-alpha.1")]).expect("sound"),
        Catalog::with(&[made_up("1.37-alpha.2")]).expect("sound"),
        Catalog::with(&[released]).expect("sound"),
    ];
    for (at, server) in catalogs.iter().enumerate().skip(1) {
        let version = server.required(&spec).version;
        for (plugin_at, plugin) in catalogs.iter().enumerate() {
            assert_eq!(plugin.knows(version), at == plugin_at, "{version}");
            assert!(plugin.knows("1.21"));
        }
    }
}

#[test]
fn a_catalog_in_which_a_version_could_mean_two_things_is_refused() {
    let ungated = Feature {
        gate: None,
        ..made_up("1.37-alpha.1")
    };
    let released = Feature::new("Released", "1.38", |_, _| {});
    let other = Feature {
        name: "Other",
        ..made_up("1.37-alpha.2")
    };
    let table: [(&[Feature], &str); 5] = [
        (
            &[made_up("soon")],
            "MadeUp has the version \"soon\": not a version of network policies, such as 1.21 or 1.37-alpha.1",
        ),
        (&[ungated], "MadeUp is alpha and has no gate"),
        (
            &[made_up("1.37")],
            "MadeUp has a gate and a released version: its version is a revision of the alpha",
        ),
        (
            &[made_up("1.37-alpha.1"), released],
            "MadeUp is alpha in 1.37-alpha.1, but 1.38 is the latest version",
        ),
        (
            &[made_up("1.37-alpha.1"), other],
            "MadeUp is alpha in 1.37-alpha.1, but 1.37-alpha.2 is the latest version",
        ),
    ];
    for (features, want) in table {
        let error = Catalog::with(features).expect_err(want);
        assert_eq!(error.to_string(), want);
    }
}
