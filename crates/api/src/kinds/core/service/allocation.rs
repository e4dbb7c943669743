//! Cluster IPs and node ports of a service: which ones a write must allocate, and how they are assigned. The
//! allocator itself is elsewhere; upstream: `pkg/registry/core/service/storage/alloc.go`.
//!
//! Order in a write, before preparation and validation: `patch_allocated_values`, `default_ip_families`,
//! `allocation_requests`, then `assign_cluster_ip` or `assign_node_port` for each request. After the commit,
//! `released_allocations` returns what became free.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use serde_json::{Value, json};

pub use super::allocation_ranges::{IpFamily, NodePortRange, ServiceIpRange};
use super::type_transitions::{
    needs_cluster_ip, needs_health_check_port, needs_node_port, node_ports,
};
use super::{cluster_ips, is_headless};
use crate::{FieldView, JsonObject, fields, ip_addresses};

/// Why an allocation failed. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceAllocationError {
    #[error("range is full")]
    Full,
    #[error("provided IP is already allocated")]
    IpAllocated,
    #[error(
        "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
    )]
    IpNotInRange {
        address: IpAddr,
        range: ServiceIpRange,
    },
    #[error("the provided network does not match the current range")]
    NetworkMismatch,
    #[error("provided port is already allocated")]
    PortAllocated,
    #[error("provided port is not in the valid range. The range of valid ports is {0}")]
    PortNotInRange(NodePortRange),
}

/// A cluster IP to allocate for a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterIpRequest {
    /// Index in `clusterIPs`.
    pub index: usize,
    pub family: IpFamily,
    pub requested: Option<IpAddr>,
}

/// A node port to allocate for a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePortRequest {
    pub target: NodePortTarget,
    pub requested: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePortTarget {
    /// Indexes in `ports`: ports with one number and several protocols share a node port.
    Ports(Vec<usize>),
    HealthCheck,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceAllocationRequests {
    pub addresses: Vec<ClusterIpRequest>,
    pub ports: Vec<NodePortRequest>,
}

/// Addresses and node ports that are allocated to a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceAllocations {
    pub addresses: BTreeSet<IpAddr>,
    pub ports: BTreeSet<u16>,
}

/// Copies allocated values that the client omitted from the old service (upstream's `patchAllocatedValues`), and
/// makes `clusterIP` and `clusterIPs` consistent: old clients know only the first.
pub fn patch_allocated_values(service: &mut JsonObject, old: Option<&JsonObject>) {
    let Some(old) = old else {
        let single = fields::text(service, "spec.clusterIP");
        if !single.is_empty() && fields::items(service, "spec.clusterIPs").is_empty() {
            fields::set(service, "spec.clusterIPs", json!([single]));
        }
        return;
    };
    if needs_cluster_ip(old) && needs_cluster_ip(service) {
        if fields::str(service, "spec.clusterIP").is_empty() {
            fields::restore_from(service, old, "spec.clusterIP");
        }
        if fields::items(service, "spec.clusterIPs").is_empty() {
            fields::restore_from(service, old, "spec.clusterIPs");
        }
    }
    if needs_node_port(old) && needs_node_port(service) {
        patch_node_ports(service, old);
    }
    if needs_health_check_port(old) && needs_health_check_port(service) {
        let path = "spec.healthCheckNodePort";
        if fields::int(service, path).unwrap_or_default() == 0 {
            fields::restore_from(service, old, path);
        }
    }
    normalize_cluster_ips(service, old);
}

/// Matches ports by name, and skips node ports that another port already uses.
fn patch_node_ports(service: &mut JsonObject, old: &JsonObject) {
    let used: BTreeSet<i64> = &node_ports(old) & &node_ports(service);
    let name = |port: &JsonObject| fields::text(port, "name");
    let known: Vec<(String, i64)> = fields::items(old, "spec.ports")
        .iter()
        .filter_map(Value::as_object)
        .map(|port| {
            (
                name(port),
                fields::int(port, "nodePort").unwrap_or_default(),
            )
        })
        .collect();
    for port in fields::objects_mut(service, "spec.ports") {
        if fields::int(port, "nodePort").unwrap_or_default() != 0 {
            continue;
        }
        let same_name = known.iter().rev().find(|(known, _)| *known == name(port));
        if let Some((_, number)) = same_name
            && *number != 0
            && !used.contains(number)
        {
            fields::set(port, "nodePort", *number);
        }
    }
}

