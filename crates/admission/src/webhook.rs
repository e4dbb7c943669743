//! Parses the webhooks of a ValidatingWebhookConfiguration or MutatingWebhookConfiguration.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_expressions::Environment;
use serde_json::Value;

use crate::Object;
use crate::match_conditions::MatchConditions;
use crate::match_criteria::{CriteriaFeatures, MatchCriteria};
use crate::review::ReviewVersion;

const DEFAULT_TIMEOUT_SECONDS: u64 = 10;
const DEFAULT_PORT: u16 = 443;

/// Mutating or validating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WebhookType {
    Mutating,
    Validating,
}

impl WebhookType {
    /// The `type` label in metrics.
    pub const fn metric_label(self) -> &'static str {
        match self {
            WebhookType::Mutating => "admit",
            WebhookType::Validating => "validating",
        }
    }

    /// The plural resource name of the configurations.
    pub const fn configurations_resource(self) -> &'static str {
        match self {
            WebhookType::Mutating => "mutatingwebhookconfigurations",
            WebhookType::Validating => "validatingwebhookconfigurations",
        }
    }
}

/// `failurePolicy`: what follows from a failed call or evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

/// `sideEffects`: whether a webhook may be called for a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideEffects {
    /// Not specified.
    Unspecified,
    None,
    Some,
}

/// `clientConfig`: the URL or Service of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WebhookAddress {
    Url(String),
    Service(ServiceReference),
    /// Neither a URL nor a Service is given.
    Missing,
}

/// `clientConfig.service`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    pub port: u16,
    /// Starts with a slash.
    pub path: String,
}

/// A webhook of a configuration, parsed and with its defaults.
#[derive(Debug, Clone)]
pub struct Webhook {
    pub configuration: Arc<str>,
    pub name: Arc<str>,
    /// Unique among webhooks of one type.
    pub id: Arc<str>,
    pub match_criteria: MatchCriteria,
    pub match_conditions: MatchConditions,
    pub failure_policy: FailurePolicy,
    pub timeout: Duration,
    pub side_effects: SideEffects,
    /// The first of its `admissionReviewVersions` that the server supports, if any.
    pub review_version: Option<ReviewVersion>,
    /// Whether `reinvocationPolicy` is `IfNeeded`: call again if later plugins changed the object.
    pub reinvoke_if_needed: bool,
    pub address: WebhookAddress,
    /// In PEM; `None` to use the system's roots.
    pub ca_bundle: Option<Arc<[u8]>>,
}

/// The webhooks of a configuration, in order.
pub fn parse_webhooks(configuration: &Object, reading: CriteriaFeatures) -> Vec<Webhook> {
    let metadata = configuration.get("metadata").unwrap_or(&Value::Null);
    let name: Arc<str> = str_or_empty(&metadata["name"]).into();
    let mut repeats: HashMap<String, usize> = HashMap::new();
    let list = configuration.get("webhooks").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|webhook| {
            let webhook_name = str_or_empty(&webhook["name"]);
            let repeat = repeats.entry(webhook_name.to_owned()).or_default();
            let id = format!("{name}/{webhook_name}/{repeat}");
            *repeat += 1;
            parse_webhook(webhook, &name, id, reading)
        })
        .collect()
}

fn parse_webhook(
    webhook: &Value,
    configuration: &Arc<str>,
    id: String,
    reading: CriteriaFeatures,
) -> Webhook {
    let client = &webhook["clientConfig"];
    Webhook {
        configuration: configuration.clone(),
        name: str_or_empty(&webhook["name"]).into(),
        id: id.into(),
        match_criteria: MatchCriteria::of_webhook(webhook, reading),
        match_conditions: MatchConditions::compile(
            &webhook["matchConditions"],
            &Environment::match_conditions(),
        ),
        failure_policy: parse_failure_policy(&webhook["failurePolicy"]),
        timeout: Duration::from_secs(
            webhook["timeoutSeconds"]
                .as_u64()
                .unwrap_or(DEFAULT_TIMEOUT_SECONDS),
        ),
        side_effects: match webhook["sideEffects"].as_str() {
            None => SideEffects::Unspecified,
            Some("None" | "NoneOnDryRun") => SideEffects::None,
            Some(_) => SideEffects::Some,
        },
        review_version: webhook["admissionReviewVersions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find_map(ReviewVersion::from_name),
        reinvoke_if_needed: webhook["reinvocationPolicy"].as_str() == Some("IfNeeded"),
        address: parse_address(client),
        ca_bundle: client["caBundle"]
            .as_str()
            .and_then(|bundle| STANDARD.decode(bundle).ok())
            .filter(|bundle| !bundle.is_empty())
            .map(Into::into),
    }
}

pub(crate) fn parse_failure_policy(policy: &Value) -> FailurePolicy {
    match policy.as_str() {
        Some("Ignore") => FailurePolicy::Ignore,
        _ => FailurePolicy::Fail,
    }
}

fn parse_address(client: &Value) -> WebhookAddress {
    if let Some(url) = client["url"].as_str() {
        return WebhookAddress::Url(url.to_owned());
    }
    let service = &client["service"];
    if !service.is_object() {
        return WebhookAddress::Missing;
    }
    let path = str_or_empty(&service["path"]);
    WebhookAddress::Service(ServiceReference {
        namespace: str_or_empty(&service["namespace"]).to_owned(),
        name: str_or_empty(&service["name"]).to_owned(),
        port: service["port"]
            .as_u64()
            .and_then(|port| port.try_into().ok())
            .unwrap_or(DEFAULT_PORT),
        path: if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        },
    })
}

fn str_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
