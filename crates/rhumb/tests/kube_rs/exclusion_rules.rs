//! KEP-3693: exclusion rules of webhooks and policies, as written and read by clients.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::requests::{self, JSON, MERGE, OPERATIONS, RawResponse, STRATEGIC, YAML};
use crate::support::TestServer;

pub(crate) const OFF: &str = "--feature-gates=AdmissionWebhookExclusionRules=false";
pub(crate) const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
pub(crate) const WEBHOOKS: &str = "validatingwebhookconfigurations";
const POLICIES: &str = "validatingadmissionpolicies";

/// The example of the proposal, with the `clientConfig` that it omits.
const SAMPLE: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: "test"
webhooks:
  - name: "pod-policy.example.com"
    rules:
      - apiGroups:   [""]
        apiVersions: ["v1"]
        operations:  ["CREATE"]
        resources:   ["pods"]
        scope: "Namespaced"
    clientConfig: {url: "https://hooks.example.com/pods"}
    admissionReviewVersions: ["v1"]
    sideEffects: None
    timeoutSeconds: 5
    excludeResourceRules: # here is the new field
      - apiGroups:   [""] #should support wildcard just like regular rules
        apiVersions: ["v1"]
        operations:  ["CREATE"]
        resources:   ["pods"]
        objectNames: ["test"]
        scope: "Namespaced"
        Namespaces: ["test"]
"#;

/// The stored form of its rule.
fn rule() -> Value {
    json!({
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
        "resourceNames": ["test"],
        "scope": "Namespaced",
        "namespaces": ["test"],
    })
}

fn policy(rules: &Value) -> Value {
    let pods = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    json!({
        "metadata": {"name": "test"},
        "spec": {
            "matchConstraints": {"resourceRules": [pods], "exclusionRules": rules},
            "validations": [{"expression": "true"}],
        },
    })
}

impl RawResponse {
    /// Warnings, except those about critical resources.
    pub(crate) fn spellings(&self) -> Vec<String> {
        let others = self.warnings.iter();
        others
            .filter(|text| !text.contains("can stop what the cluster depends on"))
            .cloned()
            .collect()
    }

    #[track_caller]
    fn webhook_rules(self) -> Value {
        self.object()["webhooks"][0]["excludeResourceRules"].take()
    }

    #[track_caller]
    fn policy_rules(self) -> Value {
        self.object()["spec"]["matchConstraints"]["excludeResourceRules"].take()
    }
}

/// Sends a request to the admissionregistration group.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    media: &str,
    body: String,
) -> RawResponse {
    requests::send(client, method, &format!("{GROUP}/{path}"), media, body).await
}

async fn create(client: &Client, path: &str, object: &Value) -> RawResponse {
    send(client, Method::POST, path, JSON, object.to_string()).await
}

async fn get(client: &Client, path: &str) -> RawResponse {
    send(client, Method::GET, path, JSON, String::new()).await
}

async fn put(client: &Client, path: &str, object: &Value) -> RawResponse {
    send(client, Method::PUT, path, JSON, object.to_string()).await
}

pub(crate) fn warning_headers(texts: &[&str]) -> Vec<String> {
    let escaped = |text: &&str| text.replace('"', "\\\"");
    let texts = texts.iter().map(escaped);
    texts.map(|text| format!("299 - \"{text}\"")).collect()
}

#[tokio::test]
async fn example_of_the_proposal_is_accepted() {
    let server = TestServer::start();
    let client = server.client().await;
    for validation in ["Strict", "Warn", "Ignore"] {
        let path = format!("{WEBHOOKS}?dryRun=All&fieldValidation={validation}");
        let made = send(&client, Method::POST, &path, YAML, SAMPLE.to_owned()).await;
        let expect = warning_headers(&[
            "webhooks[0].excludeResourceRules[0].Namespaces: stored as namespaces",
            "webhooks[0].excludeResourceRules[0].objectNames: stored as resourceNames",
        ]);
        assert_eq!(made.spellings(), expect, "{validation}");
        assert_eq!(made.webhook_rules(), json!([rule()]), "{validation}");
    }
    let made = send(&client, Method::POST, WEBHOOKS, YAML, SAMPLE.to_owned()).await;
    assert_eq!(made.code, 201);
    let read = get(&client, &format!("{WEBHOOKS}/test")).await;
    assert_eq!(read.webhook_rules(), json!([rule()]));

    let nodes = json!([{"resources": ["nodes"], "scope": "Cluster"}]);
    let webhook = json!({"name": "pod-policy.example.com", "exclusionRules": nodes});
    let patch = json!({"webhooks": [webhook]}).to_string();
    let path = format!("{WEBHOOKS}/test");
    let patched = send(&client, Method::PATCH, &path, STRATEGIC, patch).await;
    let expect = "webhooks[0].exclusionRules: stored as excludeResourceRules";
    assert_eq!(patched.spellings(), warning_headers(&[expect]));
    assert_eq!(patched.body["webhooks"][0]["timeoutSeconds"], 5);
    assert_eq!(patched.webhook_rules(), nodes, "the list as a whole");
}

