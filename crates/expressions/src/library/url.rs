//! The URL library (upstream: `library.URLs`).

use super::{FunctionTable, fail, no_overload};
use crate::error::EvaluationResult;
use crate::interpreter::Interpreter;
use crate::library::opaque_value::OpaqueValue;
use crate::value::{MapKey, MapValue, Value};
use rhumb_meta::go_url::{GoUrl, unescape};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("url", url),
    ("isURL", |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(GoUrl::parse_request_uri(text).is_ok())),
        _ => no_overload(),
    }),
    ("getScheme", |_, args| {
        url_component(args, |url| url.scheme.clone())
    }),
    ("getHost", |_, args| {
        url_component(args, |url| url.host.clone())
    }),
    ("getHostname", |_, args| url_component(args, Url::hostname)),
    ("getPort", |_, args| url_component(args, Url::port)),
    ("getEscapedPath", |_, args| {
        url_component(args, Url::escaped_path)
    }),
    ("getQuery", get_query),
];

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub(crate) text: String,
    scheme: String,
    /// With the port; decoded.
    host: String,
    /// As written.
    path: String,
    query: String,
}

fn url_component(args: &[Value], get: fn(&Url) -> String) -> EvaluationResult<Value> {
    match args {
        [Value::Opaque(OpaqueValue::Url(url))] => Ok(Value::from(get(url))),
        _ => no_overload(),
    }
}

fn url(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::String(text)] = args else {
        return no_overload();
    };
    interpreter.budget.allocate(text.len())?;
    // Upstream accepts a URL that `ParseRequestURI` accepts, and takes its parts from `Parse`.
    match GoUrl::parse_request_uri(text).and_then(|_| GoUrl::parse(text)) {
        Ok(url) => Ok(Value::Opaque(OpaqueValue::Url(Arc::new(Url {
            text: text.to_string(),
            scheme: url.scheme,
            host: unescape(url.host).unwrap_or_default(),
            path: url.path.to_owned(),
            query: url.query.to_owned(),
        })))),
        Err(error) => fail(format!(
            "URL parse error during conversion from string: {error}"
        )),
    }
}

/// The error of parsing the text as a URL, if it is invalid.
pub(super) fn parse_error(text: &str) -> Option<String> {
    GoUrl::parse_request_uri(text).err()
}

impl Url {
    fn hostname(&self) -> String {
        let host = match self.host.rfind(':') {
            Some(at) if self.host[at + 1..].bytes().all(|b| b.is_ascii_digit()) => &self.host[..at],
            _ => &self.host,
        };
        let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        inner.unwrap_or(host).to_owned()
    }

    fn port(&self) -> String {
        match self.host.rfind(':') {
            Some(at) if self.host[at + 1..].bytes().all(|b| b.is_ascii_digit()) => {
                self.host[at + 1..].to_owned()
            }
            _ => String::new(),
        }
    }

    /// The path as written if its encoding is valid, else with default encoding (Go: `URL.EscapedPath`).
    fn escaped_path(&self) -> String {
        let is_unescaped = |c: char| c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@".contains(c);
        if self
            .path
            .chars()
            .all(|c| is_unescaped(c) || "!'()*[]%".contains(c))
        {
            return self.path.clone();
        }
        let unescaped = unescape(&self.path).unwrap_or_default();
        let mut escaped = String::new();
        for byte in unescaped.bytes() {
            match char::from(byte) {
                c if is_unescaped(c) => escaped.push(c),
                _ => escaped.push_str(&format!("%{byte:02X}")),
            }
        }
        escaped
    }
}

fn get_query(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::Opaque(OpaqueValue::Url(url))] = args else {
        return no_overload();
    };
    let mut values: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for pair in url.query.split('&') {
        if pair.is_empty() || pair.contains(';') {
            continue;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_unescaped = |text: &str| unescape(&text.replace('+', " "));
        if let (Ok(name), Ok(value)) = (is_unescaped(name), is_unescaped(value)) {
            values.entry(name).or_default().push(Value::from(value));
        }
    }
    let entries = values
        .into_iter()
        .map(|(name, values)| (MapKey::String(name.into()), Value::list(values)));
    Ok(Value::Map(Arc::new(entries.collect::<MapValue>())))
}
