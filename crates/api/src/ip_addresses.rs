//! IP address and CIDR parsing and validation, with upstream's rules (`apimachinery/pkg/util/validation/ip.go`).
//!
//! There are two parsers: a lax one for what older releases accepted (leading zeros, IPv4-mapped IPv6), and the strict
//! one of the standard library. With strict validation, values that only the lax parser accepts are rejected.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rhumb_meta::field::ErrorList;
use rhumb_meta::gotext;

use crate::{FieldView, checks};

/// A CIDR block as written: the address may have host bits set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CidrBlock {
    pub address: IpAddr,
    pub prefix: u8,
}

/// Parses an address laxly, as upstream's `netutils.ParseIPSloppy`. IPv4-mapped IPv6 becomes IPv4.
pub fn parse_lax(text: &str) -> Option<IpAddr> {
    let address = parse_lax_unmapped(text)?;
    Some(address.to_canonical())
}

/// Parses an address laxly, without mapping IPv4-mapped IPv6 to IPv4.
fn parse_lax_unmapped(text: &str) -> Option<IpAddr> {
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
    // Fast path: nearly all addresses are in standard form.
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = parse_u8_lax(parts.next()?)?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn parse_u8_lax(text: &str) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let digits = text.trim_start_matches('0');
    match (is_number, digits) {
        (true, "") => Some(0),
        (true, digits) => digits.parse().ok(),
        (false, _) => None,
    }
}

impl CidrBlock {
    pub fn parse_lax(text: &str) -> Option<CidrBlock> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse_lax_unmapped(address)?;
        let prefix = parse_u8_lax(prefix)?;
        (prefix <= address_bits(address)).then_some(CidrBlock { address, prefix })
    }

    /// The block with its host bits cleared; an IPv4-mapped IPv6 block becomes IPv4.
    pub fn masked(self) -> CidrBlock {
        let address = match self.address {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(
                mask(v4.to_bits().into(), 32, self.prefix) as u32,
            )),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(mask(v6.to_bits(), 128, self.prefix))),
        };
        let canonical = address.to_canonical();
        let shift = address_bits(address) - address_bits(canonical);
        CidrBlock {
            address: canonical,
            prefix: self.prefix.saturating_sub(shift),
        }
    }

    pub fn is_v6(self) -> bool {
        self.address.is_ipv6()
    }

    /// Whether this block contains every address of the other.
    pub fn contains(self, other: CidrBlock) -> bool {
        let (ours, theirs) = (self.masked(), other.masked());
        let same = CidrBlock {
            address: theirs.address,
            prefix: ours.prefix,
        };
        address_bits(ours.address) == address_bits(theirs.address)
            && ours.prefix <= theirs.prefix
            && same.masked().address == ours.address
    }
}

impl std::fmt::Display for CidrBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn address_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(bits: u128, width: u8, prefix: u8) -> u128 {
    let host = u32::from(width - prefix);
    bits.checked_shr(host)
        .and_then(|bits| bits.checked_shl(host))
        .unwrap_or(0)
}

fn is_ipv4_mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Validates an address in a field that used to accept lax forms; `strict` rejects them.
pub fn validate(address: &FieldView<'_>, strict: bool, errors: &mut ErrorList) {
    validate_text(address, address.str(), strict, errors);
}

fn validate_text(field: &FieldView<'_>, text: &str, strict: bool, errors: &mut ErrorList) {
    let Some(written) = parse_lax_unmapped(text) else {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        return checks::invalid_text(field, errors, detail);
    };
    if !strict {
        return;
    }
    if text.parse::<IpAddr>().is_err() {
        checks::invalid_text(field, errors, "must not have leading 0s");
    } else if is_ipv4_mapped(&written) {
        checks::invalid_text(field, errors, "must not be an IPv4-mapped IPv6 address");
    }
}

