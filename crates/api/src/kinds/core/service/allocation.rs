//! What a service must be given, and how it gets it. Who holds which address and port is the allocator's to know;
//! all that follows from the service alone is here.
//!
//! In the order of a write, before the service is prepared and validated: [`carry_over`], [`set_families`],
//! [`needs`], then for each need the allocator's answer by [`assign_address`] or [`assign_port`]. When the write
//! has happened, [`released`] says what is free again.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use serde_json::{Value, json};

pub use super::ranges::{AddressRange, Family, PortRange};
use super::transitions::{needs_cluster_ip, needs_health_check_port, needs_node_port, node_ports};
use super::{cluster_ips, is_headless};
use crate::{Object, View, addresses, fields};

/// Why an allocator does not give what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("range is full")]
    Full,
    #[error("provided IP is already allocated")]
    AddressTaken,
    #[error(
        "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
    )]
    AddressOutside {
        address: IpAddr,
        range: AddressRange,
    },
    #[error("the provided network does not match the current range")]
    OtherNetwork,
    #[error("provided port is already allocated")]
    PortTaken,
    #[error("provided port is not in the valid range. The range of valid ports is {0}")]
    PortOutside(PortRange),
}

/// An address that a service must be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressNeed {
    /// Its place in `clusterIPs`.
    pub index: usize,
    pub family: Family,
    pub wanted: Option<IpAddr>,
}

/// A port of every node that a service must be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortNeed {
    pub slot: PortSlot,
    pub wanted: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortSlot {
    /// Ports of the service by their places: one number with several protocols has one port of the nodes.
    Ports(Vec<usize>),
    HealthCheck,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    pub addresses: Vec<AddressNeed>,
    pub ports: Vec<PortNeed>,
}

/// What a service has been given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    pub addresses: BTreeSet<IpAddr>,
    pub ports: BTreeSet<u16>,
}

/// Fills in what the old service was given and the client left out, and brings `clusterIP` and `clusterIPs`
/// in line: old clients know only the first.
pub fn carry_over(service: &mut Object, old: Option<&Object>) {
    let Some(old) = old else {
        let single = fields::text(service, "spec.clusterIP");
        if !single.is_empty() && fields::items(service, "spec.clusterIPs").is_empty() {
            fields::set(service, "spec.clusterIPs", json!([single]));
        }
        return;
    };
    if needs_cluster_ip(old) && needs_cluster_ip(service) {
        if fields::str(service, "spec.clusterIP").is_empty() {
            fields::keep(service, old, "spec.clusterIP");
        }
        if fields::items(service, "spec.clusterIPs").is_empty() {
            fields::keep(service, old, "spec.clusterIPs");
        }
    }
    if needs_node_port(old) && needs_node_port(service) {
        carry_over_node_ports(service, old);
    }
    if needs_health_check_port(old) && needs_health_check_port(service) {
        let path = "spec.healthCheckNodePort";
        if fields::int(service, path).unwrap_or_default() == 0 {
            fields::keep(service, old, path);
        }
    }
    follow_cluster_ip(service, old);
}