/// Applies a change of `clusterIP` alone to `clusterIPs`.
fn normalize_cluster_ips(service: &mut JsonObject, old: &JsonObject) {
    let (now, before) = (
        fields::text(service, "spec.clusterIP"),
        fields::str(old, "spec.clusterIP"),
    );
    let all = fields::items(service, "spec.clusterIPs");
    let old_all = fields::items(old, "spec.clusterIPs");
    if all.is_empty() && !old_all.is_empty() && now == before {
        fields::restore_from(service, old, "spec.clusterIPs");
    } else if now != before && all == old_all {
        if now.is_empty() {
            fields::remove(service, "spec.clusterIPs");
        } else {
            fields::set(service, "spec.clusterIPs", json!([now]));
        }
    }
}

/// Defaults `ipFamilies` and `ipFamilyPolicy`. `configured` are the families of the cluster, the primary one first.
pub fn default_ip_families(
    service: &mut JsonObject,
    old: Option<&JsonObject>,
    configured: &[IpFamily],
) -> Result<(), ErrorList> {
    let is_kept = old.is_some_and(|old| prefers_dual_stack_as_before(service, old));
    if !needs_cluster_ip(service) || is_kept {
        return Ok(());
    }
    let is_bare = fields::str(service, "spec.clusterIP") == "None"
        && fields::get(service, "spec.selector").is_none_or(|selector| *selector == json!({}));
    if fields::get(service, IP_FAMILY_POLICY).is_none() {
        match old.and_then(|old| fields::get(old, IP_FAMILY_POLICY)) {
            Some(policy) => fields::set(service, IP_FAMILY_POLICY, policy.clone()),
            None if is_bare => fields::set(service, IP_FAMILY_POLICY, "RequireDualStack"),
            None => fields::set(service, IP_FAMILY_POLICY, "SingleStack"),
        }
    }
    validate_cluster_ips(service, old)?;
    let mut errors = ErrorList::new();
    trim_to_policy(service, old, &mut errors);
    infer_families(service, configured, &mut errors);
    errors.into_result()?;
    let Some(&default) = configured.first() else {
        return Ok(());
    };
    let is_single = fields::str(service, IP_FAMILY_POLICY) == "SingleStack";
    if !is_bare {
        validate_configured(service, configured)?;
    }
    let mut families = families_of(service);
    if families.is_empty() {
        families.push(default);
    }
    // Without a selector there are no pods that would need both families.
    if families.len() == 1 && !is_single && (is_bare || configured.len() == 2) {
        families.push(families[0].other());
    }
    let names: Vec<&str> = families.iter().map(|family| family.as_str()).collect();
    fields::set(service, "spec.ipFamilies", json!(names));
    Ok(())
}

const IP_FAMILY_POLICY: &str = "spec.ipFamilyPolicy";

fn families_of(service: &JsonObject) -> Vec<IpFamily> {
    fields::items(service, "spec.ipFamilies")
        .iter()
        .filter_map(|name| IpFamily::parse(name.as_str()?))
        .collect()
}

fn prefers_dual_stack_as_before(service: &JsonObject, old: &JsonObject) -> bool {
    let prefers =
        |service: &JsonObject| fields::str(service, IP_FAMILY_POLICY) == "PreferDualStack";
    let same = |path: &str| fields::get(service, path) == fields::get(old, path);
    prefers(service)
        && (prefers(old) || fields::get(old, IP_FAMILY_POLICY).is_none())
        && ["spec.type", "spec.clusterIPs", "spec.ipFamilies"]
            .into_iter()
            .all(same)
}

fn validate_cluster_ips(service: &JsonObject, old: Option<&JsonObject>) -> Result<(), ErrorList> {
    let nothing = JsonObject::new();
    let (view, old) = (
        FieldView::root(service),
        FieldView::root(old.unwrap_or(&nothing)),
    );
    let mut errors = ErrorList::new();
    cluster_ips::validate(&view.field("spec"), &old.field("spec"), false, &mut errors);
    errors.into_result()
}

fn reject_policy(service: &JsonObject, detail: &str, errors: &mut ErrorList) {
    let shown = BadValue::json(fields::str(service, IP_FAMILY_POLICY));
    errors.push(Error::invalid(&Path::new(IP_FAMILY_POLICY), shown, detail));
}

