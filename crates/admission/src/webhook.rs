//! The webhooks of a configuration.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_expressions::Environment;
use serde_json::Value;

use crate::Object;
use crate::conditions::Conditions;
use crate::criteria::{Criteria, Reading};
use crate::review::ReviewVersion;

const TIMEOUT_SECONDS: u64 = 10;
const PORT: u16 = 443;

/// Which of the two configurations a webhook is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    Mutating,
    Validating,
}

impl Flavor {
    /// As metrics name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Flavor::Mutating => "admit",
            Flavor::Validating => "validating",
        }
    }

    /// The resource of its configurations.
    pub const fn plural(self) -> &'static str {
        match self {
            Flavor::Mutating => "mutatingwebhookconfigurations",
            Flavor::Validating => "validatingwebhookconfigurations",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

/// Whether a webhook may be asked about a write that is only tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideEffects {
    /// Nobody said.
    Absent,
    None,
    Some,
}

/// Where a webhook is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    Url(String),
    Service(Service),
    /// The configuration names neither.
    Nowhere,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Service {
    pub namespace: String,
    pub name: String,
    pub port: u16,
    /// Begins with a slash.
    pub path: String,
}

#[derive(Debug, Clone)]
pub struct Webhook {
    pub configuration: Arc<str>,
    pub name: Arc<str>,
    /// No two webhooks of one flavor have the same.
    pub id: Arc<str>,
    pub criteria: Criteria,
    pub conditions: Conditions,
    pub failure: FailurePolicy,
    pub timeout: Duration,
    pub side_effects: SideEffects,
    /// `None` if it reads none that the server writes.
    pub reviews: Option<ReviewVersion>,
    /// Whether it wants to be asked again when others have changed the object after it.
    pub reinvoked: bool,
    pub address: Address,
    /// In PEM; the system's if there are none.
    pub authorities: Option<Arc<[u8]>>,
}

/// The webhooks of a configuration, in their order.
pub fn webhooks_of(configuration: &Object, reading: Reading) -> Vec<Webhook> {
    let metadata = configuration.get("metadata").unwrap_or(&Value::Null);
    let name: Arc<str> = text(&metadata["name"]).into();
    let mut repeats: HashMap<String, usize> = HashMap::new();
    let list = configuration.get("webhooks").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|webhook| {
            let webhook_name = text(&webhook["name"]);
            let repeat = repeats.entry(webhook_name.to_owned()).or_default();
            let id = format!("{name}/{webhook_name}/{repeat}");
            *repeat += 1;
            read(webhook, &name, id, reading)
        })
        .collect()
}

fn read(webhook: &Value, configuration: &Arc<str>, id: String, reading: Reading) -> Webhook {
    let client = &webhook["clientConfig"];
    Webhook {
        configuration: configuration.clone(),
        name: text(&webhook["name"]).into(),
        id: id.into(),
        criteria: Criteria::of_webhook(webhook, reading),
        conditions: Conditions::compile(
            &webhook["matchConditions"],
            &Environment::match_conditions(),
        ),
        failure: failure_policy(&webhook["failurePolicy"]),
        timeout: Duration::from_secs(
            webhook["timeoutSeconds"]
                .as_u64()
                .unwrap_or(TIMEOUT_SECONDS),
        ),
        side_effects: match webhook["sideEffects"].as_str() {
            None => SideEffects::Absent,
            Some("None" | "NoneOnDryRun") => SideEffects::None,
            Some(_) => SideEffects::Some,
        },
        reviews: webhook["admissionReviewVersions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find_map(ReviewVersion::named),
        reinvoked: webhook["reinvocationPolicy"].as_str() == Some("IfNeeded"),
        address: address_of(client),
        authorities: client["caBundle"]
            .as_str()
            .and_then(|bundle| STANDARD.decode(bundle).ok())
            .filter(|bundle| !bundle.is_empty())
            .map(Into::into),
    }
}

pub(crate) fn failure_policy(policy: &Value) -> FailurePolicy {
    match policy.as_str() {
        Some("Ignore") => FailurePolicy::Ignore,
        _ => FailurePolicy::Fail,
    }
}

fn address_of(client: &Value) -> Address {
    if let Some(url) = client["url"].as_str() {
        return Address::Url(url.to_owned());
    }
    let service = &client["service"];
    if !service.is_object() {
        return Address::Nowhere;
    }
    let path = text(&service["path"]);
    Address::Service(Service {
        namespace: text(&service["namespace"]).to_owned(),
        name: text(&service["name"]).to_owned(),
        port: service["port"]
            .as_u64()
            .and_then(|port| port.try_into().ok())
            .unwrap_or(PORT),
        path: if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        },
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
