//! What a packet pays for policies: the time of a round trip between two pods that policies are about, through a node that
//! has few policies and through nodes that have many.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rhumb_agent::nft::{Held, Marker, Table as Rules};
use rhumb_netpol::program::Program;
use rhumb_netpol::{Engine, Knowledge, Scope};
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::{Cluster, address4, namespace, node_name};
use super::inside::{NetworkNamespace, carry_out, join};
use crate::stats::median;
use crate::table::Table;

/// Each node has so many turns, so that whatever else the machine does is in all of them.
const TURNS: usize = 15;
const ROUND_TRIPS: usize = 3000;
const PORT: u16 = 7777;
const POLICIES_A_NAMESPACE: usize = 20;
/// A lost packet is an error: there is nothing here that could lose one.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
const GATEWAY: &str = "169.254.1.1";

#[derive(Serialize)]
pub(super) struct Cost {
    pub(super) policies: usize,
    pub(super) chains: usize,
    pub(super) elements: usize,
    pub(super) round_trip_us: f64,
}

pub(super) fn table(costs: &[Cost]) -> String {
    let mut table = Table::new(&[
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

pub(super) fn run(policies: &[usize]) -> Result<Vec<Cost>> {
    let mut nodes = Vec::new();
    for &policies in policies {
        eprintln!("a node with {policies} policies ...");
        nodes.push(Node::new(policies)?);
    }
    let mut times = vec![Vec::with_capacity(TURNS); nodes.len()];
    for _ in 0..TURNS {
        for (node, times) in nodes.iter().zip(&mut times) {
            times.push(node.round_trip_us()?);
        }
    }
    let costs = nodes.iter().zip(times).map(|(node, times)| Cost {
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

/// A node with two pods that can be spoken to; its other pods are only known to the rules.
struct Node {
    policies: usize,
    program: Program,
    caller: NetworkNamespace,
    echo: Option<Echo>,
    /// Kept for as long as packets pass.
    _places: [NetworkNamespace; 2],
}

impl Node {
    fn new(policies: usize) -> Result<Self> {
        let cluster = Cluster {
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
        let script = rules.whole(&program, &Held::default(), Marker::after(None));
        load(&node, &script.to_string())?;
        let echo = Some(Echo::start(&answerer, to)?);
        Ok(Self {
            policies: cluster.all_policies(),
            program,
            caller,
            echo,
            _places: [node, answerer],
        })
    }

    fn round_trip_us(&self) -> Result<f64> {
        let to = self.echo.as_ref().context("an echo")?.address;
        join(self.caller.thread(move || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.connect(to)?;
            let mut buffer = [0; 64];
            let begun = Instant::now();
            for _ in 0..ROUND_TRIPS {
                socket.send(&buffer)?;
                socket.recv(&mut buffer).context("a packet was lost")?;
            }
            Ok(begun.elapsed().as_secs_f64() * 1e6 / ROUND_TRIPS as f64)
        })?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(echo) = self.echo.take() {
            echo.stop.store(true, Ordering::Relaxed);
            let _ = join(echo.thread);
        }
    }
}

/// Sends back what it gets.
struct Echo {
    address: SocketAddrV4,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Echo {
    fn start(place: &NetworkNamespace, address: Ipv4Addr) -> Result<Self> {
        let address = SocketAddrV4::new(address, PORT);
        let stop = Arc::<AtomicBool>::default();
        let told = stop.clone();
        let thread = place.thread(move || {
            let socket = UdpSocket::bind(address)?;
            socket.set_read_timeout(Some(LOOK_INTERVAL))?;
            let mut buffer = [0; 64];
            while !told.load(Ordering::Relaxed) {
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

/// A pod with one address, reached by a route.
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
    let mut input = nft.stdin.take().context("a pipe")?;
    input.write_all(script.as_bytes())?;
    drop(input);
    ensure!(nft.wait()?.success(), "nft refused the rules");
    Ok(())
}

/// The rules of the one node that all pods are on.
fn program(cluster: &Cluster) -> Result<Program> {
    let mut engine = Engine::new(Scope::Node(node_name(0)), Knowledge::all());
    for it in cluster.namespaces() {
        engine.set_namespace(&serde_json::from_value(it)?);
    }
    for it in cluster.policies().chain([everybody()]) {
        engine.set_policy(&serde_json::from_value(it)?);
    }
    for it in cluster.pods() {
        engine.set_pod(&serde_json::from_value(it)?);
    }
    drop(engine.take_changes());
    Ok(engine.program().clone())
}

/// Lets the two pods speak, after all other policies about them were asked.
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
