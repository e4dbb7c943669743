//! Addresses and links of pods, as commands for `ip`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodLinkType {
    /// A bridge: pods of a node reach each other without routing.
    Bridged,
    /// A point-to-point link per pod: all traffic is routed.
    Routed,
}

/// The gateway addresses of routed pods.
const LINK_GATEWAY4: &str = "169.254.1.1";
const LINK_GATEWAY6: &str = "fe80::1";

/// Commands that create the bridge of a node.
pub(crate) fn bridge(node: usize) -> String {
    let [v4, v6] = gateways(node);
    format!(
        "link add cni0 type bridge\n\
         link set cni0 up\n\
         addr add {v4}/24 dev cni0\n\
         addr add {v6}/64 dev cni0 nodad\n"
    )
}

impl PodLinkType {
    /// Commands for the node's end of a pod's link.
    pub(crate) fn at_node(self, link: &str, v4: &str, v6: &str) -> String {
        match self {
            // Hairpin mode: a pod may reach itself through a service, on the same bridge port.
            PodLinkType::Bridged => format!(
                "link set {link} master cni0 up\n\
                 link set {link} type bridge_slave hairpin on\n"
            ),
            PodLinkType::Routed => format!(
                "link set {link} up\n\
                 addr add {LINK_GATEWAY4}/32 dev {link}\n\
                 addr add {LINK_GATEWAY6}/64 dev {link} nodad\n\
                 route replace {v4}/32 dev {link}\n\
                 route replace {v6}/128 dev {link}\n"
            ),
        }
    }

    /// Commands for the pod's end.
    pub(crate) fn at_pod(self, node: usize, v4: &str, v6: &str) -> String {
        match self {
            PodLinkType::Bridged => {
                let [gateway4, gateway6] = gateways(node);
                format!(
                    "addr add {v4}/24 dev eth0\n\
                     addr add {v6}/64 dev eth0 nodad\n\
                     route add default via {gateway4}\n\
                     route add default via {gateway6}\n"
                )
            }
            PodLinkType::Routed => format!(
                "addr add {v4}/32 dev eth0\n\
                 addr add {v6}/128 dev eth0 nodad\n\
                 route add {LINK_GATEWAY4} dev eth0\n\
                 route add default via {LINK_GATEWAY4} dev eth0\n\
                 route add default via {LINK_GATEWAY6} dev eth0\n"
            ),
        }
    }
}

pub(crate) fn node_address(index: usize, is_v4: bool) -> String {
    let host = index + 11;
    if is_v4 {
        format!("172.18.0.{host}")
    } else {
        format!("fd18::{host}")
    }
}

pub(crate) fn pod_subnet(node: usize, is_v4: bool) -> String {
    if is_v4 {
        format!("10.244.{}.0/24", node + 1)
    } else {
        format!("fd44:{}::/64", node + 1)
    }
}

pub(crate) fn pod_address(node: usize, host: u32, is_v4: bool) -> String {
    if is_v4 {
        format!("10.244.{}.{host}", node + 1)
    } else {
        format!("fd44:{}::{host}", node + 1)
    }
}

/// The addresses of a node's bridge.
fn gateways(node: usize) -> [String; 2] {
    [true, false].map(|is_v4| pod_address(node, 1, is_v4))
}