fn trim_to_policy(service: &mut JsonObject, old: Option<&JsonObject>, errors: &mut ErrorList) {
    let is_single = fields::str(service, IP_FAMILY_POLICY) == "SingleStack";
    for (path, one, many) in [
        ("spec.clusterIPs", "cluster IP", "cluster IPs"),
        ("spec.ipFamilies", "IP family", "IP families"),
    ] {
        let now = fields::items(service, path);
        if let Some(old) = old {
            let before = fields::items(old, path);
            let is_same = now == before;
            if is_single && is_same && now.len() > 1 {
                let first = now[0].clone();
                fields::set(service, path, json!([first]));
            } else if !is_single && !now.is_empty() && now.len() < before.len() {
                let detail = format!("must be 'SingleStack' to release the secondary {one}");
                reject_policy(service, &detail, errors);
            }
        }
        if is_single && fields::items(service, path).len() == 2 {
            let detail = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified"
            );
            reject_policy(service, &detail, errors);
        }
    }
}

/// Infers the families of requested cluster IPs.
fn infer_families(service: &mut JsonObject, configured: &[IpFamily], errors: &mut ErrorList) {
    let wanted: Vec<Option<IpAddr>> = cluster_ips_of(service);
    let mut names: Vec<Value> = fields::items(service, "spec.ipFamilies").to_vec();
    for (index, address) in wanted.iter().enumerate().skip(names.len()) {
        let Some(address) = address else {
            break;
        };
        let family = IpFamily::of_address(*address);
        if configured.contains(&family) {
            names.push(json!(family.as_str()));
        } else {
            let path = Path::new("spec.clusterIPs");
            let shown = BadValue::json(&fields::items(service, "spec.clusterIPs"));
            let detail = format!("{family} is not configured on this cluster");
            errors.push(Error::invalid(&path.index(index), shown, detail));
        }
    }
    if !names.is_empty() {
        fields::set(service, "spec.ipFamilies", names);
    }
}

fn cluster_ips_of(service: &JsonObject) -> Vec<Option<IpAddr>> {
    fields::items(service, "spec.clusterIPs")
        .iter()
        .map(|address| ip_addresses::parse_lax(address.as_str()?))
        .collect()
}

fn validate_configured(service: &JsonObject, configured: &[IpFamily]) -> Result<(), ErrorList> {
    let mut errors = ErrorList::new();
    if fields::str(service, IP_FAMILY_POLICY) == "RequireDualStack" && configured.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        reject_policy(service, detail, &mut errors);
    }
    for (index, family) in families_of(service).into_iter().enumerate() {
        if !configured.contains(&family) {
            let path = Path::new("spec.ipFamilies");
            let detail = "not configured on this cluster";
            errors.push(Error::invalid(&path.index(index), family.as_str(), detail));
        }
    }
    errors.into_result()
}

/// Returns the allocations that the service needs beyond those of `old`.
pub fn allocation_requests(
    service: &JsonObject,
    old: Option<&JsonObject>,
) -> ServiceAllocationRequests {
    let has = old.map(allocations_of).unwrap_or_default();
    let mut needs = ServiceAllocationRequests::default();
    let was_headless = old.is_some_and(has_no_address);
    if needs_cluster_ip(service) && !has_no_address(service) && !was_headless {
        let wanted = cluster_ips_of(service);
        for (index, family) in families_of(service).into_iter().enumerate() {
            let wanted = wanted.get(index).copied().flatten();
            if wanted.is_none_or(|address| !has.addresses.contains(&address)) {
                needs.addresses.push(ClusterIpRequest {
                    index,
                    family,
                    requested: wanted,
                });
            }
        }
    }
    if needs_node_port(service) {
        needs.ports = node_port_requests(service, old.is_some(), &has);
    }
    if needs_health_check_port(service) && !old.is_some_and(needs_health_check_port) {
        let wanted = fields::int(service, "spec.healthCheckNodePort");
        needs.ports.push(NodePortRequest {
            target: NodePortTarget::HealthCheck,
            requested: wanted.and_then(valid_port),
        });
    }
    needs
}

fn has_no_address(service: &JsonObject) -> bool {
    is_headless(&FieldView::root(service).field("spec"))
}

fn valid_port(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|&port| port != 0)
}

