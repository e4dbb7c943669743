//! Limits: long warnings and exhausted budgets.

use serde_json::json;

use super::{TestCluster, rules, webhook, webhooks};
use crate::critical_resources::{CriticalResources, ProbeBudget};

#[test]
fn warnings_for_long_lists_are_short() {
    let rules: Vec<String> = (0..64)
        .map(|n| {
            format!(
                "{{name: rule-{n}, apiGroups: [''], resources: [pods], namespaces: [{}]}}",
                "n".repeat(50)
            )
        })
        .collect();
    let file = format!(
        "{{apiVersion: admission.rhumb/v1, kind: CriticalResources, rules: [{}]}}",
        rules.join(", ")
    );
    let critical = CriticalResources::parse(&file).expect("a valid critical resources file");
    let fixture = TestCluster::new();
    let texts = critical.warnings(
        &webhooks(json!([webhook(json!({}))]), true),
        &fixture.inventory(),
        true,
    );
    assert_eq!(
        texts,
        [
            "webhook \"w.example.com\" with failurePolicy Fail can stop 64 kinds of critical requests; \
          leave them out by excludeResourceRules"
        ]
    );
}

#[test]
fn unprobed_webhooks_are_reported() {
    let critical = CriticalResources::default();
    let fixture = TestCluster::new();
    let named = |name: &str, of: &str| {
        let name = format!("{name}.example.com");
        webhook(json!({"name": name, "rules": rules("", "UPDATE", of)}))
    };
    let list = json!([
        named("a", "configmaps"),
        named("b", "configmaps"),
        named("c", "nodes")
    ]);
    let texts = |probes: usize| {
        let mut budget = ProbeBudget {
            probes,
            ..ProbeBudget::default()
        };
        let hooks = webhooks(list.clone(), true);
        critical.warnings_within(&mut budget, &hooks, &fixture.inventory(), true)
    };
    let needed = (0..1_000).find(|&probes| texts(probes) == texts(1_000));
    let needed = needed.expect("1000 probes are enough");
    assert!(texts(needed)[0].starts_with("webhook \"c.example.com\""));
    assert_eq!(texts(needed).len(), 1);
    let rest = "with failurePolicy Fail may stop more of what the cluster depends on: the check is incomplete because \
                there are too many cases";
    assert_eq!(
        texts(needed - 1).last(),
        Some(&format!("webhook \"c.example.com\" {rest}"))
    );
    assert_eq!(
        texts(0),
        [format!(
            "webhooks \"a.example.com\", \"b.example.com\", \"c.example.com\" {rest}"
        )]
    );
}

#[test]
fn namespaces_are_probed_only_for_namespaced_resources() {
    let fixture = TestCluster::new();
    let cluster = fixture.inventory();
    for (rule, want) in [
        ("resources: [nodes]", 0),
        ("resources: [pods]", 1 + cluster.namespaces.len()),
        ("resources: [namespaces]", 1 + cluster.namespaces.len()),
        ("resources: [pods], namespaces: [shop, new]", 2),
    ] {
        let file = format!(
            "{{apiVersion: admission.rhumb/v1, kind: CriticalResources, rules: [{{{rule}}}]}}"
        );
        let critical = CriticalResources::parse(&file).expect("a valid critical resources file");
        let targets = critical.coverage(&cluster);
        assert_eq!(targets[0].namespaces.len(), want, "{rule}");
    }
}