#[tokio::test]
async fn aliases_are_stored_under_the_field_name() {
    let server = TestServer::start();
    let client = server.client().await;
    let made = create(&client, POLICIES, &policy(&json!([rule()]))).await;
    let of_policy = "spec.matchConstraints.exclusionRules: stored as excludeResourceRules";
    assert_eq!(made.spellings(), warning_headers(&[of_policy]));
    assert_eq!(made.policy_rules(), json!([rule()]));

    let path = format!("{POLICIES}/test?fieldValidation=Strict");
    let nodes = json!([{"resources": ["nodes"], "scope": "*"}]);
    let merge = json!({"spec": {"matchConstraints": {"excludeRules": nodes}}}).to_string();
    for media in [MERGE, STRATEGIC] {
        let patched = send(&client, Method::PATCH, &path, media, merge.clone()).await;
        let expect = "spec.matchConstraints.excludeRules: stored as excludeResourceRules";
        assert_eq!(patched.spellings(), warning_headers(&[expect]), "{media}");
        assert_eq!(patched.policy_rules(), nodes, "{media}");
    }
    let name = json!({"op": "add", "path": "/spec/matchConstraints/exclusionRules/0/objectNames", "value": ["a"]});
    let operations = json!([name]).to_string();
    let patched = send(&client, Method::PATCH, &path, OPERATIONS, operations).await;
    let inner =
        "spec.matchConstraints.excludeResourceRules[0].objectNames: stored as resourceNames";
    assert_eq!(patched.spellings(), warning_headers(&[of_policy, inner]));
    let named = json!([{"resources": ["nodes"], "scope": "*", "resourceNames": ["a"]}]);
    assert_eq!(patched.policy_rules(), named);
    let remove = json!({"spec": {"matchConstraints": {"exclusionRules": null}}}).to_string();
    let patched = send(&client, Method::PATCH, &path, MERGE, remove).await;
    let removed = "spec.matchConstraints.exclusionRules: removes excludeResourceRules";
    assert_eq!(patched.spellings(), warning_headers(&[removed]));
    assert_eq!(patched.policy_rules(), Value::Null);
}

/// Otherwise a misspelt restriction would widen the exclusion: a webhook that shall not see the secrets of one namespace
/// would see those of none.
#[tokio::test]
async fn unknown_fields_in_exclusion_rules_are_refused_whatever_the_field_validation() {
    let server = TestServer::start();
    let client = server.client().await;
    let made = send(&client, Method::POST, WEBHOOKS, YAML, SAMPLE.to_owned()).await;
    assert_eq!(made.code, 201);
    let expression = json!({"key": "a", "operator": "Exists", "value": ["b"]});
    for (misspelt, value, expect) in [
        (
            "nameSpaces",
            json!(["ci"]),
            "nameSpaces\"; did you mean \"namespaces\"?",
        ),
        (
            "ObjectNames",
            json!(["ci"]),
            "ObjectNames\"; did you mean \"resourceNames\"?",
        ),
        ("namespace", json!(["ci"]), "namespace\""),
        (
            "namespaceSelector",
            json!({"matchlabels": {"a": "b"}}),
            "namespaceSelector.matchlabels\"; did you mean \"matchLabels\"?",
        ),
        (
            "namespaceSelector",
            json!({"matchExpressions": [expression]}),
            "namespaceSelector.matchExpressions[0].value\"",
        ),
    ] {
        let expect = format!("unknown field \"webhooks[0].excludeResourceRules[0].{expect}");
        for validation in ["Strict", "Warn", "Ignore"] {
            let query = format!("fieldValidation={validation}");
            let text = SAMPLE.replace("Namespaces: [\"test\"]", &format!("{misspelt}: {value}"));
            let path = format!("{WEBHOOKS}?{query}");
            let created = send(&client, Method::POST, &path, YAML, text).await;
            let rules = json!([{"resources": ["secrets"], misspelt: value}]);
            let webhook = json!({"name": "pod-policy.example.com", "excludeResourceRules": rules});
            let patch = json!({"webhooks": [webhook]}).to_string();
            let path = format!("{WEBHOOKS}/test?{query}");
            let patched = send(&client, Method::PATCH, &path, STRATEGIC, patch).await;
            for (refused, code) in [(created, 400), (patched, 422)] {
                let message = refused.body["message"].as_str().unwrap_or_default();
                assert_eq!(refused.code, code, "{validation}: {message}");
                assert!(message.contains(&expect), "{validation}: {message}");
            }
        }
    }
}

