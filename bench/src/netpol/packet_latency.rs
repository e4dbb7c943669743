//! Cost of policies per packet: round-trip time between two pods that policies select, on nodes with few and with
//! many policies.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rhumb_agent::nft::{NftTable as Rules, PodCidrRanges, TableMarker};
use rhumb_netpol::ruleset::NodeRuleset;
use rhumb_netpol::{EngineScope, PluginCapabilities, PolicyEngine};
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::{SyntheticCluster, address4, namespace, node_name};
use super::network_namespace::{NetworkNamespace, carry_out, join};
use crate::stats::median;
use crate::table::MarkdownTable;

/// Rounds alternate between the nodes, so that background load affects all of them.
const ROUNDS: usize = 15;
const ROUND_TRIPS: usize = 3000;
const PORT: u16 = 7777;
const POLICIES_A_NAMESPACE: usize = 20;
/// A lost packet is an error: a local path should lose none.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
const GATEWAY: &str = "169.254.1.1";

#[derive(Serialize)]
pub(super) struct PacketLatency {
    pub(super) policies: usize,
    pub(super) chains: usize,
    pub(super) elements: usize,
    pub(super) round_trip_us: f64,
}

pub(super) fn table(costs: &[PacketLatency]) -> String {
    let mut table = MarkdownTable::new(&[
        "policies on the node",
        "chains",
        "elements of sets",
        "round trip",
    ]);
    for cost in costs {
        table.row([
            cost.policies.to_string(),
            cost.chains.to_string(),
            cost.elements.to_string(),
            format!("{:.1} µs", cost.round_trip_us),
        ]);
    }
    table.render()
}

pub(super) fn run(policies: &[usize]) -> Result<Vec<PacketLatency>> {
    let mut nodes = Vec::new();
    for &policies in policies {
        eprintln!("a node with {policies} policies ...");
        nodes.push(TestNode::new(policies)?);
    }
    let mut times = vec![Vec::with_capacity(ROUNDS); nodes.len()];
    for _ in 0..ROUNDS {
        for (node, times) in nodes.iter().zip(&mut times) {
            times.push(node.round_trip_us()?);
        }
    }
    let costs = nodes.iter().zip(times).map(|(node, times)| PacketLatency {
        policies: node.policies,
        chains: node.program.chains.len(),
        elements: node
            .program
            .sets
            .values()
            .map(|set| set.elements.len())
            .sum(),
        round_trip_us: median(times),
    });
    Ok(costs.collect())
}

/// Node with two reachable pods; its other pods exist only in the rules.
struct TestNode {
    policies: usize,
    program: NodeRuleset,
    caller: NetworkNamespace,
    echo: Option<UdpEchoServer>,
    /// Kept alive for the duration of the measurement.
    _places: [NetworkNamespace; 2],
}

impl TestNode {
    fn new(policies: usize) -> Result<Self> {
        let cluster = SyntheticCluster {
            namespaces: (policies / POLICIES_A_NAMESPACE).max(1),
            pods: 10,
            policies: POLICIES_A_NAMESPACE.min(policies),
            pods_a_node: usize::MAX,
        };
        let (from, to) = (address4(0), address4(cluster.namespaces));
        let program = program(&cluster)?;
        let node = NetworkNamespace::new(&format!("node-{policies}"))?;
        let caller = NetworkNamespace::new(&format!("from-{policies}"))?;
        let answerer = NetworkNamespace::new(&format!("to-{policies}"))?;
        carry_out(
            node.command("sysctl")
                .args(["-qw", "net.ipv4.ip_forward=1"]),
        )?;
        join_pod(&node, &caller, "from", from)?;
        join_pod(&node, &answerer, "to", to)?;
        let rules = Rules::new("rhumb")?;
        let script = rules.replacement_script(
            &program,
            &PodCidrRanges::default(),
            TableMarker::next_after(None),
        );
        load(&node, &script.to_string())?;
        let echo = Some(UdpEchoServer::start(&answerer, to)?);
        Ok(Self {
            policies: cluster.all_policies(),
            program,
            caller,
            echo,
            _places: [node, answerer],
        })
    }

