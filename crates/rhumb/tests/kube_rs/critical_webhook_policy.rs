//! The policy in `examples/admission/policy.yaml` rejects webhooks that intercept critical resources.

use http::Method;
use kube::Client;
use rhumb_seeded_rng::SeededRng;
use serde_json::{Value, json};

use crate::critical_resources::{DEPENDS, configuration, texts};
use crate::exclusion_rules::{WEBHOOKS, send};
use crate::requests::{JSON, YAML};
use crate::support::TestServer;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Creates the policy, with a binding that has this validation action.
async fn create_policy(client: &Client, action: &str) {
    let policy = include_str!("../../../../examples/admission/policy.yaml");
    let (policy, binding) = policy.split_once("\n---\n").expect("two documents");
    let binding = binding.replace("[Deny]", &format!("[{action}]"));
    assert!(binding.contains(action), "{binding}");
    for (plural, text) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", &binding),
    ] {
        let made = send(client, Method::POST, plural, YAML, text.to_owned()).await;
        assert_eq!(made.code, 201, "{made:?}");
    }
}

#[tokio::test]
async fn critical_webhooks_can_be_rejected_by_policy() {
    let server = TestServer::start();
    let client = server.client().await;
    create_policy(&client, "Deny").await;
    let path = format!("{WEBHOOKS}?dryRun=All");
    let refused = send(&client, Method::POST, &path, YAML, configuration("")).await;
    assert_eq!(refused.code, 422, "{refused:?}");
    let message = refused.body["message"].as_str().expect("a message");
    let expect = "by excludeResourceRules: leases in kube-node-lease, leases in kube-system, pods in kube-system, pods/binding in kube-system, ";
    assert!(message.contains(expect), "{message}");
    let by_name = "{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kube-node-lease]}";
    let outside = "{resources: ['*/*'], scope: Cluster}, \
                   {apiGroups: [authorization.k8s.io], resources: ['*']}";
    let accepted = [
        "failurePolicy: Ignore".to_owned(),
        format!(
            "namespaceSelector: {{matchExpressions: [{by_name}]}}\n    excludeResourceRules: [{outside}]"
        ),
        format!(
            "excludeResourceRules: [{outside}, {{resources: ['*/*'], namespaces: [kube-system, kube-node-lease]}}]"
        ),
    ];
    for more in accepted {
        let answer = send(&client, Method::POST, &path, YAML, configuration(&more)).await;
        assert_eq!(answer.code, 201, "{more}: {answer:?}");
    }
    for (resource, expect) in [
        ("nodes/status", "nodes/status"),
        ("pods/binding", "pods/binding in kube-system"),
        (
            "*/status",
            "pods/status in kube-system, nodes/status, certificatesigningrequests/status",
        ),
        (
            "certificatesigningrequests/approval",
            "certificatesigningrequests/approval",
        ),
        ("localsubjectaccessreviews", "localsubjectaccessreviews"),
    ] {
        let text = configuration("").replace("\"*/*\"", &format!("\"{resource}\""));
        assert!(text.contains(resource), "{text}");
        let refused = send(&client, Method::POST, &path, YAML, text).await;
        let message = refused.body["message"].as_str().unwrap_or_default();
        assert!(
            message.contains(&format!("excludeResourceRules: {expect}")),
            "{resource}: {refused:?}"
        );
    }
    // What the webhook itself needs to run counts too, if it runs in the cluster.
    let url = "{url: \"https://127.0.0.1:1/\"}";
    let system = "{resources: ['*/*'], namespaces: [kube-system, kube-node-lease]}";
    let excluding = |more: &str| {
        let rules = format!("excludeResourceRules: [{outside}, {system}{more}]");
        configuration(&rules).replace(url, "{service: {namespace: policy, name: labels}}")
    };
    let refused = send(&client, Method::POST, &path, YAML, excluding("")).await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    let expect = "excludeResourceRules: pods where the webhook runs, pods/binding where the webhook runs, \
                  pods/status where the webhook runs, serviceaccounts/token where the webhook runs, \
                  endpointslices where the webhook runs";
    assert!(message.ends_with(expect), "{refused:?}");
    let own = ", {resources: ['*/*'], namespaces: [policy]}";
    let answer = send(&client, Method::POST, &path, YAML, excluding(own)).await;
    assert_eq!((answer.code, answer.warnings), (201, Vec::new()));

    let example = include_str!("../../../../examples/admission/webhook.yaml").to_owned();
    let answer = send(&client, Method::POST, &path, YAML, example).await;
    assert_eq!(answer.code, 201, "{answer:?}");
}

/// Random webhooks. Rules and exclusions are about resources that matter, so that few cases are trivial.
struct RandomWebhooks(SeededRng);

impl RandomWebhooks {
    fn one_of(&mut self, values: &Value) -> Value {
        let values = values.as_array().expect("a list");
        values[self.0.below(values.len())].clone()
    }

