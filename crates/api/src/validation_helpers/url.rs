//! URL parsing with the behavior and error messages of Go's `net/url`.

use rhumb_meta::gotext;

/// The parts of a URL that webhook validation needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GoUrl<'a> {
    pub scheme: String,
    pub user: Option<&'a str>,
    pub host: &'a str,
    pub query: &'a str,
    pub fragment: &'a str,
}

impl<'a> GoUrl<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<GoUrl<'a>, String> {
        let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
        let failed =
            |address: &str, error: String| format!("parse {}: {error}", gotext::quote(address));
        let url = parse_without_fragment(address).map_err(|error| failed(address, error))?;
        check_escapes(fragment).map_err(|error| failed(text, error))?;
        Ok(GoUrl { fragment, ..url })
    }
}

fn parse_without_fragment(text: &str) -> Result<GoUrl<'_>, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = GoUrl {
        scheme: scheme.to_ascii_lowercase(),
        query,
        ..GoUrl::default()
    };
    if !rest.starts_with('/') {
        // With a scheme, a rest without a leading slash is opaque.
        let segment = rest.split('/').next().unwrap_or_default();
        if scheme.is_empty() && segment.contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
        if !scheme.is_empty() {
            return Ok(url);
        }
    }
    let mut path = rest;
    if let Some(rest) = rest.strip_prefix("//")
        && (!scheme.is_empty() || !rest.starts_with('/'))
    {
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, after) = rest.split_at(end);
        (url.user, url.host) = split_authority(authority)?;
        path = after;
    }
    check_escapes(path)?;
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
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    check_host(host)?;
    if user.is_some_and(|user| !user.bytes().all(is_allowed)) {
        return Err("net/url: invalid userinfo".to_owned());
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
        return Err(format!("invalid port {} after host", gotext::quote(port)));
    }
    let is_allowed = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    match host.chars().find(|c| !is_allowed(*c)) {
        Some(c) => {
            let quoted = gotext::quote(&c.to_string()).to_string();
            Err(format!("invalid character {quoted} in host name"))
        }
        None => {
            check_escapes(host)?;
            check_host_escapes(host)
        }
    }
}

/// In a host, Go allows escapes only for non-ASCII bytes and the percent sign.
fn check_host_escapes(host: &str) -> Result<(), String> {
    for (index, _) in host.match_indices('%') {
        let escape = host.get(index..index + 3).unwrap_or_default();
        if escape != "%25" && escape.as_bytes().get(1).is_some_and(|digit| *digit < b'8') {
            return Err(format!("invalid URL escape {}", gotext::quote(escape)));
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
            return Err(format!("invalid URL escape {}", gotext::quote(&escape)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::GoUrl;

    #[test]
    fn urls_are_parsed() {
        let url = GoUrl::parse("HTTPS://me:pw@host.example:8443/a/b?c=d#e").unwrap();
        let expect = GoUrl {
            scheme: "https".to_owned(),
            user: Some("me:pw"),
            host: "host.example:8443",
            query: "c=d",
            fragment: "e",
        };
        assert_eq!(url, expect);
        assert_eq!(GoUrl::parse("/path").unwrap(), GoUrl::default());
        assert_eq!(GoUrl::parse("https://[::1]:443").unwrap().host, "[::1]:443");
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
                "a\u{1}",
                "parse \"a\\x01\": net/url: invalid control character in URL",
            ),
        ];
        for (text, expect) in table {
            assert_eq!(GoUrl::parse(text).unwrap_err(), expect);
        }
    }
}