/// Validates an address in a field that accepts only the canonical form.
pub fn validate_canonical(address: &FieldView<'_>, errors: &mut ErrorList) {
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

/// Validates a CIDR in a field that used to accept lax forms; `strict` rejects them.
pub fn validate_cidr(block: &FieldView<'_>, strict: bool, errors: &mut ErrorList) {
    let before = errors.len();
    validate_cidr_with_host_bits(block, strict, errors);
    let Some(written) = CidrBlock::parse_lax(block.str()).filter(|_| errors.len() == before) else {
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

/// Like [`validate_cidr`], for a field that may have bits beyond the prefix length.
pub fn validate_cidr_with_host_bits(block: &FieldView<'_>, strict: bool, errors: &mut ErrorList) {
    let text = block.str();
    let Some(written) = CidrBlock::parse_lax(text) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return checks::invalid_text(block, errors, detail);
    };
    if !strict {
        return;
    }
    if !is_strict_cidr(text) {
        checks::invalid_text(
            block,
            errors,
            "must not have leading 0s in IP or prefix length",
        );
    } else if is_ipv4_mapped(&written.address) {
        checks::invalid_text(block, errors, "must not have an IPv4-mapped IPv6 address");
    }
}

/// Validates a CIDR in a field that accepts only the canonical form.
pub fn validate_canonical_cidr(block: &FieldView<'_>, errors: &mut ErrorList) {
    let before = errors.len();
    validate_cidr(block, true, errors);
    let Some(parsed) = CidrBlock::parse_lax(block.str()).filter(|_| errors.len() == before) else {
        return;
    };
    let canonical = parsed.to_string();
    if canonical != block.str() {
        let detail = format!("must be in canonical form ({})", gotext::quote(&canonical));
        checks::invalid_text(block, errors, detail);
    }
}

fn is_strict_cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else {
        return false;
    };
    let has_leading_zero = prefix.len() > 1 && prefix.starts_with('0');
    address.parse::<IpAddr>().is_ok() && !has_leading_zero
}

/// Warns about an accepted address in non-standard or non-canonical form.
pub fn warn(address: &FieldView<'_>, warnings: &mut Vec<String>) {
    let text = address.str();
    let Some(written) = parse_lax_unmapped(text) else {
        return;
    };
    let path = address.path();
    let shown = gotext::quote(text);
    if text.parse::<IpAddr>().is_err() || is_ipv4_mapped(&written) {
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

/// Warns about an accepted CIDR that is ambiguous or in non-standard form.
pub fn warn_cidr(block: &FieldView<'_>, warnings: &mut Vec<String>) {
    let text = block.str();
    let Some(written) = CidrBlock::parse_lax(text) else {
        return;
    };
    let (path, shown) = (block.path(), gotext::quote(text));
    let masked = written.masked();
    let quoted = |text: String| gotext::quote(&text).to_string();
    let before = warnings.len();
    if written.address.to_canonical() != masked.address {
        let whole = quoted(masked.to_string());
        let single = written.address.to_canonical();
        let single = quoted(format!("{single}/{}", address_bits(single)));
        warnings.push(format!(
            "{path}: CIDR value {shown} is ambiguous in this context (should be {whole} or {single}?)"
        ));
    }
    if !is_strict_cidr(text) || is_ipv4_mapped(&written.address) {
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

/// Validates an endpoint address: neither unspecified, loopback nor link-local.
pub fn validate_endpoint_address(address: &FieldView<'_>, errors: &mut ErrorList) {
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

    type ValidateFieldFn = fn(&FieldView<'_>, &mut ErrorList);
    type WarnFieldFn = fn(&FieldView<'_>, &mut Vec<String>);

    fn check(validate: ValidateFieldFn, text: &str, want: &[&str]) {
        let value = json!(text);
        let mut errors = ErrorList::new();
        validate(&FieldView::at(Some(&value), Path::new("x")), &mut errors);
        let got: Vec<String> = errors.iter().map(|error| error.detail.clone()).collect();
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn addresses_are_parsed_leniently_and_validated_strictly() {
        let strict: ValidateFieldFn = |view, errors| validate(view, true, errors);
        let lax: ValidateFieldFn = |view, errors| validate(view, false, errors);
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
    fn cidrs_are_parsed_leniently_and_validated_strictly() {
        let strict: ValidateFieldFn = |view, errors| validate_cidr(view, true, errors);
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
        let written: ValidateFieldFn =
            |view, errors| validate_cidr_with_host_bits(view, true, errors);
        check(written, "192.168.1.5/24", &[]);
        check(written, "10.0.0.5/08", &[zeros]);
        check(written, "::ffff:1.2.3.4/120", &[mapped]);
    }

    #[test]
    fn cidr_contains_its_subnets() {
        let table = [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.0.0.0/8", true),
            ("10.1.0.0/16", "10.0.0.0/8", false),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("0.0.0.0/0", "::/0", false),
            ("::/0", "2001:db8::/32", true),
        ];
        for (outer, inner, want) in table {
            let outer = CidrBlock::parse_lax(outer).expect(outer);
            let inner = CidrBlock::parse_lax(inner).expect(inner);
            assert_eq!(outer.contains(inner), want, "{outer} {inner}");
        }
    }

    #[test]
    fn non_canonical_forms_cause_a_warning() {
        let table: [(WarnFieldFn, &str, &[&str]); 5] = [
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
                warn_cidr,
                "192.168.1.5/24",
                &[concat!(
                    "x: CIDR value \"192.168.1.5/24\" is ambiguous in this context (should be ",
                    "\"192.168.1.0/24\" or \"192.168.1.5/32\"?)"
                )],
            ),
            (
                warn_cidr,
                "2001:DB8::/32",
                &[
                    "x: IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")",
                ],
            ),
        ];
        for (warn, text, want) in table {
            let value = json!(text);
            let mut warnings = Vec::new();
            warn(&FieldView::at(Some(&value), Path::new("x")), &mut warnings);
            assert_eq!(warnings, want, "{text}");
        }
    }

    #[test]
    fn unspecified_and_local_endpoint_addresses_are_rejected() {
        check(validate_endpoint_address, "10.0.0.1", &[]);
        check(
            validate_endpoint_address,
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
                validate_endpoint_address,
                text,
                &[&format!("may not be in the {range}")],
            );
        }
    }
}
