//! Sends the requests of a case and returns the responses.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::case::{CaseFile, DifferentialCase, RequestStep};
use super::diff::matches;
use super::normalizer::ResponseNormalizer;
use super::{NormalizedResponse, ResponsesByCase};
use crate::client::{RawClient, RawRequest, RawResponse, RequestIdentity};

/// Headers that are compared if present.
const HEADERS: [&str; 6] = [
    "allow",
    "content-type",
    "location",
    "retry-after",
    "warning",
    "www-authenticate",
];

/// Runs all cases whose names contain `filter`, and passes the name of each to `report` first.
pub async fn run_all_cases(
    client: &RawClient,
    topics: &[CaseFile],
    filter: &str,
    mut report: impl FnMut(&str),
) -> ResponsesByCase {
    let mut responses = ResponsesByCase::new();
    for topic in topics {
        report(&topic.name);
        for case in topic.cases.iter().filter(|case| case.name.contains(filter)) {
            let case_responses = run_case(client, topic, case).await;
            responses.insert(topic.qualified_name(case), case_responses);
        }
    }
    responses
}

async fn run_case(
    client: &RawClient,
    topic: &CaseFile,
    case: &DifferentialCase,
) -> Vec<NormalizedResponse> {
    let mut runner = CaseRunner::new(client, topic, case);
    if runner.sent_text.contains("${ns}") {
        runner.create_namespace().await;
    }
    let mut responses = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        let number = index + 1;
        if step.variants.is_empty() {
            let title = format!("{number} {}", step.request);
            responses.push(runner.run_step(step, None, title).await);
        }
        for (index, variant) in step.variants.iter().enumerate() {
            let title = format!("{number}.{} {}", index + 1, step.request);
            responses.push(runner.run_step(step, Some(variant), title).await);
        }
    }
    responses
}

struct CaseRunner<'a> {
    client: &'a RawClient,
    objects: &'a BTreeMap<String, Value>,
    variables: BTreeMap<String, String>,
    normalizer: ResponseNormalizer,
    /// Everything that the case sends.
    sent_text: String,
}

impl<'a> CaseRunner<'a> {
    fn new(client: &'a RawClient, topic: &'a CaseFile, case: &DifferentialCase) -> Self {
        let id = random_id();
        let mut variables = topic.variables.clone();
        variables.insert("ns".into(), format!("ns-{id}"));
        variables.insert("id".into(), id.clone());
        let sent_text = everything_sent(topic, case);
        Self {
            client,
            objects: &topic.objects,
            variables,
            normalizer: ResponseNormalizer::new(&id, sent_text.clone()),
            sent_text,
        }
    }

