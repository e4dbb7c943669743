//! Compares exclusion rules with the match conditions that rhumb compiles from them, on a real server.
//!
//! Random webhooks are registered with the compiled condition instead of their exclusion rules. The server must call them
//! for exactly the requests for which rhumb would call them with the rules.

mod random_webhooks;
mod requests;
mod webhook_server;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use rhumb_admission::compile::{EquivalentResourceSets, compile_webhook};
use rhumb_admission::explain::{AdmissionRegistrations, ExplainedWrite, explain};
use rhumb_admission::review::UserInfo;
use rhumb_admission::{CriteriaFeatures, MatchAttributes};
use serde_json::{Map, Value, json};

use crate::client::{RawClient, RawRequest, RawResponse};
use requests::{AdmissionTestRequest, EQUIVALENT_RESOURCES, NAMESPACES};
use webhook_server::RecordingWebhookServer;

const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const CONFIGURATION: &str = "random";
/// The maximum number of requests until the server uses a new configuration.
const ACTIVATION_ATTEMPTS: usize = 2_000;

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct MatchConditionComparison {
    /// The number of pairs of a webhook and a request.
    pub compared: usize,
    /// For how many of them the webhook was called.
    pub called: usize,
    /// How many of them were excluded by an exclusion rule.
    pub excluded: usize,
    /// Webhooks with rules that match conditions cannot express.
    pub not_compilable: usize,
    pub differences: Vec<String>,
}

/// Compares this many rounds of random webhooks, each with all requests.
pub async fn compare(
    client: &RawClient,
    seed: u64,
    rounds: usize,
    webhooks_per_round: usize,
) -> Result<MatchConditionComparison> {
    let server = RecordingWebhookServer::start().await?;
    let requests = requests::all();
    create_prerequisites(client).await?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut comparison = MatchConditionComparison::default();
    let resources = equivalent_sets();
    for round in 0..rounds {
        let mut originals = Vec::new();
        let mut compiled = Vec::new();
        while originals.len() < webhooks_per_round {
            let original = random_webhooks::webhook(&mut rng, originals.len());
            match compile_webhook(&original, &resources) {
                Ok(webhook) => {
                    originals.push(original);
                    compiled.push(webhook.webhook);
                }
                Err(_) => comparison.not_compilable += 1,
            }
        }
        activate(client, &server, round, compiled.clone()).await?;
        for request in &requests {
            let (called, _) = send_and_record(client, &server, request).await?;
            let expected = verdicts(&originals, request);
            for (index, verdict) in expected.iter().enumerate() {
                comparison.compared += 1;
                comparison.called += usize::from(*verdict == "called");
                comparison.excluded += usize::from(*verdict == "excluded");
                if called.contains(&index) != (*verdict == "called") {
                    comparison.differences.push(format!(
                        "{}: {verdict} with exclusion rules, but {} with the match condition\n    {}\n    {}",
                        request.name,
                        if called.contains(&index) { "called" } else { "not called" },
                        Value::Object(originals[index].clone()),
                        compiled[index].get("matchConditions").unwrap_or(&Value::Null),
                    ));
                }
            }
        }
    }
    Ok(comparison)
}

fn equivalent_sets() -> EquivalentResourceSets {
    let set = |resources: &&[requests::Gvr]| resources.iter().map(requests::resource).collect();
    EquivalentResourceSets(EQUIVALENT_RESOURCES.iter().map(set).collect())
}

/// Creates the namespaces and objects of the requests.
async fn create_prerequisites(client: &RawClient) -> Result<()> {
    for (path, body) in requests::prerequisites() {
        let response = call(client, "POST", &path, &body).await?;
        ensure!(
            response.status.is_success() || response.status.as_u16() == 409,
            "POST {path} failed: {}",
            String::from_utf8_lossy(&response.body)
        );
    }
    Ok(())
}

