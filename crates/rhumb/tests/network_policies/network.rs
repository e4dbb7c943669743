//! The test network: network namespaces for nodes and pods, and their links. Independent of policies.
//!
//! ```text
//!   control ──┐
//!   outside ──┼── underlay (a bridge) ──┬── node-a ──┬── pod
//!             │                         │            └── pod
//!             │                         └── node-b ───── pod
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::network_namespace::{NetworkNamespace, feed};
use crate::pod_links::{self, PodLinkType, node_address, pod_address, pod_subnet};
use crate::prerequisites::prepare_process;
use crate::probe::serve;

pub(crate) const NODES: [&str; 2] = ["node-a", "node-b"];

#[derive(Debug)]
pub(crate) struct TestNetwork {
    link_type: PodLinkType,
    /// Common prefix of the namespace names.
    prefix: String,
    pub(crate) control: Arc<NetworkNamespace>,
    /// A host that is neither node nor pod, with two addresses of each family.
    pub(crate) outside: Arc<NetworkNamespace>,
    pub(crate) nodes: Vec<Arc<NetworkNamespace>>,
    underlay: Arc<NetworkNamespace>,
    pods: Vec<Arc<NetworkNamespace>>,
    links: u32,
}

impl TestNetwork {
    pub(crate) async fn new(link_type: PodLinkType) -> TestNetwork {
        prepare_process();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("rhumb-{}-{number}", std::process::id());
        let make = |name: &str, addresses: &[String]| create_namespace(&prefix, name, addresses);
        let node = |(index, &name): (usize, &&str)| {
            let addresses = [true, false].map(|is_v4| node_address(index, is_v4));
            make(name, &addresses)
        };
        let outside = [
            "203.0.113.10",
            "203.0.113.20",
            "2001:db8::10",
            "2001:db8::20",
        ];
        let network = TestNetwork {
            link_type,
            control: make("control", &[CONTROL_ADDRESS.to_owned()]),
            outside: make("outside", &outside.map(str::to_owned)),
            nodes: NODES.iter().enumerate().map(node).collect(),
            underlay: make("underlay", &[]),
            pods: Vec::new(),
            links: 0,
            prefix,
        };
        network.join();
        serve(&network.outside).await;
        for node in &network.nodes {
            serve(node).await;
        }
        network
    }

    /// All namespaces except pods.
    fn join(&self) {
        let mut lines = "link add br0 type bridge\nlink set br0 up\nlink set lo up\n".to_owned();
        for netns in self.hosts() {
            let (name, namespace) = (&netns.name, &netns.namespace);
            lines += &format!(
                "link add {name} type veth peer name eth0 netns {namespace}\n\
                 link set {name} master br0 up\n"
            );
        }
        self.underlay.ip(&lines);
        for netns in self.hosts() {
            let mut lines = "link set lo up\nlink set eth0 up\n".to_owned();
            for address in &netns.addresses {
                let (length, flag) = match address {
                    IpAddr::V4(_) => (24, ""),
                    IpAddr::V6(_) => (64, "nodad"),
                };
                lines += &format!("addr add {address}/{length} dev eth0 {flag}\n");
            }
            for subnet in UNDERLAY {
                lines += &format!("route replace {subnet} dev eth0\n");
            }
            lines += &self.routes_to_pods(netns);
            netns.ip(&lines);
        }
        for (index, node) in self.nodes.iter().enumerate() {
            self.make_router(index, node);
        }
    }

    fn hosts(&self) -> impl Iterator<Item = &Arc<NetworkNamespace>> {
        [&self.control, &self.outside]
            .into_iter()
            .chain(&self.nodes)
    }

    fn routes_to_pods(&self, netns: &NetworkNamespace) -> String {
        let others = self.nodes.iter().enumerate();
        let others = others.filter(|(_, node)| node.name != netns.name && netns.name != "control");
        let route = |(index, is_v4)| {
            let (subnet, via) = (pod_subnet(index, is_v4), node_address(index, is_v4));
            format!("route add {subnet} via {via}\n")
        };
        others
            .flat_map(|(index, _)| [(index, true), (index, false)])
            .map(route)
            .collect()
    }

    fn make_router(&self, index: usize, node: &NetworkNamespace) {
        node.set(&[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
        if self.link_type == PodLinkType::Bridged {
            node.set(&[
                ("bridge/bridge-nf-call-iptables", "1"),
                ("bridge/bridge-nf-call-ip6tables", "1"),
            ]);
            node.ip(&pod_links::bridge(index));
        }
    }

    /// Adds a pod to a node, with the host part of its addresses, which another pod may have had.
    pub(crate) async fn add_pod(
        &mut self,
        node: usize,
        name: &str,
        host: u32,
    ) -> Arc<NetworkNamespace> {
        self.links += 1;
        let link = format!("pod{}", self.links);
        let addresses = [true, false].map(|is_v4| pod_address(node, host, is_v4));
        let hidden = format!("{}-{}", self.links, name.replace('/', "-"));
        let mut pod = make_namespace(&self.prefix, &hidden, &addresses);
        pod.name = name.to_owned();
        let pod = Arc::new(pod);
        let namespace = &pod.namespace;
        let [v4, v6] = &addresses;
        self.nodes[node].ip(&format!(
            "link add {link} type veth peer name eth0 netns {namespace}\n{}",
            self.link_type.at_node(&link, v4, v6)
        ));
        pod.ip(&format!(
            "link set lo up\nlink set eth0 up\n{}",
            self.link_type.at_pod(node, v4, v6)
        ));
        serve(&pod).await;
        self.pods.push(pod.clone());
        pod
    }

    /// Removes the pod with its link, so that its addresses can be reused.
    pub(crate) fn remove_pod(&mut self, pod: &Arc<NetworkNamespace>) {
        pod.ip("link del eth0\n");
        pod.close();
        self.pods.retain(|other| !Arc::ptr_eq(other, pod));
        feed(
            "ip",
            &["-batch", "-"],
            &format!("netns del {}\n", pod.namespace),
        );
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        let mut lines = String::new();
        for netns in self.hosts().chain(&self.pods).chain([&self.underlay]) {
            netns.close();
            lines += &format!("netns del {}\n", netns.namespace);
        }
        // A failed test reports its own error.
        let _ = std::panic::catch_unwind(|| feed("ip", &["-force", "-batch", "-"], &lines));
    }
}

pub(crate) const CONTROL_ADDRESS: &str = "172.18.0.2";
const UNDERLAY: [&str; 4] = [
    "172.18.0.0/24",
    "203.0.113.0/24",
    "fd18::/64",
    "2001:db8::/64",
];
fn create_namespace(prefix: &str, name: &str, addresses: &[String]) -> Arc<NetworkNamespace> {
    Arc::new(make_namespace(prefix, name, addresses))
}

/// Creates a namespace in which new IPv6 addresses are usable immediately.
fn make_namespace(prefix: &str, name: &str, addresses: &[String]) -> NetworkNamespace {
    let namespace = format!("{prefix}-{name}");
    feed("ip", &["-batch", "-"], &format!("netns add {namespace}\n"));
    let parse = |text: &String| text.parse::<IpAddr>().expect("an address");
    let addresses: Vec<IpAddr> = addresses.iter().map(parse).collect();
    let netns = NetworkNamespace::new(name, &namespace, &addresses);
    netns.set(&[
        ("ipv6/conf/all/disable_ipv6", "0"),
        ("ipv6/conf/default/disable_ipv6", "0"),
        ("ipv6/conf/default/accept_dad", "0"),
    ]);
    netns
}
