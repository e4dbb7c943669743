//! The addresses and node ports of services. Each that is given is an entry of its own: an address is an
//! IPAddress object, a port a key that only rhumb knows. They are written with the service, under the condition
//! that nobody has them.

mod choose;
mod ports;
mod ranges;
mod records;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use rhumb_api::Object;
use rhumb_api::service_allocation::{
    self as rules, AddressNeed, AddressRange, Held, PortNeed, Refusal,
};
use rhumb_cache::{Cache, Entry};
use rhumb_meta::field::ErrorList;
use rhumb_meta::{Status, Timestamp};
use rhumb_store::Operation;

use super::Call;
use super::companions::{Chosen, Claim, Companions};
use crate::Api;
use crate::objects::Metadata;

pub use ports::NODE_PORTS;
pub use ranges::{RangeError, ServiceRanges};
use records::Owner;

/// Gives services what they need.
#[derive(Debug)]
pub struct ServiceAllocator {
    ranges: ServiceRanges,
    chosen: Chosen,
    node_ports: Cache,
}

impl ServiceAllocator {
    pub fn new(ranges: ServiceRanges, node_ports: Cache) -> ServiceAllocator {
        ServiceAllocator {
            ranges,
            chosen: Chosen::default(),
            node_ports,
        }
    }

    fn give_address(
        &self,
        call: &Call<'_>,
        service: &Object,
        need: &AddressNeed,
        dry_run: bool,
        claim: &mut Claim,
    ) -> Result<IpAddr, Status> {
        let addresses = records::addresses(call.api)?;
        let ranges = self.ranges.current(call.api, need.family);
        let refuse = |refusal: &Refusal| {
            let mut errors = ErrorList::new();
            errors.push(rules::address_refused(service, need, refusal));
            Status::invalid(&call.resource.group_kind(), service.name(), &errors)
        };
        let is_taken = |address: IpAddr| records::is_there(&addresses.cache, &address.to_string());
        if let Some(wanted) = need.wanted {
            check_range(&ranges, wanted).map_err(|refusal| refuse(&refusal))?;
            if is_taken(wanted) {
                return Err(refuse(&Refusal::AddressTaken));
            }
            let key = addresses.prefix.object(&records::key(&wanted.to_string())?);
            claim.asked(key, refuse(&Refusal::AddressTaken));
            return Ok(wanted);
        }
        let mut take = |address: IpAddr| {
            if is_taken(address) {
                return false;
            }
            let Ok(key) = records::key(&address.to_string()) else {
                return false;
            };
            dry_run || claim.hold(&self.chosen, addresses.prefix.object(&key))
        };
        ranges
            .iter()
            .find_map(|range| choose::address(*range, &mut take))
            .ok_or_else(|| refuse(&Refusal::Full))
    }

    fn give_port(
        &self,
        call: &Call<'_>,
        service: &Object,
        need: &PortNeed,
        given: &[u16],
        dry_run: bool,
        claim: &mut Claim,
    ) -> Result<u16, Status> {
        let range = self.ranges.node_ports;
        let refuse = |refusal: &Refusal| {
            let mut errors = ErrorList::new();
            errors.push(rules::port_refused(need, refusal));
            Status::invalid(&call.resource.group_kind(), service.name(), &errors)
        };
        let is_taken = |port: u16| records::is_there(&self.node_ports, &port.to_string());
        let key = |port: u16| {
            Ok(self
                .node_ports
                .prefix()
                .object(&records::key(&port.to_string())?))
        };
        if let Some(wanted) = need.wanted {
            if !range.contains(wanted) {
                return Err(refuse(&Refusal::PortOutside(range)));
            }
            if is_taken(wanted) {
                return Err(refuse(&Refusal::PortTaken));
            }
            claim.asked(key(wanted)?, refuse(&Refusal::PortTaken));
            return Ok(wanted);
        }
        let mut take = |port: u16| {
            !is_taken(port)
                && !given.contains(&port)
                && (dry_run || key(port).is_ok_and(|key: String| claim.hold(&self.chosen, key)))
        };
        choose::port(range, &mut take).ok_or_else(|| {
            Status::internal_error(format_args!(
                "failed to allocate a nodePort: {}",
                Refusal::Full
            ))
        })
    }
}

