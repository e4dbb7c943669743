//! Pods per node that a policy selects.

use super::*;

#[test]
fn further_pods_on_a_node_change_only_counts() {
    let mut engine = PolicyEngine::new(EngineScope::Cluster, PluginCapabilities::all());
    let policies = ["p", "q"].map(shop);
    for name in ["p", "q"] {
        engine.set_policy(&policy(name, json!({"podSelector": {}})));
    }
    let at = |name: &str, node: &str| pod(name, node, &[], json!({}));
    let mut check =
        |change: &dyn Fn(&mut PolicyEngine), nodes: &[(&str, usize)], is_changed: bool| {
            change(&mut engine);
            let summary = engine.summary(&policies[1]).expect("policy exists");
            let shown = summary.pods_per_node.iter();
            let shown: Vec<(&str, usize)> = shown.map(|(node, count)| (&**node, *count)).collect();
            assert_eq!(shown, nodes);
            let changed = engine.take_changed_policies_ignoring_counts();
            let want: &[NamespacedName] = if is_changed { &policies } else { &[] };
            assert_eq!(changed.into_iter().collect::<Vec<_>>(), want, "{nodes:?}");
        };
    check(
        &|engine| {
            engine.set_pod(&at("a", "x"));
        },
        &[("x", 1)],
        true,
    );
    check(
        &|engine| {
            engine.set_pod(&at("b", "x"));
        },
        &[("x", 2)],
        false,
    );
    check(&|engine| engine.remove_pod(&shop("a")), &[("x", 1)], false);
    check(
        &|engine| {
            engine.set_pod(&at("c", "y"));
        },
        &[("x", 1), ("y", 1)],
        true,
    );
    check(
        &|engine| {
            engine.set_pod(&at("b", "y"));
        },
        &[("y", 2)],
        true,
    );
    check(
        &|engine| {
            engine.set_pod(&at("d", ""));
        },
        &[("y", 2)],
        false,
    );
    check(
        &|engine| {
            engine.set_pod(&at("d", "y"));
        },
        &[("y", 3)],
        false,
    );
    let none = json!({"podSelector": {"matchLabels": {"app": "none"}}});
    let transition = |engine: &mut PolicyEngine| {
        for name in ["p", "q"] {
            engine.set_policy(&policy(name, none.clone()));
            engine.set_policy(&policy(name, json!({"podSelector": {}})));
        }
    };
    check(&transition, &[("y", 3)], true);
    let gone =
        |engine: &mut PolicyEngine| ["b", "c", "d"].map(|name| engine.remove_pod(&shop(name)));
    check(&|engine| _ = gone(engine), &[], true);
    check(
        &|engine| {
            engine.set_pod(&at("e", ""));
        },
        &[],
        true,
    );
    check(
        &|engine| {
            engine.set_pod(&at("e", "z"));
        },
        &[("z", 1)],
        true,
    );
}

#[test]
fn a_selection_shared_as_target_and_peer_is_counted_for_its_targets() {
    let mut engine = PolicyEngine::new(EngineScope::Cluster, PluginCapabilities::all());
    let peers = json!({"podSelector": {"matchLabels": {"app": "none"}}, "ingress": [{"from": [{"podSelector": {}}]}]});
    engine.set_policy(&policy("p", peers));
    engine.set_pod(&pod("a", "x", &[], json!({})));
    engine.set_policy(&policy("q", json!({"podSelector": {}})));
    engine.set_pod(&pod("b", "x", &[], json!({})));
    let counts = |engine: &PolicyEngine| {
        engine
            .summary(&shop("q"))
            .expect("policy exists")
            .pods_per_node
    };
    assert_eq!(counts(&engine), [("x".to_owned(), 2)].into());
    engine.remove_policy(&shop("q"));
    engine.remove_pod(&shop("a"));
    engine.set_policy(&policy("q", json!({"podSelector": {}})));
    assert_eq!(counts(&engine), [("x".to_owned(), 1)].into());
}
