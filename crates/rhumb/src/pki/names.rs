//! The subject alternative names of the serving certificate.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The DNS names and IP addresses of the serving certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerCertificateNames {
    pub(super) hosts: BTreeSet<String>,
    pub(super) addresses: BTreeSet<IpAddr>,
}

impl ServerCertificateNames {
    /// The names of every server: localhost, and the names and the cluster IP of the service `kubernetes`.
    pub(crate) fn new(service_address: IpAddr) -> Self {
        let hosts = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        ServerCertificateNames {
            hosts: hosts.map(str::to_owned).into(),
            addresses: [
                Ipv4Addr::LOCALHOST.into(),
                Ipv6Addr::LOCALHOST.into(),
                service_address,
            ]
            .into(),
        }
    }

    /// Adds a listening address, unless it is unspecified (0.0.0.0, ::).
    pub(crate) fn add_address(&mut self, address: IpAddr) {
        if !address.is_unspecified() {
            self.addresses.insert(address);
        }
    }

    /// Adds a host name or address. Invalid DNS names are ignored.
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

/// The host name of this machine, if it has one.
pub(crate) fn host_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