/// An address can be asked for only where the cluster has addresses to give.
fn check_range(ranges: &[AddressRange], wanted: IpAddr) -> Result<(), Refusal> {
    if ranges.iter().any(|range| range.place(wanted).is_some()) {
        return Ok(());
    }
    match ranges.iter().find(|range| range.covers(wanted)) {
        Some(&range) => Err(Refusal::AddressOutside {
            address: wanted,
            range,
        }),
        None => Err(Refusal::OtherNetwork),
    }
}

impl Companions for ServiceAllocator {
    fn complete(
        &self,
        call: &Call<'_>,
        service: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<Claim, Status> {
        rules::carry_over(service, old);
        rules::set_families(service, old, &self.ranges.families()).map_err(|errors| {
            Status::invalid(&call.resource.group_kind(), service.name(), &errors)
        })?;
        let mut claim = Claim::default();
        let needs = rules::needs(service, old);
        for need in &needs.addresses {
            let address = self.give_address(call, service, need, dry_run, &mut claim)?;
            rules::assign_address(service, need, address);
        }
        // A port that is asked for must not be chosen for another slot of the same service.
        let (asked, open): (Vec<&PortNeed>, Vec<&PortNeed>) =
            needs.ports.iter().partition(|need| need.wanted.is_some());
        let mut given: Vec<u16> = Vec::new();
        for need in asked.into_iter().chain(open) {
            let port = self.give_port(call, service, need, &given, dry_run, &mut claim)?;
            given.push(port);
            rules::assign_port(service, need, port);
        }
        Ok(claim)
    }

    fn operations(
        &self,
        api: &Api,
        now: Timestamp,
        old: Option<&Object>,
        new: Option<&Object>,
    ) -> Result<Vec<Operation>, Status> {
        let held = |service: Option<&Object>| service.map(rules::held).unwrap_or_default();
        let (had, has) = (held(old), held(new));
        let mut operations = Vec::new();
        if let Some(new) = new {
            let given = minus(&has, &had);
            operations = self.give(api, now, &Owner::of(new), &given)?;
        }
        if let Some(old) = old {
            let released = minus(&had, &has);
            operations.extend(self.take_back(api, &Owner::of(old), &released)?);
        }
        Ok(operations)
    }

    fn missing(
        &self,
        api: &Api,
        now: Timestamp,
        service: &Object,
    ) -> Result<Vec<Operation>, Status> {
        let addresses = &records::addresses(api)?.cache;
        let mut missing = rules::held(service);
        missing
            .addresses
            .retain(|address| !records::is_there(addresses, &address.to_string()));
        missing
            .ports
            .retain(|port| !records::is_there(&self.node_ports, &port.to_string()));
        self.give(api, now, &Owner::of(service), &missing)
    }
}

impl ServiceAllocator {
    fn give(
        &self,
        api: &Api,
        now: Timestamp,
        owner: &Owner<'_>,
        given: &Held,
    ) -> Result<Vec<Operation>, Status> {
        let addresses = given
            .addresses
            .iter()
            .map(|&address| records::put_address(api, now, address, owner));
        let ports = given
            .ports
            .iter()
            .map(|&port| ports::put(&self.node_ports, port, owner));
        addresses.chain(ports).collect()
    }

    fn take_back(
        &self,
        api: &Api,
        owner: &Owner<'_>,
        released: &Held,
    ) -> Result<Vec<Operation>, Status> {
        let mut operations = Vec::new();
        if !released.addresses.is_empty() {
            let addresses = &records::addresses(api)?.cache;
            let is_own = |record: &Entry| records::is_address_of(record, owner);
            for address in &released.addresses {
                operations.extend(records::delete(addresses, &address.to_string(), is_own)?);
            }
        }
        let is_own = |record: &Entry| ports::is_of(record, owner);
        for port in &released.ports {
            operations.extend(records::delete(
                &self.node_ports,
                &port.to_string(),
                is_own,
            )?);
        }
        Ok(operations)
    }
}

fn minus(all: &Held, without: &Held) -> Held {
    Held {
        addresses: &all.addresses - &without.addresses,
        ports: &all.ports - &without.ports,
    }
}
