//! Addresses and blocks of addresses, in the forms that upstream takes.
//!
//! Two readers: a lax one that reads what was accepted for years (zeros before a number, IPv4 within IPv6), and
//! the strict one of the standard library. A value that only the lax one reads is refused in new objects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rhumb_meta::field::ErrorList;
use rhumb_meta::gotext;

use crate::{View, checks};

/// A block of addresses as it was written: its address may have bits beyond the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub address: IpAddr,
    pub prefix: u8,
}

/// Reads an address as upstream did before it became strict. IPv4 within IPv6 is IPv4.
pub fn parse_lax(text: &str) -> Option<IpAddr> {
    let address = parse_written(text)?;
    Some(address.to_canonical())
}

/// The address in the family that it is written in.
fn parse_written(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let tail = text.rsplit(':').next().unwrap_or_default();
        if !tail.contains('.') {
            return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
        }
        let head = &text[..text.len() - tail.len()];
        let tail = parse_v4_lax(tail)?;
        return format!("{head}{tail}")
            .parse::<Ipv6Addr>()
            .ok()
            .map(IpAddr::V6);
    }
    parse_v4_lax(text).map(IpAddr::V4)
}

fn parse_v4_lax(text: &str) -> Option<Ipv4Addr> {
    // Nearly all are written as they should be, and read faster so.
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = number_lax(parts.next()?)?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn number_lax(text: &str) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let digits = text.trim_start_matches('0');
    match (is_number, digits) {
        (true, "") => Some(0),
        (true, digits) => digits.parse().ok(),
        (false, _) => None,
    }
}

impl Block {
    pub fn parse_lax(text: &str) -> Option<Block> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse_written(address)?;
        let prefix = number_lax(prefix)?;
        (prefix <= width(address)).then_some(Block { address, prefix })
    }

    /// The block with all bits beyond its prefix cleared, in the family it means.
    pub fn masked(self) -> Block {
        let address = match self.address {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(
                mask(v4.to_bits().into(), 32, self.prefix) as u32,
            )),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(mask(v6.to_bits(), 128, self.prefix))),
        };
        let canonical = address.to_canonical();
        let shift = width(address) - width(canonical);
        Block {
            address: canonical,
            prefix: self.prefix.saturating_sub(shift),
        }
    }

    pub fn is_v6(self) -> bool {
        self.address.is_ipv6()
    }

    /// Whether every address of the other block is in this one.
    pub fn contains(self, other: Block) -> bool {
        let (ours, theirs) = (self.masked(), other.masked());
        let same = Block {
            address: theirs.address,
            prefix: ours.prefix,
        };
        width(ours.address) == width(theirs.address)
            && ours.prefix <= theirs.prefix
            && same.masked().address == ours.address
    }
}

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(bits: u128, width: u8, prefix: u8) -> u128 {
    let host = u32::from(width - prefix);
    bits.checked_shr(host)
        .and_then(|bits| bits.checked_shl(host))
        .unwrap_or(0)
}

fn is_v4_within_v6(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Checks an address in a field that once took lax ones; `strict` refuses those.
pub fn validate(address: &View<'_>, strict: bool, errors: &mut ErrorList) {
    validate_text(address, address.str(), strict, errors);
}

fn validate_text(field: &View<'_>, text: &str, strict: bool, errors: &mut ErrorList) {
    let Some(written) = parse_written(text) else {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        return checks::invalid_text(field, errors, detail);
    };
    if !strict {
        return;
    }
    if text.parse::<IpAddr>().is_err() {
        checks::invalid_text(field, errors, "must not have leading 0s");
    } else if is_v4_within_v6(&written) {
        checks::invalid_text(field, errors, "must not be an IPv4-mapped IPv6 address");
    }
}

/// Checks an address in a field that only ever took the one form of every address.
pub fn validate_canonical(address: &View<'_>, errors: &mut ErrorList) {
    let before = errors.len();
    validate(address, true, errors);
    let Some(parsed) = parse_lax(address.str()).filter(|_| errors.len() == before) else {
        return;
    };
    let canonical = parsed.to_string();
    if canonical != address.str() {
        let detail = format!("must be in canonical form ({})", gotext::quote(&canonical));
        checks::invalid_text(address, errors, detail);
    }
}

/// Checks a block in a field that once took lax ones; `strict` refuses those.
pub fn validate_block(block: &View<'_>, strict: bool, errors: &mut ErrorList) {
    let before = errors.len();
    validate_written_block(block, strict, errors);
    let Some(written) = Block::parse_lax(block.str()).filter(|_| errors.len() == before) else {
        return;
    };
    if strict && written.masked().address != written.address {
        checks::invalid_text(
            block,
            errors,
            "must not have bits set beyond the prefix length",
        );
    }
}

/// As [`validate_block`], for a field that may have bits beyond the prefix length.
pub fn validate_written_block(block: &View<'_>, strict: bool, errors: &mut ErrorList) {
    let text = block.str();
    let Some(written) = Block::parse_lax(text) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return checks::invalid_text(block, errors, detail);
    };
    if !strict {
        return;
    }
    if !is_strict_block(text) {
        checks::invalid_text(
            block,
            errors,
            "must not have leading 0s in IP or prefix length",
        );
    } else if is_v4_within_v6(&written.address) {
        checks::invalid_text(block, errors, "must not have an IPv4-mapped IPv6 address");
    }
}

