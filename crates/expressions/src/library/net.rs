//! The IP and CIDR libraries (upstream: `library.IP`, `library.CIDR`).

use super::{FunctionTable, fail, no_overload};
use crate::error::EvaluationResult;
use crate::interpreter::Interpreter;
use crate::library::opaque_value::OpaqueValue;
use crate::value::Value;
use rhumb_meta::gotext::quote;
use std::net::IpAddr;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("ip", ip),
    ("isIP", |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_ok())),
        _ => no_overload(),
    }),
    ("ip.isCanonical", |_, args| match args {
        [Value::String(text)] => match parse_ip(text) {
            Ok(ip) => Ok(Value::Bool(ip.to_string() == **text)),
            Err(message) => fail(message),
        },
        _ => no_overload(),
    }),
    ("family", |_, args| match args {
        [Value::Opaque(OpaqueValue::Ip(ip))] => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        _ => no_overload(),
    }),
    ("isUnspecified", |_, args| {
        ip_predicate(args, IpAddr::is_unspecified)
    }),
    ("isLoopback", |_, args| {
        ip_predicate(args, IpAddr::is_loopback)
    }),
    ("isLinkLocalMulticast", |_, args| {
        ip_predicate(args, is_link_local_multicast)
    }),
    ("isLinkLocalUnicast", |_, args| {
        ip_predicate(args, is_link_local_unicast)
    }),
    ("isGlobalUnicast", |_, args| {
        ip_predicate(args, is_global_unicast)
    }),
    ("cidr", |_, args| match args {
        [Value::String(text)] => parse_network(text),
        _ => no_overload(),
    }),
    ("isCIDR", |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse_cidr(text).is_ok())),
        _ => no_overload(),
    }),
    ("containsIP", contains_ip),
    ("containsCIDR", contains_cidr),
    ("prefixLength", |_, args| match args {
        [Value::Opaque(OpaqueValue::Cidr(_, bits))] => Ok(Value::Int(i64::from(*bits))),
        _ => no_overload(),
    }),
    ("masked", |_, args| match args {
        [Value::Opaque(OpaqueValue::Cidr(ip, bits))] => {
            Ok(Value::Opaque(OpaqueValue::Cidr(masked(*ip, *bits), *bits)))
        }
        _ => no_overload(),
    }),
];

fn ip_predicate(args: &[Value], predicate: fn(&IpAddr) -> bool) -> EvaluationResult<Value> {
    match args {
        [Value::Opaque(OpaqueValue::Ip(ip))] => Ok(Value::Bool(predicate(ip))),
        _ => no_overload(),
    }
}

fn ip(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::String(text)] => match parse_ip(text) {
            Ok(ip) => Ok(Value::Opaque(OpaqueValue::Ip(ip))),
            Err(message) => fail(message),
        },
        [Value::Opaque(OpaqueValue::Cidr(ip, _))] => Ok(Value::Opaque(OpaqueValue::Ip(*ip))),
        _ => no_overload(),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let quoted = quote(text);
    if let Some((address, zone)) = text.split_once('%')
        && address.contains(':')
        && !zone.is_empty()
        && address.parse::<IpAddr>().is_ok()
    {
        return Err(format!(
            "IP address {quoted} with zone value is not allowed"
        ));
    }
    let Ok(ip) = text.parse::<IpAddr>() else {
        let reason = parse_addr_error(text);
        return Err(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {reason}"
        ));
    };
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        _ => Ok(ip),
    }
}

/// The error of Go's `netip.ParseAddr`, for the most common cases.
fn parse_addr_error(text: &str) -> &'static str {
    let first = text.chars().find(|c| matches!(c, '.' | ':' | '%'));
    match first {
        None | Some('%') => "unable to parse IP",
        Some('.') => {
            let fields: Vec<&str> = text.split('.').collect();
            if fields.iter().any(|f| f.len() > 1 && f.starts_with('0')) {
                "IPv4 field has octet with leading zero"
            } else if text.contains(|c: char| !c.is_ascii_digit() && c != '.') {
                "unexpected character"
            } else if fields.iter().any(|f| f.is_empty()) {
                "IPv4 field must have at least one digit"
            } else if fields.iter().any(|f| f.parse::<u8>().is_err()) {
                "IPv4 field has value >255"
            } else if fields.len() > 4 {
                "IPv4 address too long"
            } else {
                "IPv4 address too short"
            }
        }
        _ => "unexpected character",
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let quoted = quote(text);
    let prefix_error = |reason: String| {
        Err(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({quoted}): {reason}"
        ))
    };
    let Some((address, bits)) = text.rsplit_once('/') else {
        return prefix_error("no '/'".to_owned());
    };
    if address.contains('%') {
        return prefix_error("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let Ok(ip) = address.parse::<IpAddr>() else {
        let reason = parse_addr_error(address);
        return prefix_error(format!("ParseAddr({}): {reason}", quote(address)));
    };
    let max_bits = if ip.is_ipv4() { 32 } else { 128 };
    let is_canonical_number = !bits.is_empty()
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && (bits.len() == 1 || !bits.starts_with('0'));
    let bits: u8 = match bits.parse() {
        Ok(bits) if is_canonical_number && bits <= max_bits => bits,
        Ok(_) if is_canonical_number => {
            return prefix_error("prefix length out of range".to_owned());
        }
        _ => return prefix_error(format!("bad bits after slash: {}", quote(bits))),
    };
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        _ => Ok((ip, bits)),
    }
}

fn parse_network(text: &str) -> EvaluationResult<Value> {
    match parse_cidr(text) {
        Ok((ip, bits)) => Ok(Value::Opaque(OpaqueValue::Cidr(ip, bits))),
        Err(message) => fail(format!(
            "network address parse error during conversion from string: {message}"
        )),
    }
}

/// The network address: all bits after the prefix are zero.
fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

fn network_contains(network: IpAddr, bits: u8, ip: IpAddr) -> bool {
    network.is_ipv4() == ip.is_ipv4() && masked(network, bits) == masked(ip, bits)
}

fn contains_ip(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::Opaque(OpaqueValue::Cidr(network, bits)), other] = args else {
        return no_overload();
    };
    let ip = match other {
        Value::Opaque(OpaqueValue::Ip(ip)) => *ip,
        // Upstream does not report the parse error.
        Value::String(text) => match parse_ip(text) {
            Ok(ip) => ip,
            Err(_) => return no_overload(),
        },
        _ => return no_overload(),
    };
    Ok(Value::Bool(network_contains(*network, *bits, ip)))
}

fn contains_cidr(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::Opaque(OpaqueValue::Cidr(ip, bits)), other] = args else {
        return no_overload();
    };
    let parsed = match other {
        Value::String(text) => parse_network(text)?,
        other => other.clone(),
    };
    match parsed {
        Value::Opaque(OpaqueValue::Cidr(inner, inner_bits)) => Ok(Value::Bool(
            *bits <= inner_bits && network_contains(*ip, *bits, inner),
        )),
        _ => no_overload(),
    }
}

fn is_link_local_multicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn is_global_unicast(ip: &IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !(ip.is_unspecified()
        || ip.is_loopback()
        || ip.is_multicast()
        || is_link_local_unicast(ip)
        || broadcast)
}
