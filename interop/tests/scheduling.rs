//! Compares rhumb's scheduler with kube-scheduler on the scenarios in `interop/scheduling/`: `cargo xtask interop
//! scheduling`. Each scheduler has its own rhumb server. An argument selects scenarios whose names contain it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use rhumb_interop::scheduling::{self, SchedulerCluster, SchedulingScenario, run_scenario};
use rhumb_interop::servers::{self, scheduler};

fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    match play_all(&filter) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("scheduling: {failed} scenarios went otherwise");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("scheduling: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn play_all(filter: &str) -> Result<usize> {
    let mut scenarios = scenarios()?;
    scenarios.retain(|scenario| scenario.scenario.contains(filter));
    ensure!(!scenarios.is_empty(), "no scenario is called {filter:?}");
    let (theirs, ours) = (servers::start("rhumb")?, servers::start("rhumb")?);
    let _schedulers = [
        scheduler::kube_scheduler(theirs.kubeconfig())?,
        scheduler::rhumb_scheduler(ours.kubeconfig())?,
    ];
    let upstream = SchedulerCluster {
        name: "upstream",
        client: theirs.client()?,
    };
    let ours = SchedulerCluster {
        name: "rhumb",
        client: ours.client()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut failed = 0;
    for scenario in &scenarios {
        let outcome = runtime.block_on(run_scenario(scenario, &upstream, &ours));
        let outcome = outcome.with_context(|| scenario.scenario.clone())?;
        let mark = if outcome.is_empty() { "ok  " } else { "DIFF" };
        println!("{mark} {}", scenario.scenario);
        for problem in &outcome {
            println!("    {problem}");
        }
        failed += usize::from(!outcome.is_empty());
    }
    println!("{} scenarios, {failed} differ", scenarios.len());
    Ok(failed)
}

fn scenarios() -> Result<Vec<SchedulingScenario>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scheduling");
    let files = std::fs::read_dir(&folder)?;
    let mut paths: Vec<PathBuf> = files
        .map(|file| Ok(file?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        all.extend(scheduling::read(&path)?);
    }
    Ok(all)
}
