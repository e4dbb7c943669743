use serde_json::{Value, json};

use super::*;
use crate::feature_gates::Feature as Gate;

fn from(peer: Value) -> Value {
    json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [peer]}]})
}

fn port(port: Value) -> Value {
    json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}, {"ports": [{"port": 1}, port]}]})
}

fn check(spec: Value, version: &'static str, path: Option<&str>) {
    let want = MinPolicyVersion {
        version,
        path: path.map(str::to_owned),
    };
    assert_eq!(
        FeatureCatalog::builtin().required_version(&spec),
        want,
        "{spec}"
    );
    assert_eq!(builtin_required_version(&spec), version, "{spec}");
}

#[test]
fn every_feature_requires_the_version_that_introduced_it() {
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
fn empty_and_null_fields_require_no_version() {
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
fn policy_requires_the_newest_version_of_its_features() {
    let spec = json!({"egress": [
        {"to": [{"ipBlock": {"cidr": "fd00::/8", "except": ["fd00:1::/32"]}}]},
        {"ports": [{"protocol": "SCTP"}, {"protocol": "SCTP"}]},
    ]});
    check(
        spec.clone(),
        "1.12",
        Some("spec.egress[1].ports[0].protocol"),
    );
    let catalog = FeatureCatalog::builtin();
    let used = catalog.features_used(&spec);
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
fn known_versions_are_the_releases_in_order() {
    let catalog = FeatureCatalog::builtin();
    let versions = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];
    assert_eq!(catalog.versions(), versions);
    assert_eq!(catalog.validate(), Ok(()));
    assert!(
        catalog
            .features
            .is_sorted_by_key(NetworkPolicyFeature::parsed_version)
    );
    assert!(versions.iter().all(|version| catalog.supports(version)));
    for unknown in ["", "1.4", "1.22", "1.21-alpha.1", "1.03", "latest"] {
        assert!(!catalog.supports(unknown), "{unknown}");
    }
}

#[test]
fn features_beyond_a_version_follow_version_order() {
    let spec = json!({"egress": [{"ports": [{"port": 1, "endPort": 2}]}]});
    let catalog = FeatureCatalog::builtin();
    let beyond = |version: &str| -> Vec<&str> {
        let uses = catalog.features_newer_than(version.parse().expect(version), &spec);
        uses.iter().map(|used| used.feature.name).collect()
    };
    assert_eq!(beyond("1.3"), ["Egress", "EndPort"]);
    assert_eq!(beyond("1.11"), ["EndPort"]);
    assert!(beyond("1.21").is_empty());
}

/// A fictitious alpha feature, for catalogs of servers and plugins of different releases.
fn made_up(version: &'static str) -> NetworkPolicyFeature {
    NetworkPolicyFeature::new("MadeUp", version, |spec, found| {
        let field = spec.field("madeUp");
        if field.exists() {
            found(&field);
        }
    })
    .gated(Gate::HPAScaleToZero)
}

#[test]
fn alpha_feature_requires_its_revision_and_its_gate() {
    let catalog = FeatureCatalog::with_features(&[made_up("1.37-alpha.1")]).expect("valid catalog");
    let used = catalog.required_version(&json!({"madeUp": true, "egress": [{}]}));
    assert_eq!(used.version, "1.37-alpha.1");
    assert_eq!(used.path.as_deref(), Some("spec.madeUp"));
    assert_eq!(
        catalog.required_version(&json!({"egress": [{}]})).version,
        "1.8"
    );
    let off = FeatureGates::default();
    let on = off.with(Gate::HPAScaleToZero, true);
    assert_eq!(
        catalog.enabled_versions(&off),
        FeatureCatalog::builtin().versions()
    );
    assert_eq!(catalog.enabled_versions(&on).last(), Some(&"1.37-alpha.1"));
}

#[test]
fn plugin_supports_only_its_own_alpha_revision() {
    let spec = json!({"madeUp": true});
    let released = NetworkPolicyFeature {
        gate: None,
        ..made_up("1.37")
    };
    let catalogs = [
        FeatureCatalog::builtin(),
        FeatureCatalog::with_features(&[made_up("1.37-alpha.1")]).expect("valid catalog"),
        FeatureCatalog::with_features(&[made_up("1.37-alpha.2")]).expect("valid catalog"),
        FeatureCatalog::with_features(&[released]).expect("valid catalog"),
    ];
    for (at, server) in catalogs.iter().enumerate().skip(1) {
        let version = server.required_version(&spec).version;
        for (plugin_at, plugin) in catalogs.iter().enumerate() {
            assert_eq!(plugin.supports(version), at == plugin_at, "{version}");
            assert!(plugin.supports("1.21"));
        }
    }
}

#[test]
fn catalog_with_ambiguous_versions_is_rejected() {
    let ungated = NetworkPolicyFeature {
        gate: None,
        ..made_up("1.37-alpha.1")
    };
    let released = NetworkPolicyFeature::new("Released", "1.38", |_, _| {});
    let other = NetworkPolicyFeature {
        name: "Other",
        ..made_up("1.37-alpha.2")
    };
    let table: [(&[NetworkPolicyFeature], &str); 5] = [
        (
            &[made_up("soon")],
            "MadeUp: invalid version \"soon\": not a version of network policies, such as 1.21 or 1.37-alpha.1",
        ),
        (&[ungated], "MadeUp is alpha but has no feature gate"),
        (
            &[made_up("1.37")],
            "MadeUp has a feature gate but a released version; a gated feature needs an alpha version",
        ),
        (
            &[made_up("1.37-alpha.1"), released],
            "MadeUp has the alpha version 1.37-alpha.1, but the latest version is 1.38",
        ),
        (
            &[made_up("1.37-alpha.1"), other],
            "MadeUp has the alpha version 1.37-alpha.1, but the latest version is 1.37-alpha.2",
        ),
    ];
    for (features, want) in table {
        let error = FeatureCatalog::with_features(features).expect_err(want);
        assert_eq!(error.to_string(), want);
    }
}

#[test]
fn schema_lists_the_versions() {
    let table = rhumb_schema::Table::builtin();
    let spec = table.type_id("io.k8s.api.networking.v1.NetworkPolicySpec");
    let spec = table.get(spec.expect("schema type exists"));
    let field = spec.field("minVersion").expect("schema field exists");
    let listed: Vec<&str> = field
        .allowed_values
        .iter()
        .map(|version| &**version)
        .collect();
    assert_eq!(listed, FeatureCatalog::builtin().versions());
}
