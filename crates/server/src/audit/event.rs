//! Audit events and their JSON (upstream: `audit.k8s.io/v1` `Event`).

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderValue, USER_AGENT};
use rhumb_auth::User;
use rhumb_meta::{Status, Timestamp};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{AuditLevel, RequestAuditConfig};
use rhumb_handlers::audit_body::to_single_line_json;
use rhumb_handlers::request::RequestInfo;
use rhumb_registry::{DECISION_KEY, REASON_KEY, TRUNCATED_KEY};

/// Longer user agents are truncated, as upstream does.
const USER_AGENT_BYTES_MAX: usize = 1024;

/// Stage of the request at which an event is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AuditStage {
    /// The response headers of a long-running request were sent, the body was not.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// The part of an event that is known when the request is received.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditedRequest {
    #[serde(rename = "auditID", serialize_with = "header_text")]
    pub audit_id: HeaderValue,
    #[serde(rename = "requestURI")]
    pub uri: String,
    pub verb: &'static str,
    #[serde(rename = "sourceIPs")]
    pub source_ips: [String; 1],
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_ref: Option<ObjectReference>,
    #[serde(rename = "requestReceivedTimestamp", serialize_with = "microseconds")]
    pub received: Timestamp,
}

/// The object that a request targets.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    pub resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    pub api_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
}

/// One event of the audit log.
#[derive(Debug, Clone)]
pub struct AuditEvent {
    /// Result of the audit policy for the request.
    pub config: RequestAuditConfig,
    pub audited_request: AuditedRequest,
    pub stage: AuditStage,
    pub stage_time: Timestamp,
    pub user: Option<Arc<User>>,
    pub impersonated: Option<Arc<User>>,
    pub code: u16,
    pub failure: Option<Box<Status>>,
    /// Annotations added by webhooks and policies.
    pub admission_annotations: Vec<(String, String)>,
    /// Whether the request was allowed, and the reason; `None` if it failed before authorization.
    pub authorization: Option<(bool, String)>,
    /// The request body, if the level includes it: JSON, or a patch as received.
    pub request: Option<Bytes>,
    /// The response body in JSON, if the level includes it.
    pub response: Option<Bytes>,
    /// Whether the response body was omitted because of its length.
    pub truncated: bool,
}

impl AuditedRequest {
    pub fn new(
        audit_id: HeaderValue,
        uri: &http::Uri,
        info: &RequestInfo,
        source: &str,
        headers: &HeaderMap,
        received: Timestamp,
    ) -> AuditedRequest {
        let object_ref = info.resource_path.as_ref().map(|target| ObjectReference {
            resource: target.resource.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            api_group: target.group.clone(),
            api_version: target.version.clone(),
            subresource: target.subresource.clone(),
        });
        AuditedRequest {
            audit_id,
            uri: uri
                .path_and_query()
                .map_or_else(|| uri.path().to_owned(), ToString::to_string),
            verb: info.verb,
            source_ips: [source.to_owned()],
            user_agent: user_agent(headers),
            object_ref,
            received,
        }
    }
}

fn user_agent(headers: &HeaderMap) -> String {
    let Some(value) = headers.get(USER_AGENT) else {
        return String::new();
    };
    let text = String::from_utf8_lossy(value.as_bytes());
    if text.len() <= USER_AGENT_BYTES_MAX {
        return text.into_owned();
    }
    let end = text.floor_char_boundary(USER_AGENT_BYTES_MAX);
    format!("{}...TRUNCATED", &text[..end])
}

fn header_text<S: Serializer>(value: &HeaderValue, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.to_str().unwrap_or_default())
}

fn microseconds<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time.rfc3339_micro())
}

/// JSON of an event, in upstream's order of fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuditEventLine<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: AuditLevel,
    stage: AuditStage,
    #[serde(flatten)]
    request: &'a AuditedRequest,
    user: &'a User,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<&'a User>,
    response_status: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Box<RawValue>>,
    #[serde(serialize_with = "microseconds")]
    stage_timestamp: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Value>,
}

