//! Addresses and networks.

use super::{Table, fail, no_overload};
use crate::error::Evaluated;
use crate::library::opaque::Opaque;
use crate::run::Machine;
use crate::value::Value;
use rhumb_meta::gotext::quote;
use std::net::IpAddr;

pub(super) const TABLE: Table = &[
    ("ip", ip),
    ("isIP", |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_ok())),
        _ => no_overload(),
    }),
    ("ip.isCanonical", |_, args| match args {
        [Value::String(text)] => match parse_ip(text) {
            Ok(ip) => Ok(Value::Bool(ip.to_string() == **text)),
            Err(problem) => fail(problem),
        },
        _ => no_overload(),
    }),
    ("family", |_, args| match args {
        [Value::Opaque(Opaque::Ip(ip))] => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        _ => no_overload(),
    }),
    ("isUnspecified", |_, args| {
        test(args, IpAddr::is_unspecified)
    }),
    ("isLoopback", |_, args| test(args, IpAddr::is_loopback)),
    ("isLinkLocalMulticast", |_, args| {
        test(args, is_link_local_multicast)
    }),
    ("isLinkLocalUnicast", |_, args| {
        test(args, is_link_local_unicast)
    }),
    ("isGlobalUnicast", |_, args| test(args, is_global_unicast)),
    ("cidr", |_, args| match args {
        [Value::String(text)] => network(text),
        _ => no_overload(),
    }),
    ("isCIDR", |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse_cidr(text).is_ok())),
        _ => no_overload(),
    }),
    ("containsIP", contains_ip),
    ("containsCIDR", contains_cidr),
    ("prefixLength", |_, args| match args {
        [Value::Opaque(Opaque::Cidr(_, bits))] => Ok(Value::Int(i64::from(*bits))),
        _ => no_overload(),
    }),
    ("masked", |_, args| match args {
        [Value::Opaque(Opaque::Cidr(ip, bits))] => {
            Ok(Value::Opaque(Opaque::Cidr(masked(*ip, *bits), *bits)))
        }
        _ => no_overload(),
    }),
];

fn test(args: &[Value], holds: fn(&IpAddr) -> bool) -> Evaluated<Value> {
    match args {
        [Value::Opaque(Opaque::Ip(ip))] => Ok(Value::Bool(holds(ip))),
        _ => no_overload(),
    }
}

fn ip(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::String(text)] => match parse_ip(text) {
            Ok(ip) => Ok(Value::Opaque(Opaque::Ip(ip))),
            Err(problem) => fail(problem),
        },
        [Value::Opaque(Opaque::Cidr(ip, _))] => Ok(Value::Opaque(Opaque::Ip(*ip))),
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
        let why = why_no_address(text);
        return Err(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {why}"
        ));
    };
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        _ => Ok(ip),
    }
}

/// The commonest of the reasons that Go gives.
fn why_no_address(text: &str) -> &'static str {
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
    let refuse = |why: String| {
        Err(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({quoted}): {why}"
        ))
    };
    let Some((address, bits)) = text.rsplit_once('/') else {
        return refuse("no '/'".to_owned());
    };
    if address.contains('%') {
        return refuse("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let Ok(ip) = address.parse::<IpAddr>() else {
        let why = why_no_address(address);
        return refuse(format!("ParseAddr({}): {why}", quote(address)));
    };
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let plain = !bits.is_empty()
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && (bits.len() == 1 || !bits.starts_with('0'));
    let bits: u8 = match bits.parse() {
        Ok(bits) if plain && bits <= most => bits,
        Ok(_) if plain => return refuse("prefix length out of range".to_owned()),
        _ => return refuse(format!("bad bits after slash: {}", quote(bits))),
    };
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        _ => Ok((ip, bits)),
    }
}

fn network(text: &str) -> Evaluated<Value> {
    match parse_cidr(text) {
        Ok((ip, bits)) => Ok(Value::Opaque(Opaque::Cidr(ip, bits))),
        Err(problem) => fail(format!(
            "network address parse error during conversion from string: {problem}"
        )),
    }
}

/// The address with all but the first bits zero.
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

fn holds(network: IpAddr, bits: u8, ip: IpAddr) -> bool {
    network.is_ipv4() == ip.is_ipv4() && masked(network, bits) == masked(ip, bits)
}

fn contains_ip(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::Opaque(Opaque::Cidr(network, bits)), other] = args else {
        return no_overload();
    };
    let ip = match other {
        Value::Opaque(Opaque::Ip(ip)) => *ip,
        // Upstream does not say what is wrong with it.
        Value::String(text) => match parse_ip(text) {
            Ok(ip) => ip,
            Err(_) => return no_overload(),
        },
        _ => return no_overload(),
    };
    Ok(Value::Bool(holds(*network, *bits, ip)))
}

fn contains_cidr(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::Opaque(Opaque::Cidr(ip, bits)), other] = args else {
        return no_overload();
    };
    let parsed = match other {
        Value::String(text) => network(text)?,
        other => other.clone(),
    };
    match parsed {
        Value::Opaque(Opaque::Cidr(inner, inner_bits)) => {
            Ok(Value::Bool(*bits <= inner_bits && holds(*ip, *bits, inner)))
        }
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
