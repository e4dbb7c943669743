//! Network policies: time to compute the rules, time until a node's kernel enforces a change, cost per packet, time until a
//! policy is programmed, and cost of the heartbeats of idle nodes.

mod cluster;
mod compute;
mod heartbeats;
mod kernel_propagation;
mod network_namespace;
mod overlapping_policies;
mod packet_latency;
mod programmed_delay;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::host_info;
use crate::servers;
use crate::table::{MarkdownTable, OutputFormat, PerformanceTarget, targets};
use compute::{ClusterSize, ComputeResult, EngineView};
use heartbeats::HeartbeatResult;
use kernel_propagation::PropagationResult;
use overlapping_policies::OverlapResult;
use packet_latency::PacketLatency;
use programmed_delay::ProgrammedDelay;

/// Published time and memory of Antrea's controller for 75,000 policies and 100,000 pods.
const ANTREA_SECONDS: f64 = 6.0;
const ANTREA_MIB: f64 = 1_600e6 / 1_048_576.0;

#[derive(clap::Args)]
pub(crate) struct NetpolBenchArguments {
    /// Parts to measure; all but compute and heartbeats need root, nft and iproute2.
    #[arg(long, value_delimiter = ',', default_value = "compute,kernel,packets")]
    only: Vec<NetpolBenchPart>,
    /// Number of changes of each kind for the kernel part, and of policies for the programmed part.
    #[arg(long, default_value_t = 300)]
    rounds: usize,
    /// Numbers of policies on the node for the packet part.
    #[arg(long, value_delimiter = ',', default_value = "20,1000,10000")]
    policies: Vec<usize>,
    /// Number of idle nodes for the heartbeats part.
    #[arg(long, default_value_t = 5000)]
    nodes: usize,
    /// Duration of the heartbeats part, after every node has reported.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Output format.
    #[arg(short, long, default_value = "table")]
    output: OutputFormat,
    /// Only compute a cluster of this size, in this process.
    #[arg(long, hide = true)]
    compute: Option<ClusterSize>,
    #[arg(long, hide = true, default_value = "cluster")]
    view: EngineView,
    /// Only measure the kernel part, in this process and network namespace.
    #[arg(long, hide = true)]
    kernel_inside: bool,
    /// Only measure the programmed part, in this process and network namespace.
    #[arg(long, hide = true)]
    programmed_inside: bool,
    #[command(flatten)]
    servers: servers::ServerArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum NetpolBenchPart {
    Compute,
    Kernel,
    Packets,
    Programmed,
    Heartbeats,
}

#[derive(Default, Serialize)]
struct NetpolReport {
    medium: Option<ComputeResult>,
    medium_node: Option<ComputeResult>,
    large: Option<ComputeResult>,
    large_node: Option<ComputeResult>,
    crowd: Option<OverlapResult>,
    kernel: Option<PropagationResult>,
    packets: Vec<PacketLatency>,
    programmed: Option<ProgrammedDelay>,
    heartbeats: Option<HeartbeatResult>,
}

pub(crate) async fn run(arguments: NetpolBenchArguments) -> Result<()> {
    if let Some(size) = arguments.compute {
        return compute::run_here(size, arguments.view);
    }
    if arguments.kernel_inside {
        return kernel_propagation::run_here(&arguments.servers, arguments.rounds).await;
    }
    if arguments.programmed_inside {
        return programmed_delay::run_here(&arguments.servers, arguments.rounds).await;
    }
    let has = |part| arguments.only.contains(&part);
    let mut report = NetpolReport::default();
    if has(NetpolBenchPart::Compute) {
        eprintln!("computing ...");
        report.medium = Some(compute::run_apart(
            ClusterSize::Medium,
            EngineView::Cluster,
        )?);
        report.medium_node = Some(compute::run_apart(ClusterSize::Medium, EngineView::Node)?);
        report.large = Some(compute::run_apart(ClusterSize::Large, EngineView::Cluster)?);
        report.large_node = Some(compute::run_apart(ClusterSize::Large, EngineView::Node)?);
        report.crowd = Some(overlapping_policies::run()?);
    }
    if has(NetpolBenchPart::Kernel) {
        let rhumb = arguments.servers.rhumb_program()?;
        report.kernel = Some(kernel_propagation::run_apart(&rhumb, arguments.rounds)?);
    }
    if has(NetpolBenchPart::Packets) {
        report.packets = packet_latency::run(&arguments.policies)?;
    }
    if has(NetpolBenchPart::Programmed) {
        let rhumb = arguments.servers.rhumb_program()?;
        report.programmed = Some(programmed_delay::run_apart(&rhumb, arguments.rounds)?);
    }
    if has(NetpolBenchPart::Heartbeats) {
        let (nodes, seconds) = (arguments.nodes, arguments.seconds);
        let measured = heartbeats::run(&arguments.servers, nodes, seconds).await?;
        report.heartbeats = Some(measured);
    }
    print(arguments.output, &report);
    Ok(())
}

fn print(output: OutputFormat, report: &NetpolReport) {
    let wanted = wanted(report);
    match output {
        OutputFormat::Json => println!("{}", json!({"report": report, "targets": wanted})),
        OutputFormat::Table => {
            println!("{}\n", host_info::describe());
            if report.medium.is_some() {
                println!("{}", computed(report));
            }
            if let Some(crowd) = &report.crowd {
                println!("{}", crowded(crowd));
            }
            if let Some(reached) = &report.kernel {
                println!("{}", self::reached(reached));
            }
            if !report.packets.is_empty() {
                println!("{}", packet_latency::table(&report.packets));
            }
            if let Some(programmed) = &report.programmed {
                println!("{}", self::programmed(programmed));
            }
            if let Some(heartbeats) = &report.heartbeats {
                println!("{}", self::heartbeats(heartbeats));
            }
            if !wanted.is_empty() {
                println!("{}", targets(&wanted));
            }
        }
    }
}

fn computed(report: &NetpolReport) -> String {
    let mut table =
        MarkdownTable::new(&["view", "pods", "policies", "time", "peak memory", "found"]);
    for (what, computed) in [
        ("the cluster", &report.medium),
        ("one node of that cluster", &report.medium_node),
        ("a large cluster", &report.large),
        ("one node of that cluster", &report.large_node),
    ] {
        if let Some(it) = computed {
            table.row([
                what.into(),
                it.pods.to_string(),
                it.policies.to_string(),
                format!("{:.3} s", it.seconds),
                format!("{:.0} MiB", it.peak_mib),
                it.found.to_string(),
            ]);
        }
    }
    table.render()
}

/// Cost of a changed pod that all policies of its namespace select.
fn crowded(crowd: &OverlapResult) -> String {
    let mut table = MarkdownTable::new(&[
        "changed pod selected by all policies",
        "pods",
        "policies",
        "time",
    ]);
    for (what, time_us) in [
        ("its node has other selected pods", crowd.same_node_us),
        ("only selected pod of its node", crowd.other_node_us),
    ] {
        table.row([
            what.into(),
            crowd.pods.to_string(),
            crowd.policies.to_string(),
            format!("{:.3} ms", time_us / 1000.0),
        ]);
    }
    table.render()
}

fn reached(reached: &PropagationResult) -> String {
    let mut table = MarkdownTable::new(&["time until in the kernel", "p50", "p90", "p99", "max"]);
    for (what, times) in [
        ("pod on another node changes", reached.peer),
        ("pod on this node changes", reached.target),
        ("policy changes", reached.policy),
    ] {
        let cells = [times.p50_ms, times.p90_ms, times.p99_ms, times.max_ms];
        let cells = cells.map(|time| format!("{time:.1} ms"));
        table.row([what.to_owned()].into_iter().chain(cells));
    }
    format!(
        "{}\nCPU time of the agent per change, including its kernel time: {:.2} ms. Peak memory: {:.0} MiB.\n",
        table.render(),
        reached.agent_cpu_ms_a_change,
        reached.agent_peak_mib
    )
}

fn programmed(programmed: &ProgrammedDelay) -> String {
    let mut table = MarkdownTable::new(&["time until programmed", "p50", "p90", "p99", "max"]);
    let times = programmed.delay;
    let cells = [times.p50_ms, times.p90_ms, times.p99_ms, times.max_ms];
    let cells = cells.map(|time| format!("{time:.0} ms"));
    table.row(["new policy".to_owned()].into_iter().chain(cells));
    format!(
        "{}\nPending first: {} of {} policies.\n",
        table.render(),
        programmed.pending_first,
        programmed.policies
    )
}

fn heartbeats(measured: &HeartbeatResult) -> String {
    let mut table = MarkdownTable::new(&[
        "idle nodes",
        "writes/s",
        "write p50",
        "write p99",
        "server CPU",
        "server memory",
    ]);
    table.row([
        measured.nodes.to_string(),
        format!("{:.0}", measured.writes_per_second),
        format!("{:.1} ms", measured.write.p50_ms),
        format!("{:.1} ms", measured.write.p99_ms),
        format!("{:.2} cores", measured.server_cores),
        format!("{:.0} MiB", measured.server_mib),
    ]);
    table.render()
}

fn wanted(report: &NetpolReport) -> Vec<PerformanceTarget> {
    let mut wanted = Vec::new();
    let mut add = |what: &str, measured: f64, limit: f64| {
        wanted.push(PerformanceTarget {
            what: what.to_owned(),
            measured,
            wanted: limit,
        });
    };
    if let Some(medium) = &report.medium {
        add("3,000 pods and policies, of 1 s", medium.seconds, 1.0);
    }
    if let Some(large) = &report.large {
        let (time, memory) = (large.seconds / ANTREA_SECONDS, large.peak_mib / ANTREA_MIB);
        add("75,000 policies, of Antrea's time", time, 1.0 / 3.0);
        add("75,000 policies, of Antrea's memory", memory, 1.0 / 4.0);
    }
    if let Some(kernel) = &report.kernel {
        for (what, times) in [("elsewhere", kernel.peer), ("of the node", kernel.target)] {
            add(
                &format!("a pod {what}, p50, of 20 ms"),
                times.p50_ms / 20.0,
                1.0,
            );
            add(
                &format!("a pod {what}, p99, of 100 ms"),
                times.p99_ms / 100.0,
                1.0,
            );
        }
        add("a policy, p50, of 50 ms", kernel.policy.p50_ms / 50.0, 1.0);
    }
    if let (Some(few), Some(many)) = (report.packets.first(), report.packets.last()) {
        let ratio = many.round_trip_us / few.round_trip_us;
        add("a packet, most policies over fewest", ratio, 1.1);
    }
    if let Some(heartbeats) = &report.heartbeats {
        let ratio = heartbeats.writes_per_second / heartbeats.writes_per_second_max();
        add("writes of idle nodes, of one per interval", ratio, 1.0);
    }
    wanted
}
