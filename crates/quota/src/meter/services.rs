//! What services count for: themselves, load balancers, and ports on nodes.

use rhumb_api::Object;
use rhumb_api::partial::{Text, or_default};
use rhumb_meta::Quantity;
use rhumb_meta::quantity::Format;
use serde::Deserialize;

use super::counts::ONE;
use crate::{Amounts, Charge};

const COUNT: &str = "count/services";
const SERVICES: &str = "services";
const LOAD_BALANCERS: &str = "services.loadbalancers";
const NODE_PORTS: &str = "services.nodeports";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Service<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<Port>,
    allocate_load_balancer_node_ports: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    #[serde(deserialize_with = "or_default")]
    node_port: i64,
}

pub(super) fn covers(name: &str) -> bool {
    matches!(name, COUNT | SERVICES | LOAD_BALANCERS | NODE_PORTS)
}

pub(super) fn measure(object: &Object) -> Charge {
    charge(&Service::deserialize(object).unwrap_or_default())
}

pub(super) fn measure_json(json: &[u8]) -> Result<Charge, serde_json::Error> {
    serde_json::from_slice(json).map(|service| charge(&service))
}

fn charge(service: &Service<'_>) -> Charge {
    let (load_balancers, node_ports) = match &*service.spec.kind {
        "NodePort" => (0, service.spec.ports.len()),
        "LoadBalancer" => (1, ports_of_load_balancer(&service.spec)),
        _ => (0, 0),
    };
    Charge {
        amounts: Amounts::from_iter([
            (COUNT.into(), ONE),
            (SERVICES.into(), ONE),
            (LOAD_BALANCERS.into(), count(load_balancers)),
            (NODE_PORTS.into(), count(node_ports)),
        ]),
        ..Charge::default()
    }
}

/// A port on the nodes may not have been picked yet. Where none are to be picked, those that were named count.
fn ports_of_load_balancer(spec: &Spec<'_>) -> usize {
    match spec.allocate_load_balancer_node_ports {
        Some(false) => spec.ports.iter().filter(|port| port.node_port != 0).count(),
        _ => spec.ports.len(),
    }
}

fn count(count: usize) -> Quantity {
    Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi)
}
