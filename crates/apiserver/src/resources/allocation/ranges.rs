//! What the cluster has to give.

use rhumb_api::addresses::Block;
use rhumb_api::service_allocation::{AddressRange, Family, PortRange};
use serde_json::Value;

use crate::Api;

/// The ranges of a cluster, as its operator set them.
#[derive(Debug, Clone)]
pub struct ServiceRanges {
    /// One or two, of different families; the preferred family first.
    addresses: Vec<AddressRange>,
    pub node_ports: PortRange,
}

#[derive(Debug, thiserror::Error)]
pub enum RangeError {
    #[error("--service-cluster-ip-range[{0}] is not a valid CIDR")]
    NoBlock(usize),
    #[error("--service-cluster-ip-range must not hold more than two entries")]
    TooMany,
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
    NoPorts,
}

/// How many bits of an address may tell services apart.
const BITS_MAX: u8 = 20;
const BITS_MIN: u8 = 3;

impl ServiceRanges {
    /// Reads the flags: one CIDR or two with a comma between, and a range of ports.
    pub fn parse(addresses: &str, node_ports: &str) -> Result<ServiceRanges, RangeError> {
        let mut ranges = Vec::new();
        for (index, text) in addresses.split(',').enumerate() {
            let block = Block::parse_lax(text.trim()).ok_or(RangeError::NoBlock(index))?;
            let bits: u8 = if block.is_v6() { 128 } else { 32 };
            let own = bits.saturating_sub(block.prefix);
            if own > BITS_MAX {
                let least = bits - BITS_MAX;
                return Err(RangeError::TooLarge { bits, least });
            }
            if own < BITS_MIN {
                return Err(RangeError::TooSmall);
            }
            ranges.push(AddressRange::new(block));
        }
        if ranges.len() > 2 {
            return Err(RangeError::TooMany);
        }
        if ranges.len() == 2 && ranges[0].family() == ranges[1].family() {
            return Err(RangeError::SameFamily);
        }
        Ok(ServiceRanges {
            addresses: ranges,
            node_ports: PortRange::parse(node_ports).ok_or(RangeError::NoPorts)?,
        })
    }

    pub fn families(&self) -> Vec<Family> {
        self.addresses.iter().map(|range| range.family()).collect()
    }

    pub fn configured(&self) -> &[AddressRange] {
        &self.addresses
    }

    /// The first address of all: the API server's own service has it.
    pub fn first(&self) -> Option<std::net::IpAddr> {
        self.addresses.first()?.nth(0)
    }

    /// The ranges of a family: the one that was set, and those that ServiceCIDR objects add.
    pub(super) fn current(&self, api: &Api, family: Family) -> Vec<AddressRange> {
        let mut ranges = self.addresses.clone();
        let added = api
            .registry
            .find("networking.k8s.io", "servicecidrs")
            .and_then(|resource| resource.storage.as_ref())
            .map(|storage| storage.cache.snapshot());
        for entry in added.iter().flat_map(|snapshot| snapshot.range(None, None)) {
            if let Ok(object) = serde_json::from_slice::<Value>(entry.json_slice()) {
                ranges.extend(ready_ranges(&object));
            }
        }
        let mut of_family: Vec<AddressRange> = Vec::new();
        for range in ranges {
            if range.family() == family && !of_family.contains(&range) {
                of_family.push(range);
            }
        }
        of_family
    }
}

/// A ServiceCIDR that nobody has looked at yet counts as ready, as upstream has it.
fn ready_ranges(object: &Value) -> Vec<AddressRange> {
    let is_going = object["metadata"].get("deletionTimestamp").is_some();
    let conditions = object["status"]["conditions"].as_array();
    let is_unready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] != "True");
    if is_going || is_unready {
        return Vec::new();
    }
    object["spec"]["cidrs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|text| Some(AddressRange::new(Block::parse_lax(text.as_str()?)?)))
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
            let got = ServiceRanges::parse(addresses, ports)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert_eq!(got, want, "{addresses} {ports}");
        }
    }
}
