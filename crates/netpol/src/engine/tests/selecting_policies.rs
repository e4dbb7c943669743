//! Which policies select a pod.

use super::*;

#[test]
fn policies_that_select_a_pod_are_found() {
    let mut engine = PolicyEngine::new(EngineScope::Cluster, PluginCapabilities::all());
    engine.set_policy(&policy(
        "p",
        json!({"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]}),
    ));
    let (policy, name) = (shop("p"), shop("a"));
    let mut check =
        |node: &str, addresses: &[&str], app: &str, is_change: bool, is_selected: bool| {
            let pod = pod("a", node, addresses, json!({"app": app}));
            assert_eq!(
                engine.set_pod(&pod),
                is_change,
                "{node} {addresses:?} {app}"
            );
            assert_eq!(engine.selects(&policy, &name), is_selected);
            let selecting: Vec<&NamespacedName> = engine.policies_selecting(&name).collect();
            let expected: &[&NamespacedName] = if is_selected { &[&policy] } else { &[] };
            assert_eq!(selecting, expected);
        };
    check("here", &[], "web", true, true);
    check("here", &[], "web", false, true);
    check("here", &["10.0.0.1"], "web", true, true);
    check("there", &["10.0.0.1"], "web", true, true);
    check("there", &["10.0.0.1"], "db", true, false);
    assert!(engine.has_pod(&name) && !engine.has_pod(&policy));
}
