//! A service that changes its type: what it loses, and what may not change.

use std::collections::BTreeSet;

use rhumb_meta::field::ErrorList;

use super::{needs_health_check, spec};
use crate::{Object, View, fields};

pub(super) fn validate_change(new: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    let is_balancer = |spec: &View<'_>| spec.field("type").str() == "LoadBalancer";
    let class = new.field("loadBalancerClass");
    if is_balancer(new) && is_balancer(old) && !class.same_as(&old.field("loadBalancerClass")) {
        class.invalid(errors, "may not change once set");
    }
    spec::validate_load_balancer_class(new, errors);
    let port = new.field("healthCheckNodePort");
    let old_port = old.field("healthCheckNodePort");
    if needs_health_check(new) && needs_health_check(old) && port.int() != old_port.int() {
        port.forbidden(errors, "field is immutable");
    }
}

/// Whether a service has what a type has.
type Has = fn(&Object) -> bool;

/// Takes away what the old type had and the new one does not, unless the client has changed it too: then it is
/// for validation to refuse.
pub(super) fn drop_what_the_type_does_not_have(service: &mut Object, old: &Object) {
    let same = |service: &Object, path: &str| fields::get(service, path) == fields::get(old, path);
    if needs_cluster_ip(old) && !needs_cluster_ip(service) {
        if same(service, "spec.clusterIP") && same(service, "spec.clusterIPs") {
            fields::remove(service, "spec.clusterIP");
            fields::remove(service, "spec.clusterIPs");
        }
        for path in ["spec.ipFamilies", "spec.ipFamilyPolicy"] {
            if same(service, path) {
                fields::remove(service, path);
            }
        }
    }
    if needs_node_port(old) && !needs_node_port(service) {
        let had = node_ports(old);
        if node_ports(service).is_subset(&had) {
            for port in fields::objects_mut(service, "spec.ports") {
                port.remove("nodePort");
            }
        }
    }
    let lost: [(Has, &str); 4] = [
        (needs_health_check_port, "spec.healthCheckNodePort"),
        (is_balancer, "spec.allocateLoadBalancerNodePorts"),
        (is_balancer, "spec.loadBalancerClass"),
        (is_externally_accessible, "spec.externalTrafficPolicy"),
    ];
    for (has, path) in lost {
        if has(old) && !has(service) && same(service, path) {
            fields::remove(service, path);
        }
    }
    if !is_balancer(service) && fields::get(service, "status.loadBalancer").is_some() {
        fields::set(service, "status.loadBalancer", Object::new());
    }
}

pub(super) fn needs_cluster_ip(service: &Object) -> bool {
    fields::str(service, "spec.type") != "ExternalName"
}

pub(super) fn needs_node_port(service: &Object) -> bool {
    matches!(
        fields::str(service, "spec.type"),
        "NodePort" | "LoadBalancer"
    )
}

pub(super) fn needs_health_check_port(service: &Object) -> bool {
    is_balancer(service) && fields::str(service, "spec.externalTrafficPolicy") == "Local"
}

fn is_balancer(service: &Object) -> bool {
    fields::str(service, "spec.type") == "LoadBalancer"
}

fn is_externally_accessible(service: &Object) -> bool {
    super::is_externally_accessible(&View::root(service).field("spec"))
}

pub(super) fn node_ports(service: &Object) -> BTreeSet<i64> {
    fields::items(service, "spec.ports")
        .iter()
        .filter_map(|port| port.get("nodePort")?.as_i64())
        .filter(|&port| port != 0)
        .collect()
}