    fn rule(&mut self) -> Value {
        let mut rule = json!({
            "apiGroups": self.one_of(&json!([
                ["*"], ["*"], [""], ["coordination.k8s.io", ""], ["authentication.k8s.io"], ["authorization.k8s.io"],
                ["certificates.k8s.io"], ["discovery.k8s.io"], ["apps"],
            ])),
            "apiVersions": self.one_of(&json!([["*"], ["v1"], ["v1", "v1beta1"], ["v2"]])),
            "operations": self.one_of(&json!([["*"], ["CREATE"], ["UPDATE", "DELETE"], ["CONNECT"]])),
            "resources": [self.one_of(&json!([
                "*", "*/*", "pods", "pods/*", "pods/binding", "*/status", "nodes", "nodes/status", "leases", "*/token",
                "endpointslices", "tokenreviews", "localsubjectaccessreviews", "certificatesigningrequests/approval",
                "deployments",
            ]))],
        });
        if self.0.below(4) == 0 {
            rule["scope"] = self.one_of(&json!(["*", "Cluster", "Namespaced"]));
        }
        rule
    }

    fn exclusion(&mut self) -> Value {
        let namespaces = json!(["kube-system", "kube-node-lease", "policy"]);
        let not_in = json!({"key": NAME_LABEL, "operator": "NotIn", "values": ["shop"]});
        match self.0.below(10) {
            0 => json!({"resources": ["*/*"], "scope": "Cluster"}),
            1 => json!({"resources": ["*/*"], "namespaces": namespaces}),
            2 => json!({"resources": ["pods", "pods/*"], "namespaces": ["kube-system"]}),
            3 => json!({"apiGroups": ["authorization.k8s.io"]}),
            4 => {
                json!({"apiGroups": ["", "coordination.k8s.io", "discovery.k8s.io"], "resources": ["*/*"]})
            }
            5 => json!({"resources": ["*/*"], "namespaceSelector": {"matchExpressions": [not_in]}}),
            6 => {
                json!({"resources": ["nodes", "nodes/status"], "operations": ["CREATE", "UPDATE"]})
            }
            7 => json!({"resources": ["leases"], "apiVersions": ["v1"]}),
            8 => json!({"resources": ["pods"], "resourceNames": ["labels"]}),
            _ => json!({"resources": ["*/status", "endpointslices"], "scope": "Namespaced"}),
        }
    }

    fn webhook(&mut self, index: usize) -> Value {
        let rules: Vec<Value> = (0..self.0.between(1, 2)).map(|_| self.rule()).collect();
        let exclusions: Vec<Value> = (0..self.0.below(6)).map(|_| self.exclusion()).collect();
        let expression = |operator: &str, values: Value| {
            let mut expression = json!({"key": NAME_LABEL, "operator": operator});
            if !values.is_null() {
                expression["values"] = values;
            }
            json!({"matchExpressions": [expression]})
        };
        let mut webhook = json!({
            "name": format!("w{index}.example.com"),
            "rules": rules,
            "excludeResourceRules": exclusions,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": self.one_of(&json!(["Fail", "Fail", "Fail", "Fail", "Ignore"])),
            "matchPolicy": self.one_of(&json!(["Exact", "Equivalent"])),
            "clientConfig": self.one_of(&json!([
                {"url": "https://127.0.0.1:1/"},
                {"service": {"namespace": "policy", "name": "s"}},
                {"service": {"namespace": "kube-system", "name": "s"}},
            ])),
            "namespaceSelector": self.one_of(&json!([
                {}, {}, {"matchLabels": {NAME_LABEL: "kube-system"}}, {"matchLabels": {"team": "a"}},
                expression("NotIn", json!(["kube-system", "kube-node-lease"])),
                expression("In", json!(["policy", "shop"])),
                expression("Exists", Value::Null), expression("DoesNotExist", Value::Null),
            ])),
            "objectSelector": self.one_of(&json!([{}, {}, {"matchLabels": {"a": "b"}}])),
        });
        if self.0.below(6) == 0 {
            let condition = json!({"name": "c", "expression": "request.operation == 'CREATE'"});
            webhook["matchConditions"] = json!([condition]);
        }
        webhook
    }
}

/// The policy may refuse more than the warning is about, but never less.
#[tokio::test]
async fn the_policy_refuses_every_webhook_that_causes_the_warning() {
    let server = TestServer::start();
    let client = server.client().await;
    create_policy(&client, "Warn").await;
    let mut random = RandomWebhooks(SeededRng::new(0x3693));
    // Those with both warnings, with that of the policy, and with none.
    let (mut both, mut policy_only, mut neither) = (0, 0, 0);
    for _ in 0..1_000 {
        let webhooks: Vec<Value> = (0..random.0.between(1, 2))
            .map(|index| random.webhook(index))
            .collect();
        let object = json!({"metadata": {"name": "random"}, "webhooks": webhooks});
        let path = format!("{WEBHOOKS}?dryRun=All");
        let answer = send(&client, Method::POST, &path, JSON, object.to_string()).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        let texts = texts(&answer);
        let has = |part: &str| texts.iter().any(|text| text.contains(part));
        let is_warned = has(DEPENDS) || has("can stop");
        let is_refused = has("must leave out what the cluster depends on");
        assert!(is_refused || !is_warned, "{object}: {texts:?}");
        match (is_warned, is_refused) {
            (true, _) => both += 1,
            (false, true) => policy_only += 1,
            (false, false) => neither += 1,
        }
    }
    let counts = (both, policy_only, neither);
    assert!(both > 100 && neither > 100, "{counts:?}");
}
