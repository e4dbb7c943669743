//! Cost of the indexes of the crate `selection`, with the selectors and objects of its three users.

mod operations;
mod workloads;

use anyhow::{Result, ensure};

use crate::host_info;
use operations::OperationCosts;
use workloads::SelectionWorkload;

#[derive(clap::Args)]
pub(crate) struct SelectionBenchArguments {
    /// Of several rounds, the fastest counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub(crate) async fn run(arguments: SelectionBenchArguments) -> Result<()> {
    ensure!(arguments.rounds > 0, "--rounds must be at least 1");
    println!("{}", host_info::describe());
    println!("Nanoseconds per operation.");
    println!("| workload | index | insert | candidates | remove | candidates found |");
    println!("|---|---|---:|---:|---:|---:|");
    for workload in [
        workloads::watchers(),
        workloads::matchers(),
        workloads::policies(),
    ] {
        report(
            &workload,
            "selectors",
            arguments.rounds,
            operations::selector_index,
        );
        report(
            &workload,
            "postings",
            arguments.rounds,
            operations::posting_index,
        );
    }
    Ok(())
}

fn report(
    workload: &SelectionWorkload,
    index: &str,
    rounds: usize,
    measure: fn(&SelectionWorkload) -> OperationCosts,
) {
    let costs: Vec<OperationCosts> = (0..rounds).map(|_| measure(workload)).collect();
    let fastest =
        |cost: fn(&OperationCosts) -> f64| costs.iter().map(cost).fold(f64::INFINITY, f64::min);
    println!(
        "| {} | {index} | {:.0} | {:.0} | {:.0} | {} |",
        workload.name,
        fastest(|costs| costs.insert),
        fastest(|costs| costs.candidates),
        fastest(|costs| costs.remove),
        costs.first().map_or(0, |costs| costs.found),
    );
}
