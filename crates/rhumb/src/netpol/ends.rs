//! The ends of a connection as people write them: `shop/cart`, `shop/cart:web/TCP`, `10.0.0.9:80`, `[fd00::1]:53/UDP`.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use anyhow::{Result, anyhow, bail, ensure};
use rhumb_netpol::judge::{End, Question};
use rhumb_netpol::{Name, Pod, Protocol};

use super::cluster::{Cluster, Declared, addresses, declared_ports, few, protocol, protocol_name};

/// Where a connection comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source(End);

/// Where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    end: End,
    /// `None` is only to be told which ones there are.
    port: Option<Port>,
    protocol: Protocol,
}

/// A port with its protocol, TCP if it does not say one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PortNumber {
    pub(super) port: u16,
    pub(super) protocol: Protocol,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Port {
    Number(u16),
    /// Of a port that the destination declares.
    Name(String),
}

impl FromStr for Source {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Source> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(Source(End::Address(address))),
            Err(_) => pod(text).map(|name| Source(End::Pod(name))),
        }
    }
}

fn pod(text: &str) -> Result<Name> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains(['/', ':']) =>
        {
            Ok(Name::new(namespace, name))
        }
        _ => bail!("this is neither an address nor a pod as in NAMESPACE/POD"),
    }
}

impl FromStr for Destination {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Destination> {
        let (end, rest) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let Some((address, rest)) = bracketed.split_once(']') else {
                    bail!("there is no ] after the address");
                };
                let address: Ipv6Addr = address
                    .parse()
                    .map_err(|_| anyhow!("{address:?} is no IPv6 address"))?;
                (End::Address(address.into()), rest)
            }
            None => unbracketed(text)?,
        };
        let (port, protocol) = match rest.strip_prefix(':') {
            Some(port) => port_and_protocol(port)?,
            None if rest.is_empty() => (None, Protocol::Tcp),
            None => bail!("{rest:?} is no port; one is written as in :80/TCP"),
        };
        Ok(Destination {
            end,
            port,
            protocol,
        })
    }
}

/// The end, and what follows it.
fn unbracketed(text: &str) -> Result<(End, &str)> {
    if text.parse::<Ipv6Addr>().is_ok() {
        bail!("an IPv6 address needs brackets before its port: [{text}]:80/TCP");
    }
    let length = text.find(':').unwrap_or(text.len());
    let (end, rest) = text.split_at(length);
    match end.parse::<IpAddr>() {
        Ok(address) => Ok((End::Address(address), rest)),
        Err(_) => Ok((End::Pod(pod(end)?), rest)),
    }
}

fn port_and_protocol(text: &str) -> Result<(Option<Port>, Protocol)> {
    let (port, protocol) = match text.split_once('/') {
        Some((port, name)) => (port, known_protocol(name)?),
        None => (text, Protocol::Tcp),
    };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    match port {
        "" => bail!("there is no port after the colon"),
        number if is_number => Ok((Some(Port::Number(port_number(number)?)), protocol)),
        name => Ok((Some(Port::Name(name.to_owned())), protocol)),
    }
}

fn known_protocol(name: &str) -> Result<Protocol> {
    let upper = name.to_ascii_uppercase();
    let known = (!upper.is_empty()).then(|| protocol(Some(&upper)));
    known
        .flatten()
        .ok_or_else(|| anyhow!("{name:?} is none of TCP, UDP and SCTP"))
}

fn port_number(text: &str) -> Result<u16> {
    let number = text.parse().ok().filter(|port| *port > 0);
    number.ok_or_else(|| anyhow!("{text} is no port: these go from 1 to 65535"))
}

impl FromStr for PortNumber {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<PortNumber> {
        match port_and_protocol(text)? {
            (Some(Port::Number(port)), protocol) => Ok(PortNumber { port, protocol }),
            _ => bail!("{text:?} is no number; a port is written as in 80/TCP"),
        }
    }
}

impl std::fmt::Display for PortNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.port, protocol_name(self.protocol))
    }
}

/// What is asked about these ends.
pub(super) fn question(
    cluster: &Cluster,
    from: &Source,
    to: &Destination,
) -> Result<(Question, Option<String>)> {
    check_is_there(cluster, &from.0)?;
    check_is_there(cluster, &to.end)?;
    let (port, name) = to.port_number(cluster)?;
    let question = Question {
        from: from.0.clone(),
        to: to.end.clone(),
        protocol: to.protocol,
        port,
    };
    Ok((question, name))
}

