//! Allocates cluster IPs and node ports to services (upstream: `ipallocator` and `portallocator`).
//!
//! Each allocation is a record in the store: an IPAddress object for a cluster IP, an internal key for a node port.
//! Records are created in the transaction that writes the service, on condition that they do not exist. Entry point:
//! `ServiceAllocator`, an implementation of `ResourceAllocator`.

mod choose;
mod node_ports;
mod ranges;
mod records;

use std::net::IpAddr;

use rhumb_api::JsonObject;
use rhumb_api::service_allocation::{
    self as rules, ClusterIpRequest, NodePortRequest, ServiceAllocationError, ServiceAllocations,
    ServiceIpRange,
};
use rhumb_cache::{CacheEntry, ResourceCache};
use rhumb_meta::field::ErrorList;
use rhumb_meta::{Status, Timestamp};
use rhumb_store::TransactionOp;

use super::RequestContext;
use super::allocator::{InFlightAllocationKeys, InFlightAllocations, ResourceAllocator};
use crate::Registry;
use crate::objects::ObjectMetadata;

pub use node_ports::NODE_PORTS_PATH;
pub use ranges::{ServiceAllocationRanges, ServiceRangeError};
use records::AllocationOwner;

/// Allocates cluster IPs and node ports to services.
#[derive(Debug)]
pub struct ServiceAllocator {
    ranges: ServiceAllocationRanges,
    pending: InFlightAllocationKeys,
    node_ports: ResourceCache,
}

impl ServiceAllocator {
    pub fn new(ranges: ServiceAllocationRanges, node_ports: ResourceCache) -> ServiceAllocator {
        ServiceAllocator {
            ranges,
            pending: InFlightAllocationKeys::default(),
            node_ports,
        }
    }

    /// Allocates the requested address, or a free one.
    fn allocate_address(
        &self,
        context: &RequestContext<'_>,
        service: &JsonObject,
        request: &ClusterIpRequest,
        dry_run: bool,
        hold: &mut InFlightAllocations,
    ) -> Result<IpAddr, Status> {
        let addresses = records::ip_address_storage(context.registry)?;
        let ranges = self.ranges.current(context.registry, request.family);
        let reject = |error: &ServiceAllocationError| {
            let mut errors = ErrorList::new();
            errors.push(rules::cluster_ip_error(service, request, error));
            Status::invalid(&context.resource.group_kind(), service.name(), &errors)
        };
        let is_taken = |address: IpAddr| records::exists(&addresses.cache, &address.to_string());
        if let Some(requested) = request.requested {
            check_range(&ranges, requested).map_err(|error| reject(&error))?;
            if is_taken(requested) {
                return Err(reject(&ServiceAllocationError::IpAllocated));
            }
            let key = addresses
                .prefix
                .object(&records::record_key(&requested.to_string())?);
            hold.require(key, reject(&ServiceAllocationError::IpAllocated));
            return Ok(requested);
        }
        let mut try_allocate = |address: IpAddr| {
            if is_taken(address) {
                return false;
            }
            let Ok(key) = records::record_key(&address.to_string()) else {
                return false;
            };
            dry_run || hold.hold(&self.pending, addresses.prefix.object(&key))
        };
        ranges
            .iter()
            .find_map(|range| choose::choose_address(*range, &mut try_allocate))
            .ok_or_else(|| reject(&ServiceAllocationError::Full))
    }

    /// Allocates the requested port, or a free one. `allocated` are ports of the same service.
    fn allocate_port(
        &self,
        context: &RequestContext<'_>,
        service: &JsonObject,
        request: &NodePortRequest,
        allocated: &[u16],
        dry_run: bool,
        hold: &mut InFlightAllocations,
    ) -> Result<u16, Status> {
        let range = self.ranges.node_ports;
        let reject = |error: &ServiceAllocationError| {
            let mut errors = ErrorList::new();
            errors.push(rules::node_port_error(request, error));
            Status::invalid(&context.resource.group_kind(), service.name(), &errors)
        };
        let is_taken = |port: u16| records::exists(&self.node_ports, &port.to_string());
        let key = |port: u16| {
            Ok(self
                .node_ports
                .prefix()
                .object(&records::record_key(&port.to_string())?))
        };
        if let Some(requested) = request.requested {
            if !range.contains(requested) {
                return Err(reject(&ServiceAllocationError::PortNotInRange(range)));
            }
            if is_taken(requested) {
                return Err(reject(&ServiceAllocationError::PortAllocated));
            }
            hold.require(
                key(requested)?,
                reject(&ServiceAllocationError::PortAllocated),
            );
            return Ok(requested);
        }
        let mut try_allocate = |port: u16| {
            !is_taken(port)
                && !allocated.contains(&port)
                && (dry_run || key(port).is_ok_and(|key: String| hold.hold(&self.pending, key)))
        };
        choose::choose_port(range, &mut try_allocate).ok_or_else(|| {
            Status::internal_error(format_args!(
                "failed to allocate a nodePort: {}",
                ServiceAllocationError::Full
            ))
        })
    }
}

