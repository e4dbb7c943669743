//! Defaults of services.

use serde_json::{Value, json};

use crate::{FieldView, JsonObject, fields};

const AFFINITY_SECONDS: i64 = 10800;

pub(super) fn fill(service: &mut JsonObject) {
    fill_affinity(service);
    fields::set_if_empty(service, "spec.type", "ClusterIP");
    for port in fields::objects_mut(service, "spec.ports") {
        fill_port(port);
    }
    let kind = fields::text(service, "spec.type");
    let has_external_ips = !fields::items(service, "spec.externalIPs").is_empty();
    let is_external = match kind.as_str() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => has_external_ips,
        _ => false,
    };
    if is_external {
        fields::set_if_empty(service, "spec.externalTrafficPolicy", "Cluster");
    }
    let is_known = matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP");
    if is_known && fields::get(service, "spec.internalTrafficPolicy").is_none() {
        fields::set(service, "spec.internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fields::set_if_empty(service, "spec.allocateLoadBalancerNodePorts", true);
        for point in fields::objects_mut(service, "status.loadBalancer.ingress") {
            if !fields::str(point, "ip").is_empty() && fields::get(point, "ipMode").is_none() {
                fields::set(point, "ipMode", "VIP");
            }
        }
    }
}

fn fill_affinity(service: &mut JsonObject) {
    fields::set_if_empty(service, "spec.sessionAffinity", "None");
    let config = "spec.sessionAffinityConfig";
    match fields::str(service, "spec.sessionAffinity") {
        "None" => {
            fields::remove(service, config);
        }
        "ClientIP" => {
            let timeout = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
            if fields::get(service, timeout).is_none() {
                let filled = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
                fields::set(service, config, filled);
            }
        }
        _ => {}
    }
}

/// `targetPort` defaults to `port`.
fn fill_port(port: &mut JsonObject) {
    fields::set_if_empty(port, "protocol", "TCP");
    let has_target = match FieldView::root(port).field("targetPort").value() {
        None => false,
        Some(target) => *target != json!(0) && *target != json!(""),
    };
    if !has_target {
        let number = port.get("port").cloned().unwrap_or(Value::from(0));
        port.insert("targetPort".to_owned(), number);
    }
}
