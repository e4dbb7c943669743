//! The version that a policy requires.

use rhumb_netpol::{Direction, PluginCapabilities};
use serde_json::Value;

use super::{list, peers, text};

pub(super) fn is_supported(spec: &Value, capabilities: &PluginCapabilities) -> bool {
    capabilities.versions.contains(min_version(spec))
}

/// `spec.minVersion`, or the version of its newest feature.
pub(super) fn min_version(spec: &Value) -> &str {
    if let Some(stated) = spec["minVersion"].as_str() {
        return stated;
    }
    let rules = || list(&spec["ingress"]).iter().chain(list(&spec["egress"]));
    let mut ports = rules().flat_map(|rule| list(&rule["ports"]));
    if ports.clone().any(|port| !port["endPort"].is_null()) {
        return "1.21";
    }
    if ports.any(|port| port["protocol"] == "SCTP") {
        return "1.12";
    }
    let peers = || rules().flat_map(|rule| list(&rule["from"]).iter().chain(list(&rule["to"])));
    if peers().any(|peer| !peer["podSelector"].is_null() && !peer["namespaceSelector"].is_null()) {
        return "1.11";
    }
    let mut blocks = peers()
        .map(|peer| &peer["ipBlock"])
        .filter(|block| !block.is_null());
    if blocks.clone().any(has_ipv6) {
        return "1.9";
    }
    let has_egress = !peers::rules(spec, Direction::Egress).is_empty()
        || list(&spec["policyTypes"]).iter().any(|one| one == "Egress");
    if has_egress || blocks.next().is_some() {
        return "1.8";
    }
    "1.3"
}

fn has_ipv6(block: &Value) -> bool {
    let excepts = list(&block["except"]).iter();
    let mut texts = excepts.map(text).chain([text(&block["cidr"])]);
    texts.any(|text| text.contains(':'))
}