/// kubectl sends such a patch when a manifest changes from one spelling to another.
#[tokio::test]
async fn a_null_of_another_spelling_does_not_count() {
    let server = TestServer::start();
    let client = server.client().await;
    create(&client, POLICIES, &policy(&json!([rule()])))
        .await
        .object();
    let path = format!("{POLICIES}/test?fieldValidation=Strict");
    let mut version = Value::Null;
    for patch in [
        json!({"excludeResourceRules": null, "exclusionRules": [rule()]}),
        json!({"exclusionRules": null, "excludeRules": [rule()]}),
        json!({"excludeRules": null, "excludeResourceRules": [rule()]}),
        json!({"excludeRules": [rule()]}),
    ] {
        let patch = json!({"spec": {"matchConstraints": patch}}).to_string();
        for media in [MERGE, STRATEGIC] {
            let patched = send(&client, Method::PATCH, &path, media, patch.clone()).await;
            let written = patched.body["metadata"]["resourceVersion"].clone();
            assert_eq!(patched.policy_rules(), json!([rule()]), "{patch}");
            assert!(
                version.is_null() || version == written,
                "{patch} changes nothing"
            );
            version = written;
        }
    }
    let mut replaced = policy(&json!([rule()]));
    replaced["spec"]["matchConstraints"]["excludeResourceRules"] = Value::Null;
    replaced["metadata"]["resourceVersion"] = version;
    let replaced = send(&client, Method::PUT, &path, JSON, replaced.to_string()).await;
    assert_eq!(replaced.policy_rules(), json!([rule()]));
}

#[tokio::test]
async fn duplicate_aliases_and_catch_all_exclusions_are_rejected() {
    let server = TestServer::start();
    let client = server.client().await;
    let mut twice = policy(&json!([rule()]));
    twice["spec"]["matchConstraints"]["excludeResourceRules"] = json!([rule()]);
    let refused = create(&client, POLICIES, &twice).await;
    let expect = "ValidatingAdmissionPolicy in version \"v1\" cannot be handled as a ValidatingAdmissionPolicy: \
                  spec.matchConstraints.exclusionRules: is another spelling of excludeResourceRules, and both are \
                  set: use excludeResourceRules alone";
    assert_eq!(
        (refused.code, refused.body["message"].as_str()),
        (400, Some(expect))
    );

    let refused = create(&client, POLICIES, &policy(&json!([{"apiGroups": ["*"]}]))).await;
    let cause = &refused.body["details"]["causes"][0];
    let place = cause["field"].as_str();
    assert_eq!(place, Some("spec.matchConstraints.excludeResourceRules[0]"));
    assert_eq!(
        (refused.code, cause["reason"].as_str()),
        (422, Some("FieldValueInvalid"))
    );
}

#[tokio::test]
async fn with_the_gate_off_clients_get_a_warning_that_rules_are_dropped() {
    let server = TestServer::start_with(&[OFF]);
    let client = server.client().await;
    let sample = SAMPLE.replace(
        "sideEffects: None",
        "sideEffects: None\n    failurePolicy: Ignore",
    );
    let dropped = "unknown field \"webhooks[0].excludeResourceRules\": the feature gate \
                   AdmissionWebhookExclusionRules is disabled";
    for (validation, code, warnings) in [
        ("Strict", 400, vec![]),
        ("Warn", 201, warning_headers(&[dropped])),
        ("Ignore", 201, vec![]),
    ] {
        let path = format!("{WEBHOOKS}?dryRun=All&fieldValidation={validation}");
        let made = send(&client, Method::POST, &path, YAML, sample.clone()).await;
        assert_eq!(
            (made.code, &made.warnings),
            (code, &warnings),
            "{validation}"
        );
        let message = made.body["message"].as_str().unwrap_or_default();
        assert_eq!(message.contains(dropped), code == 400, "{message}");
    }
    let plain = sample
        .split("    excludeResourceRules")
        .next()
        .expect("a part");
    let made = send(&client, Method::POST, WEBHOOKS, YAML, plain.to_owned()).await;
    assert_eq!((made.code, made.warnings), (201, vec![]));
    let nodes = json!([{"resources": ["nodes"]}]);
    let webhook = json!({"name": "pod-policy.example.com", "exclusionRules": nodes});
    let patch = json!({"webhooks": [webhook]}).to_string();
    for (validation, code) in [("Strict", 400), ("Warn", 200)] {
        let path = format!("{WEBHOOKS}/test?fieldValidation={validation}");
        let patched = send(&client, Method::PATCH, &path, STRATEGIC, patch.clone()).await;
        let warnings = if code == 200 {
            warning_headers(&[dropped])
        } else {
            vec![]
        };
        assert_eq!((patched.code, patched.warnings), (code, warnings));
    }
}