/// Checks that a requested address is in one of the ranges.
fn check_range(ranges: &[ServiceIpRange], requested: IpAddr) -> Result<(), ServiceAllocationError> {
    if ranges
        .iter()
        .any(|range| range.offset_of(requested).is_some())
    {
        return Ok(());
    }
    match ranges.iter().find(|range| range.covers(requested)) {
        Some(&range) => Err(ServiceAllocationError::IpNotInRange {
            address: requested,
            range,
        }),
        None => Err(ServiceAllocationError::NetworkMismatch),
    }
}

impl ResourceAllocator for ServiceAllocator {
    fn allocate(
        &self,
        context: &RequestContext<'_>,
        service: &mut JsonObject,
        old: Option<&JsonObject>,
        dry_run: bool,
    ) -> Result<InFlightAllocations, Status> {
        rules::patch_allocated_values(service, old);
        rules::default_ip_families(service, old, &self.ranges.families()).map_err(|errors| {
            Status::invalid(&context.resource.group_kind(), service.name(), &errors)
        })?;
        let mut hold = InFlightAllocations::default();
        let needs = rules::allocation_requests(service, old);
        for request in &needs.addresses {
            let address = self.allocate_address(context, service, request, dry_run, &mut hold)?;
            rules::assign_cluster_ip(service, request, address);
        }
        // Requested ports come first, so that none of them is chosen for another port of the same service.
        let (requested, dynamic): (Vec<&NodePortRequest>, Vec<&NodePortRequest>) = needs
            .ports
            .iter()
            .partition(|request| request.requested.is_some());
        let mut allocated: Vec<u16> = Vec::new();
        for request in requested.into_iter().chain(dynamic) {
            let port =
                self.allocate_port(context, service, request, &allocated, dry_run, &mut hold)?;
            allocated.push(port);
            rules::assign_node_port(service, request, port);
        }
        Ok(hold)
    }

    fn record_operations(
        &self,
        registry: &Registry,
        now: Timestamp,
        old: Option<&JsonObject>,
        new: Option<&JsonObject>,
    ) -> Result<Vec<TransactionOp>, Status> {
        let held =
            |service: Option<&JsonObject>| service.map(rules::allocations_of).unwrap_or_default();
        let (before, after) = (held(old), held(new));
        let mut operations = Vec::new();
        if let Some(new) = new {
            let added = difference(&after, &before);
            operations =
                self.create_records(registry, now, &AllocationOwner::for_service(new), &added)?;
        }
        if let Some(old) = old {
            let released = difference(&before, &after);
            operations.extend(self.release_records(
                registry,
                &AllocationOwner::for_service(old),
                &released,
            )?);
        }
        Ok(operations)
    }

    fn missing_records(
        &self,
        registry: &Registry,
        now: Timestamp,
        service: &JsonObject,
    ) -> Result<Vec<TransactionOp>, Status> {
        let storage = records::ip_address_storage(registry)?;
        let addresses = &storage.cache;
        let mut missing = rules::allocations_of(service);
        missing
            .addresses
            .retain(|address| !records::exists(addresses, &address.to_string()));
        missing
            .ports
            .retain(|port| !records::exists(&self.node_ports, &port.to_string()));
        self.create_records(
            registry,
            now,
            &AllocationOwner::for_service(service),
            &missing,
        )
    }
}

impl ServiceAllocator {
    /// Operations that create the records of allocations.
    fn create_records(
        &self,
        registry: &Registry,
        now: Timestamp,
        owner: &AllocationOwner<'_>,
        added: &ServiceAllocations,
    ) -> Result<Vec<TransactionOp>, Status> {
        let addresses = added
            .addresses
            .iter()
            .map(|&address| records::create_ip_address(registry, now, address, owner));
        let ports = added
            .ports
            .iter()
            .map(|&port| node_ports::create_node_port(&self.node_ports, port, owner));
        addresses.chain(ports).collect()
    }

    /// Operations that delete the records of released allocations, if they still belong to the owner.
    fn release_records(
        &self,
        registry: &Registry,
        owner: &AllocationOwner<'_>,
        released: &ServiceAllocations,
    ) -> Result<Vec<TransactionOp>, Status> {
        let mut operations = Vec::new();
        if !released.addresses.is_empty() {
            let storage = records::ip_address_storage(registry)?;
            let addresses = &storage.cache;
            let is_own = |record: &CacheEntry| records::is_owned_ip_address(record, owner);
            for address in &released.addresses {
                operations.extend(records::delete_if_owned(
                    addresses,
                    &address.to_string(),
                    is_own,
                )?);
            }
        }
        let is_own = |record: &CacheEntry| node_ports::is_owned_node_port(record, owner);
        for port in &released.ports {
            operations.extend(records::delete_if_owned(
                &self.node_ports,
                &port.to_string(),
                is_own,
            )?);
        }
        Ok(operations)
    }
}

fn difference(all: &ServiceAllocations, excluded: &ServiceAllocations) -> ServiceAllocations {
    ServiceAllocations {
        addresses: &all.addresses - &excluded.addresses,
        ports: &all.ports - &excluded.ports,
    }
}
