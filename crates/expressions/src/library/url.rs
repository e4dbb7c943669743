//! URLs, read as Go reads the URL of a request.

use super::{Table, fail, no_overload};
use crate::error::Evaluated;
use crate::library::opaque::Opaque;
use crate::run::Machine;
use crate::value::{Key, Map, Value};
use rhumb_meta::gotext::quote;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const TABLE: Table = &[
    ("url", url),
    ("isURL", |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse_request(text).is_ok())),
        _ => no_overload(),
    }),
    ("getScheme", |_, args| part(args, |url| url.scheme.clone())),
    ("getHost", |_, args| part(args, |url| url.host.clone())),
    ("getHostname", |_, args| part(args, Url::hostname)),
    ("getPort", |_, args| part(args, Url::port)),
    ("getEscapedPath", |_, args| part(args, Url::escaped_path)),
    ("getQuery", query),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    pub(crate) text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

fn part(args: &[Value], of: fn(&Url) -> String) -> Evaluated<Value> {
    match args {
        [Value::Opaque(Opaque::Url(url))] => Ok(Value::from(of(url))),
        _ => no_overload(),
    }
}

fn url(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::String(text)] = args else {
        return no_overload();
    };
    machine.budget.allocate(text.len())?;
    let parsed = parse_request(text).and_then(|_| {
        // As a URL and not as a request, it may have a fragment.
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        unescape(fragment)?;
        parse(before, false)
    });
    match parsed {
        Ok(url) => Ok(Value::Opaque(Opaque::Url(Arc::new(Url {
            text: text.to_string(),
            ..url
        })))),
        Err(problem) => fail(format!(
            "URL parse error during conversion from string: parse {}: {problem}",
            quote(text)
        )),
    }
}

/// What is wrong with a text, for someone who wanted a URL.
pub(super) fn problem(text: &str) -> Option<String> {
    let problem = parse_request(text).err()?;
    Some(format!("parse {}: {problem}", quote(text)))
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
        url.host = authority(&after[..end])?;
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

/// The host of `user:password@host:port`.
fn authority(text: &str) -> Result<String, String> {
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
    let unusual = |c: &char| {
        c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*c)
    };
    if let Some(character) = host.chars().find(unusual) {
        return Err(format!(
            "invalid character {} in host name",
            quote(&character.to_string())
        ));
    }
    unescape(host)
}

/// The text with `%41` and the like resolved.
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
            let shown: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quote(&shown)));
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

    /// The path as it was written, if it may be written so.
    fn escaped_path(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@".contains(c);
        if self
            .path
            .chars()
            .all(|c| plain(c) || "!'()*[]%".contains(c))
        {
            return self.path.clone();
        }
        let unescaped = unescape(&self.path).unwrap_or_default();
        let mut escaped = String::new();
        for byte in unescaped.bytes() {
            match char::from(byte) {
                c if plain(c) => escaped.push(c),
                _ => escaped.push_str(&format!("%{byte:02X}")),
            }
        }
        escaped
    }
}

fn query(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::Opaque(Opaque::Url(url))] = args else {
        return no_overload();
    };
    let mut values: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for pair in url.query.split('&') {
        if pair.is_empty() || pair.contains(';') {
            continue;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = |text: &str| unescape(&text.replace('+', " "));
        if let (Ok(name), Ok(value)) = (plain(name), plain(value)) {
            values.entry(name).or_default().push(Value::from(value));
        }
    }
    let entries = values
        .into_iter()
        .map(|(name, values)| (Key::String(name.into()), Value::list(values)));
    Ok(Value::Map(Arc::new(entries.collect::<Map>())))
}
