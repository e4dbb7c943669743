//! The address and port ranges for services, from the command line and from ServiceCIDR objects.

use rhumb_api::ip_addresses::CidrBlock;
use rhumb_api::service_allocation::{IpFamily, NodePortRange, ServiceIpRange};
use serde_json::Value;

use crate::Registry;

/// The ranges configured by `--service-cluster-ip-range` and `--service-node-port-range`.
#[derive(Debug, Clone)]
pub struct ServiceAllocationRanges {
    /// One or two, of different families; the preferred family first.
    addresses: Vec<ServiceIpRange>,
    pub node_ports: NodePortRange,
}

/// An invalid value of the service range flags.
#[derive(Debug, thiserror::Error)]
pub enum ServiceRangeError {
    #[error("--service-cluster-ip-range[{0}] is not a valid CIDR")]
    InvalidCidr(usize),
    #[error("--service-cluster-ip-range must not hold more than two entries")]
    TooManyCidrs,
    #[error(
        "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family"
    )]
    SameFamily,
    #[error(
        "specified --service-cluster-ip-range is too large; for {bits}-bit addresses, the mask must be >= {least}"
    )]
    TooLarge { bits: u8, least: u8 },
    #[error("specified --service-cluster-ip-range is too small; it must have at least 8 addresses")]
    TooSmall,
    #[error("--service-node-port-range must be of the form 30000-32767")]
    InvalidPortRange,
}

/// The maximum number of host bits of a range.
const BITS_MAX: u8 = 20;
/// The minimum number of host bits of a range.
const BITS_MIN: u8 = 3;

impl ServiceAllocationRanges {
    /// Parses the flags: one or two comma-separated CIDRs, and a port range.
    pub fn parse(
        addresses: &str,
        node_ports: &str,
    ) -> Result<ServiceAllocationRanges, ServiceRangeError> {
        let mut ranges = Vec::new();
        for (index, text) in addresses.split(',').enumerate() {
            let block =
                CidrBlock::parse_lax(text.trim()).ok_or(ServiceRangeError::InvalidCidr(index))?;
            let bits: u8 = if block.is_v6() { 128 } else { 32 };
            let host_bits = bits.saturating_sub(block.prefix);
            if host_bits > BITS_MAX {
                let least = bits - BITS_MAX;
                return Err(ServiceRangeError::TooLarge { bits, least });
            }
            if host_bits < BITS_MIN {
                return Err(ServiceRangeError::TooSmall);
            }
            ranges.push(ServiceIpRange::new(block));
        }
        if ranges.len() > 2 {
            return Err(ServiceRangeError::TooManyCidrs);
        }
        if ranges.len() == 2 && ranges[0].family() == ranges[1].family() {
            return Err(ServiceRangeError::SameFamily);
        }
        Ok(ServiceAllocationRanges {
            addresses: ranges,
            node_ports: NodePortRange::parse(node_ports)
                .ok_or(ServiceRangeError::InvalidPortRange)?,
        })
    }

    pub fn families(&self) -> Vec<IpFamily> {
        self.addresses.iter().map(|range| range.family()).collect()
    }

    pub fn configured(&self) -> &[ServiceIpRange] {
        &self.addresses
    }

    /// The first address, which the `kubernetes` service of the API server has.
    pub fn api_server_address(&self) -> Option<std::net::IpAddr> {
        self.addresses.first()?.nth(0)
    }

    /// The ranges of an address family: the configured one, and those of ServiceCIDR objects.
    pub(super) fn current(&self, registry: &Registry, family: IpFamily) -> Vec<ServiceIpRange> {
        let mut ranges = self.addresses.clone();
        let added = registry
            .find("networking.k8s.io", "servicecidrs")
            .and_then(|resource| Some(resource.storage.as_ref()?.cache.snapshot()));
        for entry in added.iter().flat_map(|snapshot| snapshot.range(None, None)) {
            if let Ok(object) = serde_json::from_slice::<Value>(entry.json_slice()) {
                ranges.extend(ready_ranges(&object));
            }
        }
        let mut of_family: Vec<ServiceIpRange> = Vec::new();
        for range in ranges {
            if range.family() == family && !of_family.contains(&range) {
                of_family.push(range);
            }
        }
        of_family
    }
}

/// The ranges of a ServiceCIDR, unless it is deleting or not ready. As upstream does, one without conditions is ready.
fn ready_ranges(object: &Value) -> Vec<ServiceIpRange> {
    let is_deleting = object["metadata"].get("deletionTimestamp").is_some();
    let conditions = object["status"]["conditions"].as_array();
    let is_unready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] != "True");
    if is_deleting || is_unready {
        return Vec::new();
    }
    object["spec"]["cidrs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|text| Some(ServiceIpRange::new(CidrBlock::parse_lax(text.as_str()?)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_checked() {
        let table = [
            ("10.0.0.0/24", "30000-32767", ""),
            ("10.96.0.0/12,fd00::/108", "30000-32767", ""),
            ("10.0.0.0/28", "80", ""),
            (
                "x",
                "80",
                "--service-cluster-ip-range[0] is not a valid CIDR",
            ),
            (
                "10.0.0.0/8",
                "80",
                "specified --service-cluster-ip-range is too large; for 32-bit addresses, the mask must be >= 12",
            ),
            (
                "10.0.0.0/31",
                "80",
                "specified --service-cluster-ip-range is too small; it must have at least 8 addresses",
            ),
            (
                "10.0.0.0/24,10.1.0.0/24",
                "80",
                "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family",
            ),
            (
                "10.0.0.0/24",
                "x",
                "--service-node-port-range must be of the form 30000-32767",
            ),
        ];
        for (addresses, ports, want) in table {
            let got = ServiceAllocationRanges::parse(addresses, ports)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert_eq!(got, want, "{addresses} {ports}");
        }
    }
}