    fn round_trip_us(&self) -> Result<f64> {
        let to = self
            .echo
            .as_ref()
            .context("the echo server is stopped")?
            .address;
        join(self.caller.thread(move || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
            socket.connect(to)?;
            let mut buffer = [0; 64];
            let started = Instant::now();
            for _ in 0..ROUND_TRIPS {
                socket.send(&buffer)?;
                socket.recv(&mut buffer).context("a packet was lost")?;
            }
            Ok(started.elapsed().as_secs_f64() * 1e6 / ROUND_TRIPS as f64)
        })?)
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        if let Some(echo) = self.echo.take() {
            echo.stop.store(true, Ordering::Relaxed);
            let _ = join(echo.thread);
        }
    }
}

/// UDP echo server in a network namespace.
struct UdpEchoServer {
    address: SocketAddrV4,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl UdpEchoServer {
    fn start(place: &NetworkNamespace, address: Ipv4Addr) -> Result<Self> {
        let address = SocketAddrV4::new(address, PORT);
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let thread = place.thread(move || {
            let socket = UdpSocket::bind(address)?;
            socket.set_read_timeout(Some(LOOK_INTERVAL))?;
            let mut buffer = [0; 64];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    socket.send_to(&buffer[..length], from)?;
                }
            }
            Ok(())
        })?;
        Ok(Self {
            address,
            stop,
            thread,
        })
    }
}

/// Connects a pod to the node by a veth pair and a host route.
fn join_pod(
    node: &NetworkNamespace,
    pod: &NetworkNamespace,
    name: &str,
    address: Ipv4Addr,
) -> Result<()> {
    node.ip(&format!(
        "link add {name} type veth peer name eth0 netns {}",
        pod.name()
    ))?;
    node.ip(&format!("addr add {GATEWAY}/32 dev {name}"))?;
    node.ip(&format!("link set {name} up"))?;
    node.ip(&format!("route add {address}/32 dev {name}"))?;
    pod.ip(&format!("addr add {address}/32 dev eth0"))?;
    pod.ip("link set eth0 up")?;
    pod.ip(&format!("route add {GATEWAY} dev eth0 scope link"))?;
    pod.ip(&format!("route add default via {GATEWAY}"))
}

fn load(node: &NetworkNamespace, script: &str) -> Result<()> {
    let mut nft = node
        .command("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()?;
    let mut input = nft
        .stdin
        .take()
        .context("standard input of nft is not piped")?;
    input.write_all(script.as_bytes())?;
    drop(input);
    ensure!(nft.wait()?.success(), "nft rejected the rules");
    Ok(())
}

/// Computes the rules of the single node that has all pods.
fn program(cluster: &SyntheticCluster) -> Result<NodeRuleset> {
    let mut engine = PolicyEngine::new(EngineScope::Node(node_name(0)), PluginCapabilities::all());
    for it in cluster.namespaces() {
        engine.set_namespace(&serde_json::from_value(it)?);
    }
    for it in cluster.policies().chain([everybody()]) {
        engine.set_policy(&serde_json::from_value(it)?);
    }
    for it in cluster.pods() {
        engine.set_pod(&serde_json::from_value(it)?);
    }
    drop(engine.take_ruleset_delta());
    Ok(engine.ruleset().clone())
}

/// Policy that allows the echo traffic; its name sorts last, so that all other policies are evaluated first.
fn everybody() -> Value {
    let ports = json!([{"protocol": "UDP", "port": PORT}]);
    json!({
        "metadata": {"namespace": namespace(0), "name": "zz-everybody", "uid": "last", "generation": 1},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": {}}], "ports": ports}],
            "egress": [{"to": [{"podSelector": {}}], "ports": ports}],
        },
    })
}
