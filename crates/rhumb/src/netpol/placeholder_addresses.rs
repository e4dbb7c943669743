//! Placeholder addresses for pods without one, such as pods in manifests: the engine evaluates pairs of addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rhumb_netpol::objects::StatusIp;
use rhumb_netpol::{NamespacedName, Pod};

use super::cluster::addresses;

/// Placeholder ranges: reserved (240.0.0.0/4) and documentation (2001:db8::/32) addresses, which no pod has.
const FIRST_V4: Ipv4Addr = Ipv4Addr::new(240, 0, 0, 1);
const FIRST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Assigns placeholders to pods without addresses, of each family that other pods have. Returns them by pod.
pub(super) fn assign(
    pods: &mut BTreeMap<NamespacedName, Pod>,
) -> BTreeMap<NamespacedName, Vec<IpAddr>> {
    let taken: BTreeSet<IpAddr> = pods.values().flat_map(addresses).collect();
    let is_v6 = taken.iter().any(IpAddr::is_ipv6);
    let is_v4 = !is_v6 || taken.iter().any(IpAddr::is_ipv4);
    let v4 = (FIRST_V4.to_bits()..).map(|bits| IpAddr::from(Ipv4Addr::from(bits)));
    let v6 = (FIRST_V6.to_bits()..).map(|bits| IpAddr::from(Ipv6Addr::from(bits)));
    let mut v4 = v4.filter(|address| !taken.contains(address));
    let mut v6 = v6.filter(|address| !taken.contains(address));
    let mut given = BTreeMap::new();
    for (name, pod) in pods {
        if addresses(pod).next().is_some() {
            continue;
        }
        let of_v4 = is_v4.then(|| v4.next()).flatten();
        let of_v6 = is_v6.then(|| v6.next()).flatten();
        let addresses: Vec<IpAddr> = of_v4.into_iter().chain(of_v6).collect();
        let written = addresses.iter().map(|address| StatusIp {
            ip: Some(address.to_string()),
        });
        pod.status.pod_ips = Some(written.collect());
        given.insert(name.clone(), addresses);
    }
    given
}
