//! Network policies: how fast it is known what they mean, how fast a node's kernel has it, and what packets pay.

mod cluster;
mod compute;
mod crowd;
mod inside;
mod kernel;
mod packets;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::machine;
use crate::servers;
use crate::table::{Output, Table, Target, targets};
use compute::{Computed, Size, View};
use crowd::Crowd;
use kernel::Reached;
use packets::Cost;

/// What others have published of 75,000 policies and 100,000 pods: Antrea's controller takes so long, and so much.
const ANTREA_SECONDS: f64 = 6.0;
const ANTREA_MIB: f64 = 1_600e6 / 1_048_576.0;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What is measured; all but compute needs root, nft and iproute2.
    #[arg(long, value_delimiter = ',', default_value = "compute,kernel,packets")]
    only: Vec<Part>,
    /// How many changes of each sort are sent to the kernel.
    #[arg(long, default_value_t = 300)]
    rounds: usize,
    /// With how many policies packets are sent.
    #[arg(long, value_delimiter = ',', default_value = "20,1000,10000")]
    policies: Vec<usize>,
    /// A table for people, or JSON.
    #[arg(short, long, default_value = "table")]
    output: Output,
    /// Only compute a cluster of this size, here.
    #[arg(long, hide = true)]
    compute: Option<Size>,
    #[arg(long, hide = true, default_value = "cluster")]
    view: View,
    /// Only measure changes, here.
    #[arg(long, hide = true)]
    kernel_inside: bool,
    #[command(flatten)]
    servers: servers::Choice,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Compute,
    Kernel,
    Packets,
}

#[derive(Default, Serialize)]
struct Report {
    medium: Option<Computed>,
    medium_node: Option<Computed>,
    large: Option<Computed>,
    large_node: Option<Computed>,
    crowd: Option<Crowd>,
    kernel: Option<Reached>,
    packets: Vec<Cost>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    if let Some(size) = arguments.compute {
        return compute::run_here(size, arguments.view);
    }
    if arguments.kernel_inside {
        return kernel::run_here(&arguments.servers, arguments.rounds).await;
    }
    let has = |part| arguments.only.contains(&part);
    let mut report = Report::default();
    if has(Part::Compute) {
        eprintln!("computing ...");
        report.medium = Some(compute::run_apart(Size::Medium, View::Cluster)?);
        report.medium_node = Some(compute::run_apart(Size::Medium, View::Node)?);
        report.large = Some(compute::run_apart(Size::Large, View::Cluster)?);
        report.large_node = Some(compute::run_apart(Size::Large, View::Node)?);
        report.crowd = Some(crowd::run()?);
    }
    if has(Part::Kernel) {
        let rhumb = arguments.servers.rhumb_program()?;
        report.kernel = Some(kernel::run_apart(&rhumb, arguments.rounds)?);
    }
    if has(Part::Packets) {
        report.packets = packets::run(&arguments.policies)?;
    }
    print(arguments.output, &report);
    Ok(())
}

fn print(output: Output, report: &Report) {
    let wanted = wanted(report);
    match output {
        Output::Json => println!("{}", json!({"report": report, "targets": wanted})),
        Output::Table => {
            println!("{}\n", machine::describe());
            println!("{}", computed(report));
            if let Some(crowd) = &report.crowd {
                println!("{}", crowded(crowd));
            }
            if let Some(reached) = &report.kernel {
                println!("{}", self::reached(reached));
            }
            if !report.packets.is_empty() {
                println!("{}", packets::table(&report.packets));
            }
            println!("{}", targets(&wanted));
        }
    }
}

fn computed(report: &Report) -> String {
    let mut table = Table::new(&[
        "what is computed",
        "pods",
        "policies",
        "time",
        "peak memory",
        "found",
    ]);
    for (what, computed) in [
        ("the cluster", &report.medium),
        ("one node of it", &report.medium_node),
        ("a large cluster", &report.large),
        ("one node of it", &report.large_node),
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

/// What a pod costs that all policies of its namespace select.
fn crowded(crowd: &Crowd) -> String {
    let mut table = Table::new(&["a pod of many changes", "pods", "policies", "time"]);
    for (what, time_us) in [
        ("on a node with others", crowd.same_node_us),
        ("alone on its node", crowd.other_node_us),
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

fn reached(reached: &Reached) -> String {
    let mut table = Table::new(&["until the kernel has it", "p50", "p90", "p99", "max"]);
    for (what, times) in [
        ("a pod elsewhere changes", reached.peer),
        ("a pod of the node changes", reached.target),
        ("a policy changes", reached.policy),
    ] {
        let cells = [times.p50_ms, times.p90_ms, times.p99_ms, times.max_ms];
        let cells = cells.map(|time| format!("{time:.1} ms"));
        table.row([what.to_owned()].into_iter().chain(cells));
    }
    format!(
        "{}\nThe agent's CPU a change, the kernel's work for it included: {:.2} ms. Its memory at most: {:.0} MiB.\n",
        table.render(),
        reached.agent_cpu_ms_a_change,
        reached.agent_peak_mib
    )
}

fn wanted(report: &Report) -> Vec<Target> {
    let mut wanted = Vec::new();
    let mut add = |what: &str, measured: f64, limit: f64| {
        wanted.push(Target {
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
    wanted
}