/// Checks a block in a field that only ever took the one form of every block.
pub fn validate_canonical_block(block: &View<'_>, errors: &mut ErrorList) {
    let before = errors.len();
    validate_block(block, true, errors);
    let Some(parsed) = Block::parse_lax(block.str()).filter(|_| errors.len() == before) else {
        return;
    };
    let canonical = parsed.to_string();
    if canonical != block.str() {
        let detail = format!("must be in canonical form ({})", gotext::quote(&canonical));
        checks::invalid_text(block, errors, detail);
    }
}

fn is_strict_block(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else {
        return false;
    };
    let has_leading_zero = prefix.len() > 1 && prefix.starts_with('0');
    address.parse::<IpAddr>().is_ok() && !has_leading_zero
}

/// What the client should know about an address that was accepted.
pub fn warn(address: &View<'_>, warnings: &mut Vec<String>) {
    let text = address.str();
    let Some(written) = parse_written(text) else {
        return;
    };
    let path = address.path();
    let shown = gotext::quote(text);
    if text.parse::<IpAddr>().is_err() || is_v4_within_v6(&written) {
        let better = written.to_canonical().to_string();
        let better = gotext::quote(&better);
        warnings.push(format!(
            "{path}: non-standard IP address {shown} is invalid: use {better}"
        ));
    } else if written.is_ipv6() && written.to_string() != text {
        let better = written.to_string();
        let better = gotext::quote(&better);
        warnings.push(format!(
            "{path}: IPv6 address {shown} should be in RFC 5952 canonical format ({better})"
        ));
    }
}

/// What the client should know about a block that was accepted.
pub fn warn_block(block: &View<'_>, warnings: &mut Vec<String>) {
    let text = block.str();
    let Some(written) = Block::parse_lax(text) else {
        return;
    };
    let (path, shown) = (block.path(), gotext::quote(text));
    let masked = written.masked();
    let quoted = |text: String| gotext::quote(&text).to_string();
    let before = warnings.len();
    if written.address.to_canonical() != masked.address {
        let whole = quoted(masked.to_string());
        let single = written.address.to_canonical();
        let single = quoted(format!("{single}/{}", width(single)));
        warnings.push(format!(
            "{path}: CIDR value {shown} is ambiguous in this context (should be {whole} or {single}?)"
        ));
    }
    if !is_strict_block(text) || is_v4_within_v6(&written.address) {
        let better = quoted(masked.to_string());
        warnings.push(format!(
            "{path}: non-standard CIDR value {shown} is invalid: use {better}"
        ));
    }
    if warnings.len() == before && written.is_v6() && written.to_string() != text {
        let better = quoted(written.to_string());
        warnings.push(format!(
            "{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({better})"
        ));
    }
}