    /// Creates the namespace and its default service account, which pods need; a controller may create the account as well.
    /// Failures show in the later responses.
    async fn create_namespace(&mut self) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${ns}"}});
        self.create("/api/v1/namespaces", namespace).await;
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        self.create("/api/v1/namespaces/${ns}/serviceaccounts", account)
            .await;
    }

    async fn create(&mut self, path: &str, object: Value) {
        let step = RequestStep {
            request: format!("POST {path}"),
            body: Some(object),
            ..RequestStep::default()
        };
        let request = self.request(&step, None);
        match self.client.send(&request).await {
            Ok(response)
                if response.status.is_success() || response.status == StatusCode::CONFLICT => {}
            Ok(response) => eprintln!(
                "    failed to prepare a case: POST {path}: {}",
                response.status
            ),
            Err(error) => eprintln!("    failed to prepare a case: POST {path}: {error:#}"),
        }
    }

    async fn run_step(
        &mut self,
        step: &RequestStep,
        variant: Option<&Value>,
        title: String,
    ) -> NormalizedResponse {
        let request = self.request(step, variant);
        let result = self.client.send(&request).await;
        tokio::time::sleep(Duration::from_millis(step.wait_ms)).await;
        match result {
            Ok(response) => self.normalize(step, title, &response),
            Err(error) => NormalizedResponse {
                step: title,
                status: 0,
                headers: BTreeMap::new(),
                body: format!("no response: {error:#}").into(),
            },
        }
    }

    fn request(&self, step: &RequestStep, variant: Option<&Value>) -> RawRequest {
        let (method, path) = step.request.split_once(' ').unwrap_or(("", ""));
        let body = self.expand(&step.body(self.objects, variant));
        let mut headers = Vec::new();
        let mut header = |name: &str, value: &str| {
            headers.push((name.to_owned(), self.expand(value)));
        };
        match (&step.content_type, method) {
            (Some(content_type), _) if content_type.is_empty() => {}
            (Some(content_type), _) => header("content-type", content_type),
            (None, "PATCH") => header("content-type", "application/merge-patch+json"),
            (None, _) if !body.is_empty() => header("content-type", "application/json"),
            _ => {}
        }
        header(
            "accept",
            step.accept.as_deref().unwrap_or("application/json"),
        );
        if let Some(user) = &step.user {
            header("impersonate-user", user);
        }
        for group in &step.groups {
            header("impersonate-group", group);
        }
        for (name, value) in &step.headers {
            header(name, value);
        }
        RawRequest {
            method: method.to_owned(),
            path: self.expand(path),
            headers,
            body: body.into(),
            identity: match step.auth.as_deref() {
                None => RequestIdentity::Admin,
                Some("anonymous") => RequestIdentity::Anonymous,
                Some(token) => RequestIdentity::Token(self.expand(token)),
            },
            lines: step.events,
        }
    }

    /// Substitutes `${…}` variables, recursively.
    fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..2 {
            for (name, value) in &self.variables {
                text = text.replace(&format!("${{{name}}}"), value);
            }
        }
        text
    }

    fn normalize(
        &mut self,
        step: &RequestStep,
        title: String,
        response: &RawResponse,
    ) -> NormalizedResponse {
        let body = parse_body(&response.headers, &response.body, step.events.is_some());
        for (name, pointer) in &step.save {
            if let Some(value) = body.pointer(pointer) {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                self.variables.insert(name.clone(), text);
            }
        }
        self.normalizer.mask_numbers_after(&step.mask_numbers_after);
        let mut normalized = NormalizedResponse {
            step: title,
            status: response.status.as_u16(),
            headers: self.headers(&response.headers),
            body: self.normalizer.value(body),
        };
        each_field(&mut normalized.body, "body", &step.ignore, &|value| {
            *value = "<ignored>".into();
        });
        each_field(&mut normalized.body, "body", &step.unordered, &|value| {
            if let Value::Array(items) = value {
                items.sort_by_key(Value::to_string);
            }
        });
        for pattern in &step.ignore {
            if let Some(name) = pattern.strip_prefix("header.") {
                normalized.headers.remove(name);
            }
        }
        normalized
    }

    fn headers(&mut self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut compared = BTreeMap::new();
        for name in HEADERS {
            let values: Vec<String> = headers
                .get_all(name)
                .iter()
                .map(|value| {
                    self.normalizer
                        .text(&String::from_utf8_lossy(value.as_bytes()))
                })
                .collect();
            if !values.is_empty() {
                compared.insert(name.to_owned(), values);
            }
        }
        compared
    }
}

/// Five random letters.
fn random_id() -> String {
    let bytes = *uuid::Uuid::new_v4().as_bytes();
    let letter = |byte: u8| char::from(b'a' + byte % 26);
    bytes[..5].iter().map(|byte| letter(*byte)).collect()
}

fn everything_sent(topic: &CaseFile, case: &DifferentialCase) -> String {
    let mut text = String::new();
    for step in &case.steps {
        text += &step.request;
        let variants = step.variants.iter().map(Some);
        for variant in variants.chain(step.variants.is_empty().then_some(None)) {
            text += step.body(&topic.objects, variant).trim_end();
        }
    }
    for value in topic.variables.values() {
        text += value;
    }
    text
}

/// The body as JSON value: the events of a stream, parsed JSON or YAML, or else a string.
fn parse_body(headers: &HeaderMap, body: &Bytes, is_stream: bool) -> Value {
    let text = String::from_utf8_lossy(body);
    if is_stream && text.starts_with('{') {
        let event =
            |line: &str| -> Value { serde_json::from_str(line).unwrap_or_else(|_| line.into()) };
        return text.lines().map(event).collect();
    }
    let content_type = headers
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if content_type.contains("json") {
        serde_json::from_str(&text).ok()
    } else if content_type.contains("yaml") {
        serde_saphyr::from_str(&text).ok()
    } else {
        None
    }
    .unwrap_or_else(|| text.into())
}

/// Applies `change` to every field whose path matches.
fn each_field(value: &mut Value, path: &str, patterns: &[String], change: &impl Fn(&mut Value)) {
    if patterns.iter().any(|pattern| matches(pattern, path)) {
        change(value);
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                each_field(value, &format!("{path}.{name}"), patterns, change);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter_mut().enumerate() {
                each_field(value, &format!("{path}[{index}]"), patterns, change);
            }
        }
        _ => {}
    }
}