/// On create, ports with the same number share a node port; on update, each one gets its own.
fn node_port_requests(
    service: &JsonObject,
    is_update: bool,
    has: &ServiceAllocations,
) -> Vec<NodePortRequest> {
    let allocates = fields::str(service, "spec.type") == "NodePort"
        || fields::get(service, "spec.allocateLoadBalancerNodePorts") != Some(&json!(false));
    let ports: Vec<(i64, Option<u16>)> = fields::items(service, "spec.ports")
        .iter()
        .filter_map(Value::as_object)
        .map(|item| {
            let number = |name| fields::int(item, name).unwrap_or_default();
            (number("port"), valid_port(number("nodePort")))
        })
        .collect();
    let mut needs: Vec<(i64, NodePortRequest)> = Vec::new();
    for (index, &(number, wanted)) in ports.iter().enumerate() {
        if wanted.is_some_and(|wanted| has.ports.contains(&wanted))
            || (wanted.is_none() && !allocates)
        {
            continue;
        }
        let shared = |(other, need): &&mut (i64, NodePortRequest)| {
            let is_same = wanted.is_some() && need.requested == wanted;
            is_same
                || (!is_update
                    && *other == number
                    && (wanted.is_none() || need.requested.is_none()))
        };
        if let Some((_, need)) = needs.iter_mut().find(shared) {
            if let NodePortTarget::Ports(indexes) = &mut need.target {
                indexes.push(index);
            }
            need.requested = need.requested.or(wanted);
            continue;
        }
        let slot = NodePortTarget::Ports(vec![index]);
        needs.push((
            number,
            NodePortRequest {
                target: slot,
                requested: wanted,
            },
        ));
    }
    needs.into_iter().map(|(_, need)| need).collect()
}

pub fn assign_cluster_ip(service: &mut JsonObject, need: &ClusterIpRequest, address: IpAddr) {
    let text = need
        .requested
        .and_then(|_| {
            Some(
                fields::items(service, "spec.clusterIPs")
                    .get(need.index)?
                    .clone(),
            )
        })
        .unwrap_or_else(|| json!(address.to_string()));
    if need.index == 0 {
        fields::set(service, "spec.clusterIP", text.clone());
    }
    let mut all = fields::items(service, "spec.clusterIPs").to_vec();
    all.resize(all.len().max(need.index + 1), json!(""));
    all[need.index] = text;
    fields::set(service, "spec.clusterIPs", all);
}

pub fn assign_node_port(service: &mut JsonObject, need: &NodePortRequest, port: u16) {
    match &need.target {
        NodePortTarget::HealthCheck => fields::set(service, "spec.healthCheckNodePort", port),
        NodePortTarget::Ports(indexes) => {
            for (index, item) in fields::objects_mut(service, "spec.ports").enumerate() {
                if indexes.contains(&index) {
                    item.insert("nodePort".to_owned(), json!(port));
                }
            }
        }
    }
}

/// Returns the allocations of a service, from which an allocator restores its state on start.
pub fn allocations_of(service: &JsonObject) -> ServiceAllocations {
    let mut held = ServiceAllocations::default();
    if needs_cluster_ip(service) {
        held.addresses = cluster_ips_of(service).into_iter().flatten().collect();
    }
    held.ports = node_ports(service)
        .into_iter()
        .filter_map(valid_port)
        .collect();
    if needs_health_check_port(service) {
        held.ports
            .extend(fields::int(service, "spec.healthCheckNodePort").and_then(valid_port));
    }
    held
}

/// Returns the allocations of `old` that `new` does not use any more.
pub fn released_allocations(old: &JsonObject, new: Option<&JsonObject>) -> ServiceAllocations {
    let (had, has) = (
        allocations_of(old),
        new.map(allocations_of).unwrap_or_default(),
    );
    ServiceAllocations {
        addresses: &had.addresses - &has.addresses,
        ports: &had.ports - &has.ports,
    }
}

/// Field error for a failed cluster IP allocation.
pub fn cluster_ip_error(
    service: &JsonObject,
    need: &ClusterIpRequest,
    refusal: &ServiceAllocationError,
) -> Error {
    let shown = BadValue::json(&fields::items(service, "spec.clusterIPs"));
    let detail = match need.requested {
        Some(address) => format!("failed to allocate IP {address}: {refusal}"),
        None => format!("failed to allocate IP: {refusal}"),
    };
    Error::invalid(&Path::new("spec.clusterIPs"), shown, detail)
}

/// Field error for a failed node port allocation. For a port that the client did not request, upstream returns an
/// internal error instead; so should the caller.
pub fn node_port_error(need: &NodePortRequest, refusal: &ServiceAllocationError) -> Error {
    let wanted = need.requested.map_or(0, i64::from);
    match &need.target {
        NodePortTarget::HealthCheck => {
            let path = Path::new("spec.healthCheckNodePort");
            Error::invalid(&path, wanted, refusal.to_string())
        }
        NodePortTarget::Ports(indexes) => {
            let ports = Path::new("spec.ports");
            let item = ports.index(indexes.first().copied().unwrap_or_default());
            Error::invalid(&item.child("nodePort"), wanted, refusal.to_string())
        }
    }
}
