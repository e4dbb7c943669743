//! What is too much or too long.

use serde_json::json;

use super::{World, rules, webhook, webhooks};
use crate::critical::{Budget, CriticalResources};

#[test]
fn a_long_list_still_makes_a_short_text() {
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
    let critical = CriticalResources::parse(&file).expect("a list");
    let world = World::new();
    let told = critical.advice(
        &webhooks(json!([webhook(json!({}))]), true),
        &world.cluster(),
        true,
    );
    assert_eq!(
        told,
        [
            "webhook \"w.example.com\" with failurePolicy Fail can stop 64 kinds of critical requests; \
          leave them out by excludeResourceRules"
        ]
    );
}

#[test]
fn what_was_not_looked_at_is_not_called_harmless() {
    let critical = CriticalResources::default();
    let world = World::new();
    let named = |name: &str, of: &str| {
        let name = format!("{name}.example.com");
        webhook(json!({"name": name, "rules": rules("", "UPDATE", of)}))
    };
    let list = json!([
        named("a", "configmaps"),
        named("b", "configmaps"),
        named("c", "nodes")
    ]);
    let told = |probes: usize| {
        let mut budget = Budget {
            probes,
            ..Budget::default()
        };
        let hooks = webhooks(list.clone(), true);
        critical.advice_within(&mut budget, &hooks, &world.cluster(), true)
    };
    let needed = (0..1_000).find(|&probes| told(probes) == told(1_000));
    let needed = needed.expect("a thousand is enough");
    assert!(told(needed)[0].starts_with("webhook \"c.example.com\""));
    assert_eq!(told(needed).len(), 1);
    let rest = "with failurePolicy Fail may stop more of what the cluster depends on: there is too much of it to \
                look at everything";
    assert_eq!(
        told(needed - 1).last(),
        Some(&format!("webhook \"c.example.com\" {rest}"))
    );
    assert_eq!(
        told(0),
        [format!(
            "webhooks \"a.example.com\", \"b.example.com\", \"c.example.com\" {rest}"
        )]
    );
}

#[test]
fn namespaces_are_listed_only_for_what_is_in_them() {
    let world = World::new();
    let cluster = world.cluster();
    for (rule, want) in [
        ("resources: [nodes]", 0),
        ("resources: [pods]", 1 + cluster.namespaces.len()),
        ("resources: [namespaces]", 1 + cluster.namespaces.len()),
        ("resources: [pods], namespaces: [shop, new]", 2),
    ] {
        let file = format!(
            "{{apiVersion: admission.rhumb/v1, kind: CriticalResources, rules: [{{{rule}}}]}}"
        );
        let critical = CriticalResources::parse(&file).expect("a list");
        let targets = critical.targets(&cluster);
        assert_eq!(targets[0].namespaces.len(), want, "{rule}");
    }
}