/// By the names of ports, unless the number is already used for another one.
fn carry_over_node_ports(service: &mut Object, old: &Object) {
    let used: BTreeSet<i64> = &node_ports(old) & &node_ports(service);
    let name = |port: &Object| fields::text(port, "name");
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

/// A client that changed only `clusterIP` meant `clusterIPs` too.
fn follow_cluster_ip(service: &mut Object, old: &Object) {
    let (now, before) = (
        fields::text(service, "spec.clusterIP"),
        fields::str(old, "spec.clusterIP"),
    );
    let all = fields::items(service, "spec.clusterIPs");
    let old_all = fields::items(old, "spec.clusterIPs");
    if all.is_empty() && !old_all.is_empty() && now == before {
        fields::keep(service, old, "spec.clusterIPs");
    } else if now != before && all == old_all {
        if now.is_empty() {
            fields::remove(service, "spec.clusterIPs");
        } else {
            fields::set(service, "spec.clusterIPs", json!([now]));
        }
    }
}

/// Sets the families of a service and their policy, as far as the client left them out. `configured` are the
/// families that the cluster has, the one that is preferred first.
pub fn set_families(
    service: &mut Object,
    old: Option<&Object>,
    configured: &[Family],
) -> Result<(), ErrorList> {
    let is_kept = old.is_some_and(|old| prefers_dual_stack_as_before(service, old));
    if !needs_cluster_ip(service) || is_kept {
        return Ok(());
    }
    let is_bare = fields::str(service, "spec.clusterIP") == "None"
        && fields::get(service, "spec.selector").is_none_or(|selector| *selector == json!({}));
    if fields::get(service, POLICY).is_none() {
        match old.and_then(|old| fields::get(old, POLICY)) {
            Some(policy) => fields::set(service, POLICY, policy.clone()),
            None if is_bare => fields::set(service, POLICY, "RequireDualStack"),
            None => fields::set(service, POLICY, "SingleStack"),
        }
    }
    validate_before(service, old)?;
    let mut errors = ErrorList::new();
    fit_to_policy(service, old, &mut errors);
    infer_families(service, configured, &mut errors);
    errors.into_result()?;
    let Some(&default) = configured.first() else {
        return Ok(());
    };
    let is_single = fields::str(service, POLICY) == "SingleStack";
    if !is_bare {
        validate_configured(service, configured)?;
    }
    let mut families = families_of(service);
    if families.is_empty() {
        families.push(default);
    }
    // Without a selector there are no pods that would have to have both families.
    if families.len() == 1 && !is_single && (is_bare || configured.len() == 2) {
        families.push(families[0].other());
    }
    let names: Vec<&str> = families.iter().map(|family| family.as_str()).collect();
    fields::set(service, "spec.ipFamilies", json!(names));
    Ok(())
}

const POLICY: &str = "spec.ipFamilyPolicy";

fn families_of(service: &Object) -> Vec<Family> {
    fields::items(service, "spec.ipFamilies")
        .iter()
        .filter_map(|name| Family::named(name.as_str()?))
        .collect()
}

fn prefers_dual_stack_as_before(service: &Object, old: &Object) -> bool {
    let prefers = |service: &Object| fields::str(service, POLICY) == "PreferDualStack";
    let same = |path: &str| fields::get(service, path) == fields::get(old, path);
    prefers(service)
        && (prefers(old) || fields::get(old, POLICY).is_none())
        && ["spec.type", "spec.clusterIPs", "spec.ipFamilies"]
            .into_iter()
            .all(same)
}

fn validate_before(service: &Object, old: Option<&Object>) -> Result<(), ErrorList> {
    let nothing = Object::new();
    let (view, old) = (View::root(service), View::root(old.unwrap_or(&nothing)));
    let mut errors = ErrorList::new();
    cluster_ips::validate(&view.field("spec"), &old.field("spec"), false, &mut errors);
    errors.into_result()
}

fn refuse_policy(service: &Object, detail: &str, errors: &mut ErrorList) {
    let shown = BadValue::json(fields::str(service, POLICY));
    errors.push(Error::invalid(&Path::new(POLICY), shown, detail));
}

fn fit_to_policy(service: &mut Object, old: Option<&Object>, errors: &mut ErrorList) {
    let is_single = fields::str(service, POLICY) == "SingleStack";
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
                refuse_policy(service, &detail, errors);
            }
        }
        if is_single && fields::items(service, path).len() == 2 {
            let detail = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified"
            );
            refuse_policy(service, &detail, errors);
        }
    }
}

