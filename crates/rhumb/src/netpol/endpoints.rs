//! Parses the endpoints of a connection from flags: `shop/cart`, `shop/cart:web/TCP`, `10.0.0.9:80`, `[fd00::1]:53/UDP`.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use anyhow::{Result, anyhow, bail, ensure};
use rhumb_netpol::verdict::{ConnectionEndpoint, ConnectionQuery};
use rhumb_netpol::{NamespacedName, Pod, Protocol};

use super::cluster::{
    DeclaredPort, NetpolCluster, addresses, declared_ports, first_names, protocol, protocol_name,
};

/// The source of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectionSource(ConnectionEndpoint);

/// The destination of a connection, with its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectionDestination {
    end: ConnectionEndpoint,
    /// `None` leads to an error that lists the declared ports.
    port: Option<PortReference>,
    protocol: Protocol,
}

/// A port number and a protocol; the protocol is TCP by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PortAndProtocol {
    pub(super) port: u16,
    pub(super) protocol: Protocol,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PortReference {
    Number(u16),
    /// The name of a container port of the destination.
    Name(String),
}

impl FromStr for ConnectionSource {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<ConnectionSource> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(ConnectionSource(ConnectionEndpoint::Address(address))),
            Err(_) => pod(text).map(|name| ConnectionSource(ConnectionEndpoint::Pod(name))),
        }
    }
}

fn pod(text: &str) -> Result<NamespacedName> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains(['/', ':']) =>
        {
            Ok(NamespacedName::new(namespace, name))
        }
        _ => bail!("neither an address nor a pod as NAMESPACE/POD"),
    }
}

impl FromStr for ConnectionDestination {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<ConnectionDestination> {
        let (end, rest) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let Some((address, rest)) = bracketed.split_once(']') else {
                    bail!("missing ] after the address");
                };
                let address: Ipv6Addr = address
                    .parse()
                    .map_err(|_| anyhow!("{address:?} is not an IPv6 address"))?;
                (ConnectionEndpoint::Address(address.into()), rest)
            }
            None => unbracketed(text)?,
        };
        let (port, protocol) = match rest.strip_prefix(':') {
            Some(port) => port_and_protocol(port)?,
            None if rest.is_empty() => (None, Protocol::Tcp),
            None => bail!("{rest:?} is not a port such as :80/TCP"),
        };
        Ok(ConnectionDestination {
            end,
            port,
            protocol,
        })
    }
}

/// Splits a pod or an IPv4 address from the rest.
fn unbracketed(text: &str) -> Result<(ConnectionEndpoint, &str)> {
    if text.parse::<Ipv6Addr>().is_ok() {
        bail!("an IPv6 address needs brackets before its port: [{text}]:80/TCP");
    }
    let length = text.find(':').unwrap_or(text.len());
    let (end, rest) = text.split_at(length);
    match end.parse::<IpAddr>() {
        Ok(address) => Ok((ConnectionEndpoint::Address(address), rest)),
        Err(_) => Ok((ConnectionEndpoint::Pod(pod(end)?), rest)),
    }
}

fn port_and_protocol(text: &str) -> Result<(Option<PortReference>, Protocol)> {
    let (port, protocol) = match text.split_once('/') {
        Some((port, name)) => (port, known_protocol(name)?),
        None => (text, Protocol::Tcp),
    };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    match port {
        "" => bail!("missing port after the colon"),
        number if is_number => Ok((Some(PortReference::Number(port_number(number)?)), protocol)),
        name => Ok((Some(PortReference::Name(name.to_owned())), protocol)),
    }
}

fn known_protocol(name: &str) -> Result<Protocol> {
    let upper = name.to_ascii_uppercase();
    let known = (!upper.is_empty()).then(|| protocol(Some(&upper)));
    known
        .flatten()
        .ok_or_else(|| anyhow!("unknown protocol {name:?}: expected TCP, UDP or SCTP"))
}

fn port_number(text: &str) -> Result<u16> {
    let number = text.parse().ok().filter(|port| *port > 0);
    number.ok_or_else(|| anyhow!("{text} is not a port between 1 and 65535"))
}

impl FromStr for PortAndProtocol {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<PortAndProtocol> {
        match port_and_protocol(text)? {
            (Some(PortReference::Number(port)), protocol) => Ok(PortAndProtocol { port, protocol }),
            _ => bail!("{text:?} is not a numeric port such as 80/TCP"),
        }
    }
}

impl std::fmt::Display for PortAndProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.port, protocol_name(self.protocol))
    }
}

/// The query for the engine, and the name of the port if one was given.
pub(super) fn question(
    cluster: &NetpolCluster,
    from: &ConnectionSource,
    to: &ConnectionDestination,
) -> Result<(ConnectionQuery, Option<String>)> {
    check_is_there(cluster, &from.0)?;
    check_is_there(cluster, &to.end)?;
    let (port, name) = to.port_number(cluster)?;
    let question = ConnectionQuery {
        from: from.0.clone(),
        to: to.end.clone(),
        protocol: to.protocol,
        port,
    };
    Ok((question, name))
}