fn check_is_there(cluster: &Cluster, end: &End) -> Result<()> {
    let End::Pod(name) = end else {
        return Ok(());
    };
    if cluster.pods.contains_key(name) {
        return Ok(());
    }
    if cluster.finished.contains(name) {
        bail!("the pod {name} has come to its end: nothing reaches it, and its address is free");
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
        few(siblings.into_iter())
    );
}

impl Destination {
    /// The number, and the name that it was found by.
    fn port_number(&self, cluster: &Cluster) -> Result<(u16, Option<String>)> {
        let shown = shown(&self.end);
        let declared = self
            .pod(cluster)
            .map(|(_, pod)| declared_ports(pod))
            .unwrap_or_default();
        match &self.port {
            Some(Port::Number(port)) => Ok((*port, None)),
            None => bail!(
                "--to needs a port, as in {shown}:{}; {}",
                declared
                    .first()
                    .map_or_else(|| "80/TCP".to_owned(), shown_port),
                listed(&declared)
            ),
            Some(Port::Name(name)) => {
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

    /// The pod that is meant, also by its address.
    fn pod<'c>(&self, cluster: &'c Cluster) -> Option<(&'c Name, &'c Pod)> {
        match &self.end {
            End::Pod(name) => cluster.pods.get_key_value(name),
            End::Address(address) => {
                let mut pods = cluster.pods.iter();
                pods.find(|(_, pod)| addresses(pod).any(|own| own == *address))
            }
        }
    }
}

fn listed(declared: &[Declared]) -> String {
    if declared.is_empty() {
        return "it declares none".to_owned();
    }
    let named = |port: &Declared| match &port.name {
        Some(name) => format!("{name} ({})", shown_port(port)),
        None => shown_port(port),
    };
    format!("it declares {}", few(declared.iter().map(named)))
}

fn shown_port(port: &Declared) -> String {
    let number = PortNumber {
        port: port.port,
        protocol: port.protocol,
    };
    number.to_string()
}

pub(super) fn shown(end: &End) -> String {
    match end {
        End::Pod(name) => name.to_string(),
        End::Address(IpAddr::V6(address)) => format!("[{address}]"),
        End::Address(address) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_pod_or_an_address_with_a_port() {
        let pod = || End::Pod(Name::new("shop", "cart"));
        let address = |text: &str| End::Address(text.parse().expect("an address"));
        let number = |port| Some(Port::Number(port));
        let table = [
            ("shop/cart:80/TCP", pod(), number(80), Protocol::Tcp),
            ("shop/cart:80", pod(), number(80), Protocol::Tcp),
            ("shop/cart:53/udp", pod(), number(53), Protocol::Udp),
            ("shop/cart", pod(), None, Protocol::Tcp),
            (
                "shop/cart:web/SCTP",
                pod(),
                Some(Port::Name("web".into())),
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
            let want = Destination {
                end,
                port,
                protocol,
            };
            assert_eq!(text.parse::<Destination>().expect(text), want, "{text}");
        }
    }

    #[test]
    fn what_is_no_destination_is_refused_with_what_is_wrong() {
        let table = [
            ("cart:80", "neither an address nor a pod"),
            ("shop/:80", "neither an address nor a pod"),
            ("shop/cart/x:80", "neither an address nor a pod"),
            ("shop/cart:", "no port after the colon"),
            ("shop/cart:0", "0 is no port"),
            ("shop/cart:65536/TCP", "65536 is no port"),
            ("shop/cart:80/ICMP", "\"ICMP\" is none of TCP, UDP and SCTP"),
            ("shop/cart:80/", "\"\" is none of TCP, UDP and SCTP"),
            ("fd00::1", "needs brackets before its port: [fd00::1]"),
            ("[fd00::1:80", "no ] after the address"),
            ("[10.0.0.1]:80", "\"10.0.0.1\" is no IPv6 address"),
            ("[fd00::1]80", "\"80\" is no port"),
        ];
        for (text, want) in table {
            let error = text.parse::<Destination>().expect_err(text).to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