impl AuditEvent {
    /// The event as one line of JSON, without a newline.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let anonymous = User::default();
        let body = |body: &Option<Bytes>| {
            body.as_deref()
                .map(|body| to_single_line_json(body, self.config.omit_managed_fields))
                .transpose()
        };
        serde_json::to_vec(&AuditEventLine {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: self.config.level,
            stage: self.stage,
            request: &self.audited_request,
            user: self.user.as_deref().unwrap_or(&anonymous),
            impersonated_user: self.impersonated.as_deref(),
            response_status: self.response_status(),
            request_object: body(&self.request)?,
            response_object: body(&self.response)?,
            stage_timestamp: self.stage_time,
            annotations: self.annotations(),
        })
    }

    /// Approximate memory of the event.
    pub fn estimated_bytes(&self) -> usize {
        let body = |body: &Option<Bytes>| body.as_ref().map_or(0, Bytes::len);
        let message = self
            .failure
            .as_ref()
            .map_or(0, |status| status.message.len());
        size_of::<AuditEvent>()
            + 2 * self.audited_request.uri.len()
            + self.audited_request.user_agent.len()
            + message
            + self.annotation_bytes()
            + body(&self.request)
            + body(&self.response)
    }

    fn annotation_bytes(&self) -> usize {
        let annotations = self.admission_annotations.iter();
        annotations
            .map(|(key, value)| key.len() + value.len())
            .sum()
    }

    fn annotations(&self) -> Option<Value> {
        // The server's own annotations are inserted last, so that webhooks cannot override them.
        let admission_annotations = self.admission_annotations.iter();
        let mut annotations: Map<String, Value> = admission_annotations
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect();
        if self.truncated {
            annotations.insert(TRUNCATED_KEY.into(), "true".into());
        }
        if let Some((allowed, reason)) = &self.authorization {
            let decision = if *allowed { "allow" } else { "forbid" };
            annotations.insert(DECISION_KEY.into(), decision.into());
            annotations.insert(REASON_KEY.into(), reason.clone().into());
        }
        (!annotations.is_empty()).then_some(Value::Object(annotations))
    }

    /// A failure without its details, which contain fields and values of the object.
    fn response_status(&self) -> Value {
        match &self.failure {
            None => json!({"metadata": {}, "code": self.code}),
            Some(status) => json!({
                "metadata": {},
                "status": "Failure",
                "message": status.message,
                "reason": status.reason,
                "code": self.code,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_handlers::request::QueryParameters;

    #[test]
    fn plugins_cannot_set_the_servers_own_annotations() {
        let now = Timestamp::from_unix(1_800_000_000, 0);
        let info = RequestInfo::new(&http::Method::GET, "/version", &QueryParameters::default());
        let annotation = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let event = AuditEvent {
            config: RequestAuditConfig::default(),
            audited_request: AuditedRequest::new(
                HeaderValue::from_static("id"),
                &http::Uri::from_static("/version"),
                &info,
                "10.1.2.3",
                &HeaderMap::new(),
                now,
            ),
            stage: AuditStage::ResponseComplete,
            stage_time: now,
            user: None,
            impersonated: None,
            code: 200,
            failure: None,
            admission_annotations: vec![
                annotation(DECISION_KEY, "forbid"),
                annotation(REASON_KEY, "forged"),
                annotation(TRUNCATED_KEY, "false"),
                annotation("w.example.com/key", "kept"),
            ],
            authorization: Some((true, "a role".to_owned())),
            request: None,
            response: None,
            truncated: true,
        };
        let line = event.to_json().expect("event is serialized");
        let line: Value = serde_json::from_slice(&line).expect("valid JSON");
        assert_eq!(
            line["annotations"],
            json!({
                "authorization.k8s.io/decision": "allow",
                "authorization.k8s.io/reason": "a role",
                "audit.k8s.io/truncated": "true",
                "w.example.com/key": "kept",
            })
        );
    }
}
