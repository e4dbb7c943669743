//! Compares rhumb's scheduler with kube-scheduler on the scenarios in `interop/scheduling/`: `cargo xtask interop
//! scheduling`. Each scheduler has its own rhumb server. An argument selects scenarios whose names contain it.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use rhumb_interop::scheduling::{SchedulerCluster, read_scenarios, run_scenario};
use rhumb_interop::servers::{self, scheduler};

fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    match run_scenarios(&filter) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("scheduling: {failed} scenarios failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("scheduling: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_scenarios(filter: &str) -> Result<usize> {
    let mut scenarios = read_scenarios()?;
    scenarios.retain(|scenario| scenario.name.contains(filter));
    ensure!(
        !scenarios.is_empty(),
        "no scenario in interop/scheduling has {filter:?} in its name"
    );
    let (upstream_server, rhumb_server) = (servers::start("rhumb")?, servers::start("rhumb")?);
    let _schedulers = [
        scheduler::kube_scheduler(upstream_server.kubeconfig())?,
        scheduler::rhumb_scheduler(rhumb_server.kubeconfig())?,
    ];
    let upstream = SchedulerCluster {
        name: "upstream",
        client: upstream_server.client()?,
    };
    let rhumb = SchedulerCluster {
        name: "rhumb",
        client: rhumb_server.client()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut failed = 0;
    for scenario in &scenarios {
        let mismatches = runtime.block_on(run_scenario(scenario, &upstream, &rhumb));
        let mismatches = mismatches.with_context(|| format!("scenario {:?}", scenario.name))?;
        let mark = if mismatches.is_empty() {
            "ok  "
        } else {
            "DIFF"
        };
        println!("{mark} {}", scenario.name);
        for mismatch in &mismatches {
            println!("    {mismatch}");
        }
        failed += usize::from(!mismatches.is_empty());
    }
    println!("{} scenarios, {failed} failed", scenarios.len());
    Ok(failed)
}
