//! Changes of the type of a service: dropping type-dependent fields (upstream's `dropTypeDependentFields`), and
//! validation of what may not change.

use std::collections::BTreeSet;

use rhumb_meta::field::ErrorList;

use super::{needs_health_check, spec};
use crate::{FieldView, JsonObject, fields};

pub(super) fn validate_change(new: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let is_balancer = |spec: &FieldView<'_>| spec.field("type").str() == "LoadBalancer";
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

/// Tests whether the type of a service uses a certain field.
type ServicePredicate = fn(&JsonObject) -> bool;

/// Drops fields that the new type does not use, unless the client changed them too: validation then rejects them.
pub(super) fn drop_type_dependent_fields(service: &mut JsonObject, old: &JsonObject) {
    let same =
        |service: &JsonObject, path: &str| fields::get(service, path) == fields::get(old, path);
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
    let lost: [(ServicePredicate, &str); 4] = [
        (needs_health_check_port, "spec.healthCheckNodePort"),
        (is_load_balancer, "spec.allocateLoadBalancerNodePorts"),
        (is_load_balancer, "spec.loadBalancerClass"),
        (is_externally_accessible, "spec.externalTrafficPolicy"),
    ];
    for (has, path) in lost {
        if has(old) && !has(service) && same(service, path) {
            fields::remove(service, path);
        }
    }
    if !is_load_balancer(service) && fields::get(service, "status.loadBalancer").is_some() {
        fields::set(service, "status.loadBalancer", JsonObject::new());
    }
}

pub(super) fn needs_cluster_ip(service: &JsonObject) -> bool {
    fields::str(service, "spec.type") != "ExternalName"
}

pub(super) fn needs_node_port(service: &JsonObject) -> bool {
    matches!(
        fields::str(service, "spec.type"),
        "NodePort" | "LoadBalancer"
    )
}

pub(super) fn needs_health_check_port(service: &JsonObject) -> bool {
    is_load_balancer(service) && fields::str(service, "spec.externalTrafficPolicy") == "Local"
}

fn is_load_balancer(service: &JsonObject) -> bool {
    fields::str(service, "spec.type") == "LoadBalancer"
}

fn is_externally_accessible(service: &JsonObject) -> bool {
    super::is_externally_accessible(&FieldView::root(service).field("spec"))
}

pub(super) fn node_ports(service: &JsonObject) -> BTreeSet<i64> {
    fields::items(service, "spec.ports")
        .iter()
        .filter_map(|port| port.get("nodePort")?.as_i64())
        .filter(|&port| port != 0)
        .collect()
}
