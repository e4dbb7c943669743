//! Rules for the namespace that a webhook itself runs in.

use serde_json::{Value, json};

use super::{CriticalResources, TestCluster, rules, webhook, webhooks};

fn warnings_for(changes: Value) -> Vec<String> {
    let mut hook = webhook(json!({"rules": rules("", "CREATE", "pods")}));
    hook["clientConfig"] = json!({"service": {"namespace": "shop", "name": "s"}});
    for (field, value) in changes.as_object().expect("a JSON object") {
        hook[field] = value.clone();
    }
    let fixture = TestCluster::new();
    let webhooks = webhooks(json!([hook]), true);
    CriticalResources::default().warnings(&webhooks, &fixture.inventory(), true)
}

#[test]
fn webhooks_blocking_their_own_pods_are_reported() {
    let system = json!({"resources": ["pods", "pods/binding", "pods/status"], "namespaces": ["kube-system"]});
    let own = r#"{"apiGroups":["","discovery.k8s.io"],"resources":["pods","pods/binding","pods/status","serviceaccounts/token","endpointslices"],"namespaces":["shop"]}"#;
    let texts = warnings_for(json!({"excludeResourceRules": [system]}));
    assert_eq!(
        texts,
        [format!(
            "webhook \"w.example.com\" with failurePolicy Fail can stop what the cluster depends on: pods in shop (the webhook itself runs there); to leave them out, add excludeResourceRules: [{own}]"
        )]
    );
    let own: Value = serde_json::from_str(own).expect("a valid rule");
    let nothing: [String; 0] = [];
    assert_eq!(
        warnings_for(json!({"excludeResourceRules": [system, own]})),
        nothing
    );
    assert_eq!(warnings_for(json!({"failurePolicy": "Ignore"})), nothing);
    // A webhook outside of the cluster needs no such rule.
    let elsewhere =
        json!({"clientConfig": {"url": "https://x.example"}, "excludeResourceRules": [system]});
    assert_eq!(warnings_for(elsewhere), nothing);
}