/// With the gate off, new objects have no rules and existing rules are kept. With the gate on again, everything is as
/// before.
#[tokio::test]
async fn exclusion_rules_survive_a_disabled_gate() {
    let mut server = TestServer::start();
    let client = server.client().await;
    let made = send(&client, Method::POST, WEBHOOKS, YAML, SAMPLE.to_owned()).await;
    let sample = made.object();
    let plain = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"], "scope": "*"});
    let rules = json!([rule(), plain]);
    create(&client, POLICIES, &policy(&rules)).await.object();

    server.restart_with(&[OFF]);
    let client = server.client().await;
    let (webhooks, policies) = (format!("{WEBHOOKS}/test"), format!("{POLICIES}/test"));
    let mut object = get(&client, &webhooks).await.object();
    assert_eq!(
        object["webhooks"], sample["webhooks"],
        "what is stored is shown"
    );
    object["webhooks"][0]["timeoutSeconds"] = json!(7);
    let changed = put(&client, &webhooks, &object).await;
    assert_eq!(changed.webhook_rules(), json!([rule()]), "and kept");
    let label = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let changed = send(&client, Method::PATCH, &policies, MERGE, label).await;
    assert_eq!(changed.policy_rules(), rules, "of policies too");
    let other = SAMPLE.replace("name: \"test\"", "name: \"other\"");
    let made = send(&client, Method::POST, WEBHOOKS, YAML, other).await;
    assert_eq!(made.webhook_rules(), Value::Null, "what is new has none");
    let mut other = policy(&rules);
    other["metadata"]["name"] = json!("other");
    let made = create(&client, POLICIES, &other).await;
    assert_eq!(made.policy_rules(), json!([plain]), "or those of upstream");

    server.restart_with(&[]);
    let client = server.client().await;
    let read = get(&client, &webhooks).await;
    assert_eq!(read.webhook_rules(), json!([rule()]), "on again");
    assert_eq!(get(&client, &policies).await.policy_rules(), rules);
    let mut other = get(&client, &format!("{WEBHOOKS}/other")).await.object();
    other["webhooks"][0]["excludeResourceRules"] = json!([rule()]);
    let changed = put(&client, &format!("{WEBHOOKS}/other"), &other).await;
    assert_eq!(changed.webhook_rules(), json!([rule()]));

    server.restart_with(&[OFF]);
    let client = server.client().await;
    let read = get(&client, &format!("{WEBHOOKS}/other")).await;
    assert_eq!(read.webhook_rules(), json!([rule()]), "and off again");
}

/// Upstream allows policies to exclude everything, and so does rhumb with the gate off.
#[tokio::test]
async fn existing_catch_all_policy_can_be_updated() {
    let mut server = TestServer::start_with(&[OFF]);
    let client = server.client().await;
    let star = ["*"];
    let all =
        json!([{"apiGroups": star, "apiVersions": star, "operations": star, "resources": star}]);
    create(&client, POLICIES, &policy(&all)).await.object();

    server.restart_with(&[]);
    let client = server.client().await;
    let path = format!("{POLICIES}/test");
    let mut object = get(&client, &path).await.object();
    object["spec"]["validations"][0]["message"] = json!("no");
    let mut changed = put(&client, &path, &object).await.object();
    assert_eq!(changed["metadata"]["generation"], 2);
    let rules = &mut changed["spec"]["matchConstraints"]["excludeResourceRules"];
    rules[0]["resources"] = json!(["*/*"]);
    // The server may write the status meanwhile, so retry on conflict.
    changed["metadata"]["resourceVersion"].take();
    let refused = put(&client, &path, &changed).await;
    assert_eq!(refused.code, 422, "{refused:?}");
}
