//! Usage of Services: their number, load balancers and node ports (upstream: `serviceEvaluator`).

use rhumb_api::JsonObject;
use rhumb_api::partial_decode::{BorrowedStr, or_default};
use rhumb_meta::Quantity;
use rhumb_meta::quantity::QuantityFormat;
use serde::Deserialize;

use super::object_count::ONE;
use crate::{ObjectUsage, ResourceQuantities};

const COUNT: &str = "count/services";
const SERVICES: &str = "services";
const LOAD_BALANCERS: &str = "services.loadbalancers";
const NODE_PORTS: &str = "services.nodeports";

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialService<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    spec: PartialServiceSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialServiceSpec<'a> {
    #[serde(borrow, rename = "type")]
    kind: BorrowedStr<'a>,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<PartialServicePort>,
    allocate_load_balancer_node_ports: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialServicePort {
    #[serde(deserialize_with = "or_default")]
    node_port: i64,
}

pub(super) fn covers(name: &str) -> bool {
    matches!(name, COUNT | SERVICES | LOAD_BALANCERS | NODE_PORTS)
}

pub(super) fn usage(object: &JsonObject) -> ObjectUsage {
    usage_of(&PartialService::deserialize(object).unwrap_or_default())
}

pub(super) fn usage_from_json(json: &[u8]) -> Result<ObjectUsage, serde_json::Error> {
    serde_json::from_slice(json).map(|service| usage_of(&service))
}

fn usage_of(service: &PartialService<'_>) -> ObjectUsage {
    let (load_balancers, node_ports) = match &*service.spec.kind {
        "NodePort" => (0, service.spec.ports.len()),
        "LoadBalancer" => (1, load_balancer_node_ports(&service.spec)),
        _ => (0, 0),
    };
    ObjectUsage {
        quantities: ResourceQuantities::from_iter([
            (COUNT.into(), ONE),
            (SERVICES.into(), ONE),
            (LOAD_BALANCERS.into(), count(load_balancers)),
            (NODE_PORTS.into(), count(node_ports)),
        ]),
        ..ObjectUsage::default()
    }
}

/// Node ports may not be allocated yet, so every port counts. Without allocation, only explicit node ports count.
fn load_balancer_node_ports(spec: &PartialServiceSpec<'_>) -> usize {
    match spec.allocate_load_balancer_node_ports {
        Some(false) => spec.ports.iter().filter(|port| port.node_port != 0).count(),
        _ => spec.ports.len(),
    }
}

fn count(count: usize) -> Quantity {
    Quantity::new(
        i64::try_from(count).unwrap_or(i64::MAX),
        QuantityFormat::DecimalSi,
    )
}
