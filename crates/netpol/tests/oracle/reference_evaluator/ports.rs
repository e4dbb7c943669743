//! Port matching.

use rhumb_netpol::Protocol;
use serde_json::Value;

use super::{ProtocolAndPort, list, text};

/// Whether a port of a rule matches this port of the destination, which may not be a pod.
pub(super) fn port_matches(
    written: &Value,
    port: ProtocolAndPort,
    destination: Option<&Value>,
    sctp: bool,
) -> bool {
    let Some((protocol, number)) = port else {
        return false;
    };
    if read_protocol(&written["protocol"]) != Some(protocol)
        || (protocol == Protocol::Sctp && !sctp)
    {
        return false;
    }
    let end = &written["endPort"];
    match &written["port"] {
        Value::Null => end.is_null(),
        Value::String(name) => {
            let resolved = destination.and_then(|pod| resolve(pod, name, protocol));
            end.is_null() && resolved == Some(i64::from(number))
        }
        first => {
            let first = first.as_i64().unwrap_or_default();
            let last = if end.is_null() {
                first
            } else {
                end.as_i64().unwrap_or_default()
            };
            (1..=65535).contains(&first)
                && (first..=65535).contains(&last)
                && (first..=last).contains(&i64::from(number))
        }
    }
}

fn read_protocol(value: &Value) -> Option<Protocol> {
    match value.as_str() {
        None | Some("TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some("SCTP") => Some(Protocol::Sctp),
        Some(_) => None,
    }
}

/// Resolves a named port: the first container that defines it. Sidecars come last, other init containers are ignored.
fn resolve(pod: &Value, name: &str, protocol: Protocol) -> Option<i64> {
    let sidecars = list(&pod["spec"]["initContainers"]).iter();
    let sidecars = sidecars.filter(|container| text(&container["restartPolicy"]) == "Always");
    let containers = list(&pod["spec"]["containers"]).iter().chain(sidecars);
    let mut ports = containers.flat_map(|container| list(&container["ports"]));
    let found = ports
        .find(|port| port["name"] == name && read_protocol(&port["protocol"]) == Some(protocol));
    found.and_then(|port| port["containerPort"].as_i64())
}
