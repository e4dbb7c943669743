//! URL parsing with the behaviour and the error messages of Go's `net/url`. Entry points: [`GoUrl::parse`] and
//! [`GoUrl::parse_request_uri`].

use crate::gotext::quote;

/// The parts of a URL as written; only the scheme is normalized, to lower case. Percent-encoding is checked and kept:
/// see [`unescape`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GoUrl<'a> {
    pub scheme: String,
    /// `name` or `name:password`.
    pub user: Option<&'a str>,
    /// With the port.
    pub host: &'a str,
    /// Empty if the URL is opaque, such as `mailto:a@b`.
    pub path: &'a str,
    pub query: &'a str,
    pub fragment: &'a str,
}

impl<'a> GoUrl<'a> {
    /// As `url.Parse`.
    pub fn parse(text: &'a str) -> Result<GoUrl<'a>, String> {
        let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
        let url =
            parse_without_fragment(address, false).map_err(|error| parse_error(address, &error))?;
        check_escapes(fragment).map_err(|error| parse_error(text, &error))?;
        Ok(GoUrl { fragment, ..url })
    }

    /// As `url.ParseRequestURI`: an absolute URI or an absolute path, without a fragment.
    pub fn parse_request_uri(text: &'a str) -> Result<GoUrl<'a>, String> {
        parse_without_fragment(text, true).map_err(|error| parse_error(text, &error))
    }
}

fn parse_error(text: &str, error: &str) -> String {
    format!("parse {}: {error}", quote(text))
}

fn parse_without_fragment(text: &str, is_request: bool) -> Result<GoUrl<'_>, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && is_request {
        return Err("empty url".to_owned());
    }
    let mut url = GoUrl::default();
    if text == "*" {
        url.path = text;
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query;
    if !rest.starts_with('/') {
        // With a scheme, a rest without a leading slash is opaque.
        if !scheme.is_empty() {
            return Ok(url);
        }
        if is_request {
            return Err("invalid URI for request".to_owned());
        }
        let segment = rest.split('/').next().unwrap_or_default();
        if segment.contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    url.path = rest;
    let may_have_authority = !scheme.is_empty() || !is_request && !rest.starts_with("///");
    if let Some(after) = rest.strip_prefix("//").filter(|_| may_have_authority) {
        let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
        (url.user, url.host) = split_authority(authority)?;
        url.path = path;
    }
    check_escapes(url.path)?;
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn split_authority(authority: &str) -> Result<(Option<&str>, &str), String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    check_host(host)?;
    if let Some(user) = user {
        let is_allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        if !user.bytes().all(is_allowed) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        check_escapes(user)?;
    }
    Ok((user, host))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |colon| &host[colon..])
    };
    let is_port = |port: &str| {
        port.strip_prefix(':')
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if !port.is_empty() && !is_port(port) {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    let is_allowed = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    if let Some(c) = host.chars().find(|c| !is_allowed(*c)) {
        let quoted = quote(&c.to_string()).to_string();
        return Err(format!("invalid character {quoted} in host name"));
    }
    check_escapes(host)?;
    check_host_escapes(host)
}

/// In a host, Go allows escapes only for non-ASCII bytes and the percent sign.
fn check_host_escapes(host: &str) -> Result<(), String> {
    for (index, _) in host.match_indices('%') {
        let escape = host.get(index..index + 3).unwrap_or_default();
        if escape != "%25" && escape.as_bytes().get(1).is_some_and(|digit| *digit < b'8') {
            return Err(invalid_escape(escape));
        }
    }
    Ok(())
}

/// Requires two hexadecimal digits after every percent sign.
fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (index, _) in text.match_indices('%') {
        let digits = bytes.get(index + 1..index + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let escape: String = text[index..].chars().take(3).collect();
            return Err(invalid_escape(&escape));
        }
    }
    Ok(())
}

fn invalid_escape(escape: &str) -> String {
    format!("invalid URL escape {}", quote(escape))
}

/// Decodes percent-encoding, as `url.PathUnescape`. Bytes that are not UTF-8 become replacement characters.
pub fn unescape(text: &str) -> Result<String, String> {
    check_escapes(text)?;
    let mut decoded = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    decoded.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        // The check above ensures two digits.
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        decoded.extend(u8::from_str_radix(digits, 16));
        decoded.extend_from_slice(rest.as_bytes());
    }
    Ok(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let url = GoUrl::parse("HTTPS://me:pw@host.example:8443/a/b?c=d#e").unwrap();
        let expect = GoUrl {
            scheme: "https".to_owned(),
            user: Some("me:pw"),
            host: "host.example:8443",
            path: "/a/b",
            query: "c=d",
            fragment: "e",
        };
        assert_eq!(url, expect);
        let path = |path| GoUrl {
            path,
            ..GoUrl::default()
        };
        assert_eq!(GoUrl::parse("/path").unwrap(), path("/path"));
        assert_eq!(GoUrl::parse("///path").unwrap(), path("///path"));
        assert_eq!(GoUrl::parse("https://[::1]:443").unwrap().host, "[::1]:443");
        assert_eq!(GoUrl::parse("//host/path").unwrap().host, "host");
    }

    #[test]
    fn request_uris_are_absolute() {
        let parse = GoUrl::parse_request_uri;
        assert_eq!(parse("//host/path").unwrap().path, "//host/path");
        assert_eq!(parse("*").unwrap().path, "*");
        assert_eq!(parse("").unwrap_err(), "parse \"\": empty url");
        assert_eq!(
            parse("a/b").unwrap_err(),
            "parse \"a/b\": invalid URI for request"
        );
        assert_eq!(parse("mailto:a@b").unwrap().scheme, "mailto");
    }

    #[test]
    fn invalid_urls_are_rejected_with_the_reason() {
        let table = [
            (":", "parse \":\": missing protocol scheme"),
            (
                "1:2",
                "parse \"1:2\": first path segment in URL cannot contain colon",
            ),
            (
                "https://a:b",
                "parse \"https://a:b\": invalid port \":b\" after host",
            ),
            (
                "https://a b/",
                "parse \"https://a b/\": invalid character \" \" in host name",
            ),
            (
                "https://[::1",
                "parse \"https://[::1\": missing ']' in host",
            ),
            (
                "https://%41",
                "parse \"https://%41\": invalid URL escape \"%41\"",
            ),
            (
                "https://a/%zz",
                "parse \"https://a/%zz\": invalid URL escape \"%zz\"",
            ),
            (
                "https://%zz@a/",
                "parse \"https://%zz@a/\": invalid URL escape \"%zz\"",
            ),
            (
                "a\u{1}",
                "parse \"a\\x01\": net/url: invalid control character in URL",
            ),
        ];
        for (text, expect) in table {
            assert_eq!(GoUrl::parse(text).unwrap_err(), expect);
        }
    }

    #[test]
    fn percent_encoding_is_decoded() {
        assert_eq!(unescape("a%20b%C3%A4").unwrap(), "a b\u{e4}");
        assert_eq!(unescape("%ff").unwrap(), "\u{fffd}");
        assert_eq!(unescape("").unwrap(), "");
        for text in ["%", "%1", "a%\u{e4}", "%+1"] {
            assert!(unescape(text).is_err(), "{text}");
        }
    }
}
