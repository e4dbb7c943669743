//! The names and addresses by which clients find the server.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the serving certificate has to be good for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerNames {
    pub(super) hosts: BTreeSet<String>,
    pub(super) addresses: BTreeSet<IpAddr>,
}

impl ServerNames {
    /// What every server is found by: locally, inside the cluster by the service's names and its address, which
    /// is the first of the service range.
    pub(crate) fn new(service_address: IpAddr) -> Self {
        let hosts = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        ServerNames {
            hosts: hosts.map(str::to_owned).into(),
            addresses: [
                Ipv4Addr::LOCALHOST.into(),
                Ipv6Addr::LOCALHOST.into(),
                service_address,
            ]
            .into(),
        }
    }

    /// An address that the server listens on. One that stands for all addresses is no name.
    pub(crate) fn add_address(&mut self, address: IpAddr) {
        if !address.is_unspecified() {
            self.addresses.insert(address);
        }
    }

    /// The machine's name, or one that somebody asked for. What cannot be a name in a certificate is left out.
    pub(crate) fn add_host(&mut self, host: &str) {
        if let Ok(address) = host.parse() {
            self.add_address(address);
            return;
        }
        let host = host.to_ascii_lowercase();
        if rhumb_meta::validation::dns1123_subdomain(&host).is_empty() {
            self.hosts.insert(host);
        }
    }
}

/// The name of this machine, where it can be told.
pub(crate) fn host_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