/// The families of addresses that the client asked for follow from these.
fn infer_families(service: &mut Object, configured: &[Family], errors: &mut ErrorList) {
    let wanted: Vec<Option<IpAddr>> = cluster_ips_of(service);
    let mut names: Vec<Value> = fields::items(service, "spec.ipFamilies").to_vec();
    for (index, address) in wanted.iter().enumerate().skip(names.len()) {
        let Some(address) = address else {
            break;
        };
        let family = Family::of(*address);
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

fn cluster_ips_of(service: &Object) -> Vec<Option<IpAddr>> {
    fields::items(service, "spec.clusterIPs")
        .iter()
        .map(|address| addresses::parse_lax(address.as_str()?))
        .collect()
}

fn validate_configured(service: &Object, configured: &[Family]) -> Result<(), ErrorList> {
    let mut errors = ErrorList::new();
    if fields::str(service, POLICY) == "RequireDualStack" && configured.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        refuse_policy(service, detail, &mut errors);
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

/// What a service must be given that its old self does not have.
pub fn needs(service: &Object, old: Option<&Object>) -> Needs {
    let has = old.map(held).unwrap_or_default();
    let mut needs = Needs::default();
    let was_headless = old.is_some_and(has_no_address);
    if needs_cluster_ip(service) && !has_no_address(service) && !was_headless {
        let wanted = cluster_ips_of(service);
        for (index, family) in families_of(service).into_iter().enumerate() {
            let wanted = wanted.get(index).copied().flatten();
            if wanted.is_none_or(|address| !has.addresses.contains(&address)) {
                needs.addresses.push(AddressNeed {
                    index,
                    family,
                    wanted,
                });
            }
        }
    }
    if needs_node_port(service) {
        needs.ports = port_needs(service, old.is_some(), &has);
    }
    if needs_health_check_port(service) && !old.is_some_and(needs_health_check_port) {
        let wanted = fields::int(service, "spec.healthCheckNodePort");
        needs.ports.push(PortNeed {
            slot: PortSlot::HealthCheck,
            wanted: wanted.and_then(port),
        });
    }
    needs
}

fn has_no_address(service: &Object) -> bool {
    is_headless(&View::root(service).field("spec"))
}

fn port(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|&port| port != 0)
}

/// Ports of one number share the port of the nodes when the service is made; later each has its own.
fn port_needs(service: &Object, is_update: bool, has: &Held) -> Vec<PortNeed> {
    let allocates = fields::str(service, "spec.type") == "NodePort"
        || fields::get(service, "spec.allocateLoadBalancerNodePorts") != Some(&json!(false));
    let ports: Vec<(i64, Option<u16>)> = fields::items(service, "spec.ports")
        .iter()
        .filter_map(Value::as_object)
        .map(|item| {
            let number = |name| fields::int(item, name).unwrap_or_default();
            (number("port"), port(number("nodePort")))
        })
        .collect();
    let mut needs: Vec<(i64, PortNeed)> = Vec::new();
    for (index, &(number, wanted)) in ports.iter().enumerate() {
        if wanted.is_some_and(|wanted| has.ports.contains(&wanted))
            || (wanted.is_none() && !allocates)
        {
            continue;
        }
        let shared = |(other, need): &&mut (i64, PortNeed)| {
            let is_same = wanted.is_some() && need.wanted == wanted;
            is_same
                || (!is_update && *other == number && (wanted.is_none() || need.wanted.is_none()))
        };
        if let Some((_, need)) = needs.iter_mut().find(shared) {
            if let PortSlot::Ports(indexes) = &mut need.slot {
                indexes.push(index);
            }
            need.wanted = need.wanted.or(wanted);
            continue;
        }
        let slot = PortSlot::Ports(vec![index]);
        needs.push((number, PortNeed { slot, wanted }));
    }
    needs.into_iter().map(|(_, need)| need).collect()
}

pub fn assign_address(service: &mut Object, need: &AddressNeed, address: IpAddr) {
    let text = need
        .wanted
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

pub fn assign_port(service: &mut Object, need: &PortNeed, port: u16) {
    match &need.slot {
        PortSlot::HealthCheck => fields::set(service, "spec.healthCheckNodePort", port),
        PortSlot::Ports(indexes) => {
            for (index, item) in fields::objects_mut(service, "spec.ports").enumerate() {
                if indexes.contains(&index) {
                    item.insert("nodePort".to_owned(), json!(port));
                }
            }
        }
    }
}

/// What a service has been given: with this an allocator finds out, at its start, what is taken.
pub fn held(service: &Object) -> Held {
    let mut held = Held::default();
    if needs_cluster_ip(service) {
        held.addresses = cluster_ips_of(service).into_iter().flatten().collect();
    }
    held.ports = node_ports(service).into_iter().filter_map(port).collect();
    if needs_health_check_port(service) {
        held.ports
            .extend(fields::int(service, "spec.healthCheckNodePort").and_then(port));
    }
    held
}

/// What is free once a service has become another, or has gone.
pub fn released(old: &Object, new: Option<&Object>) -> Held {
    let (had, has) = (held(old), new.map(held).unwrap_or_default());
    Held {
        addresses: &had.addresses - &has.addresses,
        ports: &had.ports - &has.ports,
    }
}

/// The error for an address that the allocator does not give.
pub fn address_refused(service: &Object, need: &AddressNeed, refusal: &Refusal) -> Error {
    let shown = BadValue::json(&fields::items(service, "spec.clusterIPs"));
    let detail = match need.wanted {
        Some(address) => format!("failed to allocate IP {address}: {refusal}"),
        None => format!("failed to allocate IP: {refusal}"),
    };
    Error::invalid(&Path::new("spec.clusterIPs"), shown, detail)
}

/// The error for a port that the allocator does not give. Upstream has an internal error for those that nobody
/// asked for; so should the caller.
pub fn port_refused(need: &PortNeed, refusal: &Refusal) -> Error {
    let wanted = need.wanted.map_or(0, i64::from);
    match &need.slot {
        PortSlot::HealthCheck => {
            let path = Path::new("spec.healthCheckNodePort");
            Error::invalid(&path, wanted, refusal.to_string())
        }
        PortSlot::Ports(indexes) => {
            let ports = Path::new("spec.ports");
            let item = ports.index(indexes.first().copied().unwrap_or_default());
            Error::invalid(&item.child("nodePort"), wanted, refusal.to_string())
        }
    }
}
