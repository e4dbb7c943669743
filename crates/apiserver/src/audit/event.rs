//! What a line of the log says.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderValue, USER_AGENT};
use rhumb_auth::User;
use rhumb_meta::{Status, Timestamp};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::body::in_line;
use super::notes::{DECISION, REASON, TRUNCATED};
use super::{Level, Terms};
use crate::request::RequestInfo;

/// Longer names of clients are cut, as upstream cuts them.
const USER_AGENT_BYTES_MAX: usize = 1024;

/// When in the life of a request an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// The headers of a stream are sent, its body is not.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// What is known of a request as it comes in.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestFacts {
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

/// The object that a request is about.
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

/// One line of the log.
#[derive(Debug, Clone)]
pub struct Event {
    /// What the rule that fits the request says.
    pub terms: Terms,
    pub facts: RequestFacts,
    pub stage: Stage,
    pub stage_time: Timestamp,
    pub user: Option<Arc<User>>,
    pub impersonated: Option<Arc<User>>,
    pub code: u16,
    pub failure: Option<Box<Status>>,
    /// What admission had to say.
    pub notes: Vec<(String, String)>,
    /// Whether the request was allowed, and why; `None` if nobody asked.
    pub decision: Option<(bool, String)>,
    /// What was sent, if the level asks for it: JSON, or a patch as it came.
    pub request: Option<Bytes>,
    /// The answer in JSON, if the level asks for it.
    pub answer: Option<Bytes>,
    /// Whether the answer was too long to be logged.
    pub truncated: bool,
}

impl RequestFacts {
    pub fn new(
        audit_id: HeaderValue,
        uri: &http::Uri,
        info: &RequestInfo,
        source: &str,
        headers: &HeaderMap,
        received: Timestamp,
    ) -> RequestFacts {
        let object_ref = info.target.as_ref().map(|target| ObjectReference {
            resource: target.resource.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            api_group: target.group.clone(),
            api_version: target.version.clone(),
            subresource: target.subresource.clone(),
        });
        RequestFacts {
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: Level,
    stage: Stage,
    #[serde(flatten)]
    facts: &'a RequestFacts,
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

impl Event {
    /// The line without its end.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let nobody = User::default();
        let body = |body: &Option<Bytes>| {
            body.as_deref()
                .map(|body| in_line(body, self.terms.omit_managed_fields))
                .transpose()
        };
        serde_json::to_vec(&Line {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: self.terms.level,
            stage: self.stage,
            facts: &self.facts,
            user: self.user.as_deref().unwrap_or(&nobody),
            impersonated_user: self.impersonated.as_deref(),
            response_status: self.response_status(),
            request_object: body(&self.request)?,
            response_object: body(&self.answer)?,
            stage_timestamp: self.stage_time,
            annotations: self.annotations(),
        })
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        let body = |body: &Option<Bytes>| body.as_ref().map_or(0, Bytes::len);
        let message = self.failure.as_ref().map_or(0, |it| it.message.len());
        size_of::<Event>()
            + 2 * self.facts.uri.len()
            + self.facts.user_agent.len()
            + message
            + self.notes_bytes()
            + body(&self.request)
            + body(&self.answer)
    }

    fn notes_bytes(&self) -> usize {
        let notes = self.notes.iter();
        notes.map(|(key, value)| key.len() + value.len()).sum()
    }

    fn annotations(&self) -> Option<Value> {
        // What the server says itself comes last, and so stays whatever others say.
        let notes = self.notes.iter();
        let mut annotations: Map<String, Value> = notes
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect();
        if self.truncated {
            annotations.insert(TRUNCATED.into(), "true".into());
        }
        if let Some((allowed, reason)) = &self.decision {
            let decision = if *allowed { "allow" } else { "forbid" };
            annotations.insert(DECISION.into(), decision.into());
            annotations.insert(REASON.into(), reason.clone().into());
        }
        (!annotations.is_empty()).then_some(Value::Object(annotations))
    }

    /// A failure without its details: those name fields and values of the object.
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
    use crate::request::Query;

    #[test]
    fn nobody_speaks_for_the_server() {
        let now = Timestamp::from_unix(1_800_000_000, 0);
        let info = RequestInfo::new(&http::Method::GET, "/version", &Query::default());
        let note = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let event = Event {
            terms: Terms::default(),
            facts: RequestFacts::new(
                HeaderValue::from_static("id"),
                &http::Uri::from_static("/version"),
                &info,
                "10.1.2.3",
                &HeaderMap::new(),
                now,
            ),
            stage: Stage::ResponseComplete,
            stage_time: now,
            user: None,
            impersonated: None,
            code: 200,
            failure: None,
            notes: vec![
                note(DECISION, "forbid"),
                note(REASON, "forged"),
                note(TRUNCATED, "false"),
                note("w.example.com/key", "kept"),
            ],
            decision: Some((true, "a role".to_owned())),
            request: None,
            answer: None,
            truncated: true,
        };
        let line = event.to_json().expect("a line");
        let line: Value = serde_json::from_slice(&line).expect("JSON");
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
