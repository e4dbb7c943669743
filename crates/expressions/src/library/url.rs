//! The URL library, with the parser of Go's `url.ParseRequestURI` (upstream: `library.URLs`).

use super::{FunctionTable, fail, no_overload};
use crate::error::EvaluationResult;
use crate::interpreter::Interpreter;
use crate::library::opaque_value::OpaqueValue;
use crate::value::{MapKey, MapValue, Value};
use rhumb_meta::gotext::quote;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("url", url),
    ("isURL", |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse_request(text).is_ok())),
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    pub(crate) text: String,
    scheme: String,
    host: String,
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
    let parsed = parse_request(text).and_then(|_| {
        // `url.Parse`, unlike `url.ParseRequestURI`, splits off a fragment.
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        unescape(fragment)?;
        parse(before, false)
    });
    match parsed {
        Ok(url) => Ok(Value::Opaque(OpaqueValue::Url(Arc::new(Url {
            text: text.to_string(),
            ..url
        })))),
        Err(error) => fail(format!(
            "URL parse error during conversion from string: parse {}: {error}",
            quote(text)
        )),
    }
}

/// The error of parsing the text as a URL, if it is invalid.
pub(super) fn parse_error(text: &str) -> Option<String> {
    let error = parse_request(text).err()?;
    Some(format!("parse {}: {error}", quote(text)))
}

fn parse_request(text: &str) -> Result<Url, String> {
    parse(text, true)
}

fn parse(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = text.to_owned();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        let segment = rest.split('/').next().unwrap_or_default();
        if segment.contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut path = rest;
    let has_authority = !url.scheme.is_empty() || !request && !rest.starts_with("///");
    if let Some(after) = rest.strip_prefix("//").filter(|_| has_authority) {
        let end = after.find('/').unwrap_or(after.len());
        url.host = parse_authority(&after[..end])?;
        path = &after[end..];
    }
    unescape(path)?;
    url.path = path.to_owned();
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, character) in text.char_indices() {
        match character {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

/// Validates `user:password@host:port` and returns the host with its port.
fn parse_authority(text: &str) -> Result<String, String> {
    let host = match text.rsplit_once('@') {
        Some((user, host)) => {
            let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(valid) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            unescape(user)?;
            host
        }
        None => text,
    };
    let after_host = match host.strip_prefix('[') {
        Some(inner) => match inner.rsplit_once(']') {
            Some((_, after)) => after,
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let is_port = after_host.is_empty()
        || after_host
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {} after host", quote(after_host)));
    }
    let is_invalid_host_char = |c: &char| {
        c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*c)
    };
    if let Some(character) = host.chars().find(is_invalid_host_char) {
        return Err(format!(
            "invalid character {} in host name",
            quote(&character.to_string())
        ));
    }
    unescape(host)
}

/// Decodes percent-encoding.
fn unescape(text: &str) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let digits = text.get(at + 1..at + 3);
        let byte = digits
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(byte) = byte else {
            let escape: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quote(&escape)));
        };
        out.push(byte);
        at += 3;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
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