fn check_is_there(cluster: &NetpolCluster, end: &ConnectionEndpoint) -> Result<()> {
    let ConnectionEndpoint::Pod(name) = end else {
        return Ok(());
    };
    if cluster.pods.contains_key(name) {
        return Ok(());
    }
    if cluster.finished.contains(name) {
        bail!("pod {name} has terminated and has no address");
    }
    let siblings = cluster
        .pods
        .keys()
        .filter(|pod| pod.namespace == name.namespace);
    let siblings: Vec<String> = siblings.map(|pod| pod.name.clone()).collect();
    ensure!(
        !siblings.is_empty(),
        "there is no pod {name}, nor any other in the namespace {:?}",
        name.namespace
    );
    bail!(
        "there is no pod {name}; in that namespace there is {}",
        first_names(siblings.into_iter())
    );
}

impl ConnectionDestination {
    /// The port number, and the name that it was resolved from.
    fn port_number(&self, cluster: &NetpolCluster) -> Result<(u16, Option<String>)> {
        let shown = shown(&self.end);
        let declared = self
            .pod(cluster)
            .map(|(_, pod)| declared_ports(pod))
            .unwrap_or_default();
        match &self.port {
            Some(PortReference::Number(port)) => Ok((*port, None)),
            None => bail!(
                "--to needs a port, as in {shown}:{}; {}",
                declared
                    .first()
                    .map_or_else(|| "80/TCP".to_owned(), shown_port),
                listed(&declared)
            ),
            Some(PortReference::Name(name)) => {
                let mut found = declared.iter().filter(|it| it.protocol == self.protocol);
                match found.find(|it| it.name.as_ref() == Some(name)) {
                    Some(found) => Ok((found.port, Some(name.clone()))),
                    None => bail!(
                        "{shown} has no port {name:?} of {}; {}",
                        protocol_name(self.protocol),
                        listed(&declared)
                    ),
                }
            }
        }
    }

    /// The destination pod, found by name or by address.
    fn pod<'c>(&self, cluster: &'c NetpolCluster) -> Option<(&'c NamespacedName, &'c Pod)> {
        match &self.end {
            ConnectionEndpoint::Pod(name) => cluster.pods.get_key_value(name),
            ConnectionEndpoint::Address(address) => {
                let mut pods = cluster.pods.iter();
                pods.find(|(_, pod)| addresses(pod).any(|own| own == *address))
            }
        }
    }
}

fn listed(declared: &[DeclaredPort]) -> String {
    if declared.is_empty() {
        return "it declares none".to_owned();
    }
    let named = |port: &DeclaredPort| match &port.name {
        Some(name) => format!("{name} ({})", shown_port(port)),
        None => shown_port(port),
    };
    format!("it declares {}", first_names(declared.iter().map(named)))
}

fn shown_port(port: &DeclaredPort) -> String {
    let number = PortAndProtocol {
        port: port.port,
        protocol: port.protocol,
    };
    number.to_string()
}

pub(super) fn shown(end: &ConnectionEndpoint) -> String {
    match end {
        ConnectionEndpoint::Pod(name) => name.to_string(),
        ConnectionEndpoint::Address(IpAddr::V6(address)) => format!("[{address}]"),
        ConnectionEndpoint::Address(address) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_pod_or_an_address_with_a_port() {
        let pod = || ConnectionEndpoint::Pod(NamespacedName::new("shop", "cart"));
        let address = |text: &str| ConnectionEndpoint::Address(text.parse().expect("an address"));
        let number = |port| Some(PortReference::Number(port));
        let table = [
            ("shop/cart:80/TCP", pod(), number(80), Protocol::Tcp),
            ("shop/cart:80", pod(), number(80), Protocol::Tcp),
            ("shop/cart:53/udp", pod(), number(53), Protocol::Udp),
            ("shop/cart", pod(), None, Protocol::Tcp),
            (
                "shop/cart:web/SCTP",
                pod(),
                Some(PortReference::Name("web".into())),
                Protocol::Sctp,
            ),
            (
                "10.0.0.9:443",
                address("10.0.0.9"),
                number(443),
                Protocol::Tcp,
            ),
            (
                "[fd00::1]:53/UDP",
                address("fd00::1"),
                number(53),
                Protocol::Udp,
            ),
        ];
        for (text, end, port, protocol) in table {
            let want = ConnectionDestination {
                end,
                port,
                protocol,
            };
            assert_eq!(
                text.parse::<ConnectionDestination>().expect(text),
                want,
                "{text}"
            );
        }
    }

    #[test]
    fn errors_of_a_destination_name_the_problem() {
        let table = [
            ("cart:80", "neither an address nor a pod"),
            ("shop/:80", "neither an address nor a pod"),
            ("shop/cart/x:80", "neither an address nor a pod"),
            ("shop/cart:", "missing port after the colon"),
            ("shop/cart:0", "0 is not a port"),
            ("shop/cart:65536/TCP", "65536 is not a port"),
            (
                "shop/cart:80/ICMP",
                "unknown protocol \"ICMP\": expected TCP, UDP or SCTP",
            ),
            (
                "shop/cart:80/",
                "unknown protocol \"\": expected TCP, UDP or SCTP",
            ),
            ("fd00::1", "needs brackets before its port: [fd00::1]"),
            ("[fd00::1:80", "missing ] after the address"),
            ("[10.0.0.1]:80", "\"10.0.0.1\" is not an IPv6 address"),
            ("[fd00::1]80", "\"80\" is not a port"),
        ];
        for (text, want) in table {
            let error = text
                .parse::<ConnectionDestination>()
                .expect_err(text)
                .to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