/// Registers webhooks and waits until the server calls them. The last is a marker that is called for every config map.
async fn activate(
    client: &RawClient,
    server: &RecordingWebhookServer,
    round: usize,
    mut webhooks: Vec<Map<String, Value>>,
) -> Result<()> {
    let marker = webhooks.len();
    webhooks.push(random_webhooks::marker(marker));
    for (index, webhook) in webhooks.iter_mut().enumerate() {
        let url = format!("{}/{round}/{index}", server.url());
        let client_config = json!({"url": url, "caBundle": server.ca_bundle()});
        webhook.insert("clientConfig".to_owned(), client_config);
    }
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": webhooks,
    });
    let path = format!("{CONFIGURATIONS}/{CONFIGURATION}");
    call(client, "DELETE", &path, &json!({})).await?;
    let created = call(client, "POST", CONFIGURATIONS, &configuration).await?;
    expect_success("create the configuration", &created)?;
    server.set_round(round);
    let probe = requests::marker_request();
    for _ in 0..ACTIVATION_ATTEMPTS {
        let (called, response) = send_and_record(client, server, &probe).await?;
        expect_success("create a config map", &response)?;
        if called.contains(&marker) {
            return Ok(());
        }
    }
    anyhow::bail!(
        "the server did not call the webhooks of round {round} for {ACTIVATION_ATTEMPTS} requests"
    )
}

/// Sends a request and returns the webhooks that were called for it.
async fn send_and_record(
    client: &RawClient,
    server: &RecordingWebhookServer,
    request: &AdmissionTestRequest,
) -> Result<(BTreeSet<usize>, RawResponse)> {
    server.clear();
    let response = client
        .send(&request.raw())
        .await
        .with_context(|| request.name.to_owned())?;
    if !request.may_fail {
        expect_success(request.name, &response)?;
    }
    let text = String::from_utf8_lossy(&response.body);
    ensure!(
        !text.contains("failed calling webhook") && !text.contains("match condition"),
        "{}: {text}",
        request.name
    );
    Ok((server.called(), response))
}

/// What rhumb would do for each webhook with its exclusion rules: `called`, `excluded` or `not matched`.
fn verdicts(webhooks: &[Map<String, Value>], request: &AdmissionTestRequest) -> Vec<&'static str> {
    let mut registrations = AdmissionRegistrations::default();
    let configuration = json!({
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": webhooks,
    });
    if let Value::Object(configuration) = configuration {
        let _ = registrations.add(configuration);
    }
    let names = request.names();
    let object =
        json!({"metadata": {"name": request.object_name, "labels": labels(request.object_name)}});
    let namespace =
        json!({"metadata": {"name": request.namespace, "labels": labels(request.namespace)}});
    let write = ExplainedWrite {
        attributes: MatchAttributes {
            operation: request.operation,
            requested: &names[0],
            equivalents: &names[1..],
            subresource: request.subresource,
            name: request.object_name,
            namespace: request.namespace,
        },
        object: object.as_object(),
        old_object: None,
        namespace: namespace.as_object(),
        user: UserInfo {
            username: "admin",
            uid: "",
            groups: &[],
            extra: &BTreeMap::new(),
        },
        dry_run: true,
    };
    let options = CriteriaFeatures {
        exclusion_rules: true,
    };
    let participants = explain(&write, &registrations, options);
    let verdict = |text: String| match text {
        text if text.starts_with("called") => "called",
        text if text.starts_with("excluded") => "excluded",
        _ => "not matched",
    };
    participants
        .iter()
        .map(|participant| verdict(participant.verdict.to_string()))
        .collect()
}

/// The labels of a namespace.
fn labels(namespace: &str) -> Value {
    let mut labels = json!({"kubernetes.io/metadata.name": namespace});
    if let Some((_, team)) = NAMESPACES.iter().find(|(name, _)| *name == namespace) {
        labels["team"] = (*team).into();
    }
    labels
}

async fn call(client: &RawClient, method: &str, path: &str, body: &Value) -> Result<RawResponse> {
    client
        .send(&RawRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: Bytes::from(body.to_string()),
            ..RawRequest::default()
        })
        .await
}

fn expect_success(what: &str, response: &RawResponse) -> Result<()> {
    ensure!(
        response.status.is_success(),
        "failed to {what}: {} {}",
        response.status,
        String::from_utf8_lossy(&response.body)
    );
    Ok(())
}
