//! What a webhook that runs in the cluster needs to come back.

use serde_json::{Value, json};

use super::{CriticalResources, World, rules, webhook, webhooks};

fn advice(changes: Value) -> Vec<String> {
    let mut hook = webhook(json!({"rules": rules("", "CREATE", "pods")}));
    hook["clientConfig"] = json!({"service": {"namespace": "shop", "name": "s"}});
    for (field, value) in changes.as_object().expect("an object") {
        hook[field] = value.clone();
    }
    let world = World::new();
    let webhooks = webhooks(json!([hook]), true);
    CriticalResources::default().advice(&webhooks, &world.cluster(), true)
}

#[test]
fn a_webhook_that_is_in_its_own_way_is_told_so() {
    let system = json!({"resources": ["pods", "pods/binding", "pods/status"], "namespaces": ["kube-system"]});
    let own = r#"{"apiGroups":["","discovery.k8s.io"],"resources":["pods","pods/binding","pods/status","serviceaccounts/token","endpointslices"],"namespaces":["shop"]}"#;
    let told = advice(json!({"excludeResourceRules": [system]}));
    assert_eq!(
        told,
        [format!(
            "webhook \"w.example.com\" with failurePolicy Fail can stop what the cluster depends on: pods in shop (the webhook itself runs there); to leave them out, add excludeResourceRules: [{own}]"
        )]
    );
    let own: Value = serde_json::from_str(own).expect("a rule");
    let nothing: [String; 0] = [];
    assert_eq!(
        advice(json!({"excludeResourceRules": [system, own]})),
        nothing
    );
    assert_eq!(advice(json!({"failurePolicy": "Ignore"})), nothing);
    // A webhook elsewhere is in nobody's way there.
    let elsewhere =
        json!({"clientConfig": {"url": "https://x.example"}, "excludeResourceRules": [system]});
    assert_eq!(advice(elsewhere), nothing);
}