/// Checks that an address can be that of an endpoint: neither unspecified nor local.
pub fn validate_endpoint(address: &View<'_>, errors: &mut ErrorList) {
    let text = address.str();
    let Some(parsed) = parse_lax(text) else {
        return checks::invalid_text(address, errors, "must be a valid IP address");
    };
    let (is_link_local, is_link_local_multicast) = match parsed {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (
            v6.segments()[0] & 0xffc0 == 0xfe80,
            v6.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    if parsed.is_unspecified() {
        checks::invalid_text(address, errors, format!("may not be unspecified ({text})"));
    }
    if parsed.is_loopback() {
        let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        checks::invalid_text(address, errors, detail);
    }
    if is_link_local {
        let detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        checks::invalid_text(address, errors, detail);
    }
    if is_link_local_multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        checks::invalid_text(address, errors, detail);
    }
}

#[cfg(test)]
mod tests {
    use rhumb_meta::field::Path;
    use serde_json::json;

    use super::*;

    type Check = fn(&View<'_>, &mut ErrorList);
    type Warn = fn(&View<'_>, &mut Vec<String>);

    fn check(validate: Check, text: &str, want: &[&str]) {
        let value = json!(text);
        let mut errors = ErrorList::new();
        validate(&View::at(Some(&value), Path::new("x")), &mut errors);
        let got: Vec<String> = errors.iter().map(|error| error.detail.clone()).collect();
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn addresses_are_read_laxly_and_judged_strictly() {
        let strict: Check = |view, errors| validate(view, true, errors);
        let lax: Check = |view, errors| validate(view, false, errors);
        for text in ["1.2.3.4", "::", "2001:DB8::1"] {
            check(strict, text, &[]);
        }
        for text in ["010.2.3.004", "::ffff:1.2.3.4", "::ffff:01.2.3.4"] {
            check(lax, text, &[]);
        }
        for text in ["", "1.2.3", "1.2.3.256", "1.2.3.4.5", "fe80::1%eth0", "a"] {
            let want = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            check(lax, text, &[want]);
        }
        check(strict, "010.2.3.4", &["must not have leading 0s"]);
        let mapped = "must not be an IPv4-mapped IPv6 address";
        check(strict, "::ffff:1.2.3.4", &[mapped]);
        let canonical = "must be in canonical form (\"2001:db8::1\")";
        check(validate_canonical, "2001:DB8::1", &[canonical]);
    }

    #[test]
    fn blocks_are_read_laxly_and_judged_strictly() {
        let strict: Check = |view, errors| validate_block(view, true, errors);
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "::/0",
            "2001:db8::/32",
            "1.2.3.4/32",
        ] {
            check(strict, text, &[]);
        }
        for text in ["10.0.0.0", "10.0.0.0/33", "::/129", "x/8", "1.2.3.4/"] {
            let want = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            check(strict, text, &[want]);
        }
        let zeros = "must not have leading 0s in IP or prefix length";
        check(strict, "10.0.0.0/08", &[zeros]);
        let mapped = "must not have an IPv4-mapped IPv6 address";
        check(strict, "::ffff:1.2.3.0/120", &[mapped]);
        let beyond = "must not have bits set beyond the prefix length";
        check(strict, "192.168.1.5/24", &[beyond]);
        let written: Check = |view, errors| validate_written_block(view, true, errors);
        check(written, "192.168.1.5/24", &[]);
        check(written, "10.0.0.5/08", &[zeros]);
        check(written, "::ffff:1.2.3.4/120", &[mapped]);
    }

    #[test]
    fn a_block_contains_what_is_within_it() {
        let table = [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.0.0.0/8", true),
            ("10.1.0.0/16", "10.0.0.0/8", false),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("0.0.0.0/0", "::/0", false),
            ("::/0", "2001:db8::/32", true),
        ];
        for (outer, inner, want) in table {
            let outer = Block::parse_lax(outer).expect(outer);
            let inner = Block::parse_lax(inner).expect(inner);
            assert_eq!(outer.contains(inner), want, "{outer} {inner}");
        }
    }

    #[test]
    fn odd_forms_are_warned_of() {
        let table: [(Warn, &str, &[&str]); 5] = [
            (warn, "1.2.3.4", &[]),
            (
                warn,
                "01.2.3.4",
                &["x: non-standard IP address \"01.2.3.4\" is invalid: use \"1.2.3.4\""],
            ),
            (
                warn,
                "2001:DB8::",
                &[
                    "x: IPv6 address \"2001:DB8::\" should be in RFC 5952 canonical format (\"2001:db8::\")",
                ],
            ),
            (
                warn_block,
                "192.168.1.5/24",
                &[concat!(
                    "x: CIDR value \"192.168.1.5/24\" is ambiguous in this context (should be ",
                    "\"192.168.1.0/24\" or \"192.168.1.5/32\"?)"
                )],
            ),
            (
                warn_block,
                "2001:DB8::/32",
                &[
                    "x: IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")",
                ],
            ),
        ];
        for (warn, text, want) in table {
            let value = json!(text);
            let mut warnings = Vec::new();
            warn(&View::at(Some(&value), Path::new("x")), &mut warnings);
            assert_eq!(warnings, want, "{text}");
        }
    }

    #[test]
    fn endpoints_are_neither_unspecified_nor_local() {
        check(validate_endpoint, "10.0.0.1", &[]);
        check(
            validate_endpoint,
            "0.0.0.0",
            &["may not be unspecified (0.0.0.0)"],
        );
        for (text, range) in [
            ("127.0.0.1", "loopback range (127.0.0.0/8, ::1/128)"),
            (
                "169.254.1.1",
                "link-local range (169.254.0.0/16, fe80::/10)",
            ),
            (
                "ff02::1",
                "link-local multicast range (224.0.0.0/24, ff02::/10)",
            ),
        ] {
            check(
                validate_endpoint,
                text,
                &[&format!("may not be in the {range}")],
            );
        }
    }
}
