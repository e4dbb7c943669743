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
    let mut answers = ResponsesByCase::new();
    for topic in topics {
        report(&topic.name);
        for case in topic.cases.iter().filter(|case| case.name.contains(filter)) {
            let name = format!("{}/{}", topic.name, case.name);
            answers.insert(name, run_case(client, topic, case).await);
        }
    }
    answers
}

async fn run_case(
    client: &RawClient,
    topic: &CaseFile,
    case: &DifferentialCase,
) -> Vec<NormalizedResponse> {
    let mut player = CaseRunner::new(client, topic, case);
    if player.normal_text.contains("${ns}") {
        player.make_namespace().await;
    }
    let mut answers = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        let number = index + 1;
        if step.variants.is_empty() {
            let title = format!("{number} {}", step.request);
            answers.push(player.take(step, None, title).await);
        }
        for (index, variant) in step.variants.iter().enumerate() {
            let title = format!("{number}.{} {}", index + 1, step.request);
            answers.push(player.take(step, Some(variant), title).await);
        }
    }
    answers
}

struct CaseRunner<'a> {
    client: &'a RawClient,
    objects: &'a BTreeMap<String, Value>,
    variables: BTreeMap<String, String>,
    normal: ResponseNormalizer,
    normal_text: String,
}

impl<'a> CaseRunner<'a> {
    fn new(client: &'a RawClient, topic: &'a CaseFile, case: &DifferentialCase) -> Self {
        let id = unique();
        let mut variables = topic.variables.clone();
        variables.insert("ns".into(), format!("ns-{id}"));
        variables.insert("id".into(), id.clone());
        let text = everything_sent(topic, case);
        Self {
            client,
            objects: &topic.objects,
            variables,
            normal: ResponseNormalizer::new(&id, text.clone()),
            normal_text: text,
        }
    }

    /// Creates namespace and default service account, which pods need; a controller may create the account as well.
    /// Failures show in the later responses.
    async fn make_namespace(&mut self) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${ns}"}});
        self.make("/api/v1/namespaces", namespace).await;
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        self.make("/api/v1/namespaces/${ns}/serviceaccounts", account)
            .await;
    }

    async fn make(&mut self, path: &str, object: Value) {
        let step = RequestStep {
            request: format!("POST {path}"),
            body: Some(object),
            ..RequestStep::default()
        };
        let question = self.question(&step, None);
        match self.client.ask(&question).await {
            Ok(reply) if reply.status.is_success() || reply.status == StatusCode::CONFLICT => {}
            Ok(reply) => eprintln!("    a case cannot begin: {path}: {}", reply.status),
            Err(error) => eprintln!("    a case cannot begin: {path}: {error:#}"),
        }
    }

    async fn take(
        &mut self,
        step: &RequestStep,
        variant: Option<&Value>,
        title: String,
    ) -> NormalizedResponse {
        let question = self.question(step, variant);
        let answered = self.client.ask(&question).await;
        tokio::time::sleep(Duration::from_millis(step.wait_ms)).await;
        match answered {
            Ok(reply) => self.answer(step, title, &reply),
            Err(error) => NormalizedResponse {
                step: title,
                status: 0,
                headers: BTreeMap::new(),
                body: format!("no answer: {error:#}").into(),
            },
        }
    }

    fn question(&self, step: &RequestStep, variant: Option<&Value>) -> RawRequest {
        let (method, path) = step.request.split_once(' ').unwrap_or(("", ""));
        let body = self.expand(&step.body(self.objects, variant));
        let mut headers = Vec::new();
        let mut header = |name: &str, value: &str| {
            headers.push((name.to_owned(), self.expand(value)));
        };
        match (&step.content_type, method) {
            (Some(given), _) if given.is_empty() => {}
            (Some(given), _) => header("content-type", given),
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
                Some("nobody") => RequestIdentity::Nobody,
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

    fn answer(
        &mut self,
        step: &RequestStep,
        title: String,
        reply: &RawResponse,
    ) -> NormalizedResponse {
        let body = parse(&reply.headers, &reply.body, step.events.is_some());
        for (name, pointer) in &step.save {
            if let Some(value) = body.pointer(pointer) {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                self.variables.insert(name.clone(), text);
            }
        }
        self.normal.mask(&step.mask);
        let mut answer = NormalizedResponse {
            step: title,
            status: reply.status.as_u16(),
            headers: self.headers(&reply.headers),
            body: self.normal.tree(body),
        };
        each_field(&mut answer.body, "body", &step.ignore, &|value| {
            *value = "<ignored>".into();
        });
        each_field(&mut answer.body, "body", &step.unordered, &|value| {
            if let Value::Array(items) = value {
                items.sort_by_key(Value::to_string);
            }
        });
        for pattern in &step.ignore {
            if let Some(name) = pattern.strip_prefix("header.") {
                answer.headers.remove(name);
            }
        }
        answer
    }

    fn headers(&mut self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut compared = BTreeMap::new();
        for name in HEADERS {
            let values: Vec<String> = headers
                .get_all(name)
                .iter()
                .map(|value| self.normal.text(&String::from_utf8_lossy(value.as_bytes())))
                .collect();
            if !values.is_empty() {
                compared.insert(name.to_owned(), values);
            }
        }
        compared
    }
}

/// Five letters that are unique to this run.
fn unique() -> String {
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
fn parse(headers: &HeaderMap, body: &Bytes, is_stream: bool) -> Value {
    let text = String::from_utf8_lossy(body);
    if is_stream && text.starts_with('{') {
        let parse =
            |line: &str| -> Value { serde_json::from_str(line).unwrap_or_else(|_| line.into()) };
        return text.lines().map(parse).collect();
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
