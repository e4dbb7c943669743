//! Story 2 of KEP-3693: warnings about webhooks that intercept critical resources, with suggestions.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::exclusion_rules::{GROUP, OFF, WEBHOOKS, send};
use crate::program::FEW_CONTROLLERS;
use crate::requests::{JSON, MERGE, RawResponse, YAML};
use crate::support::TestServer;

pub(crate) const DEPENDS: &str = "with failurePolicy Fail can stop what the cluster depends on";

/// A webhook that matches everything.
pub(crate) fn configuration(more: &str) -> String {
    format!(
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: nosy
webhooks:
  - name: nosy.example.com
    rules:
      - {{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}}
    clientConfig: {{url: "https://127.0.0.1:1/"}}
    admissionReviewVersions: [v1]
    sideEffects: None
    {more}
"#
    )
}

/// The text of a warning header as kubectl shows it.
pub(crate) fn texts(answer: &RawResponse) -> Vec<String> {
    let shown = |header: &String| {
        let text = header.strip_prefix("299 - \"").expect("a warning");
        let text = text.strip_suffix('"').expect("a warning");
        text.replace("\\\"", "\"").replace("\\\\", "\\")
    };
    answer.warnings.iter().map(shown).collect()
}

/// Creates a configuration and returns the warnings.
async fn warnings_of_create(client: &Client, more: &str) -> Vec<String> {
    let path = format!("{WEBHOOKS}?dryRun=All");
    let body = configuration(more);
    let answer = send(client, Method::POST, &path, YAML, body).await;
    assert_eq!(answer.code, 201, "{answer:?}");
    texts(&answer)
}

#[tokio::test]
async fn webhooks_on_critical_resources_cause_warnings_until_excluded() {
    let server = TestServer::start();
    let client = server.client().await;
    let made = send(&client, Method::POST, WEBHOOKS, YAML, configuration("")).await;
    let told = texts(&made);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with(&format!(
            "webhook \"nosy.example.com\" {DEPENDS}: leases of"
        )),
        "{told:?}"
    );
    let stored = made.object();
    assert!(
        stored["webhooks"][0]["excludeResourceRules"].is_null(),
        "nobody's configuration is changed"
    );

    // Every later write of the configuration causes the warning again.
    let own = format!("{WEBHOOKS}/nosy");
    let patch = json!({"metadata": {"labels": {"team": "nosy"}}}).to_string();
    let patched = send(&client, Method::PATCH, &own, MERGE, patch).await;
    assert_eq!(texts(&patched), told);
    let body = patched.object().to_string();
    let updated = send(&client, Method::PUT, &own, JSON, body).await;
    assert_eq!(texts(&updated), told);

    // The suggestion can be pasted into YAML and JSON.
    let at = told[0]
        .find("excludeResourceRules: [")
        .expect("a suggestion");
    let line = &told[0][at..];
    assert_eq!(tried_after_removal(&client, &own, line).await, [""; 0]);
    let rules: Value = serde_json::from_str(&line["excludeResourceRules: ".len()..]).expect("JSON");
    let created = send(&client, Method::POST, WEBHOOKS, YAML, configuration("")).await;
    let mut object = created.object();
    object["webhooks"][0]["excludeResourceRules"] = rules;
    let updated = send(&client, Method::PUT, &own, JSON, object.to_string()).await;
    assert_eq!(updated.code, 200, "{updated:?}");
    assert_eq!(updated.warnings, [""; 0]);
}

async fn tried_after_removal(client: &Client, own: &str, more: &str) -> Vec<String> {
    let deleted = send(client, Method::DELETE, own, JSON, String::new()).await;
    assert_eq!(deleted.code, 200, "{deleted:?}");
    warnings_of_create(client, more).await
}

#[tokio::test]
async fn harmless_webhooks_cause_no_warnings() {
    let server = TestServer::start();
    let client = server.client().await;
    let names = "{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kube-node-lease]}";
    let told = warnings_of_create(
        &client,
        &format!("namespaceSelector: {{matchExpressions: [{names}]}}"),
    )
    .await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        !told[0].contains("pods in kube-system") && told[0].contains("nodes"),
        "labels of namespaces count: {told:?}"
    );
    let silent = [
        "failurePolicy: Ignore",
        "objectSelector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}",
    ];
    for more in silent {
        assert_eq!(warnings_of_create(&client, more).await, [""; 0], "{more}");
    }
    let told = warnings_of_create(&client, "objectSelector: {matchLabels: {checked: by-me}}").await;
    let expect = "depends on, if their objects have the labels of objectSelector: leases";
    assert!(told.len() == 1 && told[0].contains(expect), "{told:?}");
    let all = "excludeResourceRules: [{resources: ['*/*'], scope: Cluster}, {resources: ['*/*'], scope: Namespaced}]";
    let told = warnings_of_create(&client, all).await;
    assert_eq!(
        told,
        [
            "webhooks[0]: excludeResourceRules exclude every request that rules match, so it is never called"
        ]
    );
    let example = include_str!("../../../../examples/admission/webhook.yaml");
    let path = format!("{WEBHOOKS}?dryRun=All");
    let answer = send(&client, Method::POST, &path, YAML, example.to_owned()).await;
    assert_eq!((answer.code, answer.warnings), (201, Vec::new()));
    let mutating = configuration("").replace("Validating", "Mutating");
    let path = "mutatingwebhookconfigurations?dryRun=All";
    let told = texts(&send(&client, Method::POST, path, YAML, mutating).await);
    assert_eq!(told.len(), 1, "{GROUP}: both kinds are looked at: {told:?}");
}

#[tokio::test]
async fn exclusion_rules_are_not_suggested_while_the_gate_is_off() {
    let server = TestServer::start_with(&[FEW_CONTROLLERS, OFF]);
    let client = server.client().await;
    let mut told = warnings_of_create(
        &client,
        "excludeResourceRules: [{resources: ['*/*'], scope: Cluster}]",
    )
    .await;
    told.retain(|text| !text.starts_with("unknown field"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("nodes"), "{told:?}");
    assert!(!told[0].contains("excludeResourceRules"), "{told:?}");
    assert!(
        told[0].ends_with("or set failurePolicy: Ignore"),
        "{told:?}"
    );
}

#[tokio::test]
async fn critical_resources_are_configurable() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("critical.yaml");
    let list = "
apiVersion: admission.rhumb/v1
kind: CriticalResources
rules:
  - {name: the vault, apiGroups: [''], resources: [secrets], namespaces: [vault]}
";
    std::fs::write(&file, list).expect("a file");
    let flag = format!("--critical-resources-file={}", file.display());
    let server = TestServer::start_with(&[FEW_CONTROLLERS, &flag]);
    let client = server.client().await;
    let told = warnings_of_create(&client, "").await;
    let rule = r#"[{"apiGroups":[""],"resources":["secrets"],"namespaces":["vault"]}]"#;
    let expect = format!(
        "webhook \"nosy.example.com\" {DEPENDS}: the vault; to leave them out, add excludeResourceRules: {rule}"
    );
    assert_eq!(told, [expect]);
    let excluded = format!("excludeResourceRules: {rule}");
    assert_eq!(warnings_of_create(&client, &excluded).await, [""; 0]);
}
