//! Compares compiled match conditions with exclusion rules on a real kube-apiserver: `cargo xtask interop admission`.
//! Arguments: the server (`kube-apiserver`, `rhumb` or a kubeconfig) and a seed.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use rhumb_interop::match_conditions::compare;
use rhumb_interop::servers;

const ROUNDS: usize = 25;
const WEBHOOKS_PER_ROUND: usize = 58;
/// At least this many pairs of a webhook and a request are compared.
const COMPARED_MIN: usize = 60_000;
const PRINTED_MAX: usize = 5;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("match conditions: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments
        .next()
        .unwrap_or_else(|| "kube-apiserver".to_owned());
    let seed = match arguments.next() {
        Some(seed) => seed
            .parse()
            .with_context(|| format!("the seed {seed:?} is not a number"))?,
        None => 1,
    };
    let server = servers::start(&server)?;
    let client = server.client()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let comparison = runtime.block_on(compare(&client, seed, ROUNDS, WEBHOOKS_PER_ROUND))?;
    println!(
        "{} pairs of webhooks and requests compared, {} called, {} excluded; {} differ; {} webhooks could not be compiled",
        comparison.compared,
        comparison.called,
        comparison.excluded,
        comparison.differences.len(),
        comparison.not_compilable
    );
    for difference in comparison.differences.iter().take(PRINTED_MAX) {
        println!("{difference}");
    }
    ensure!(
        comparison.differences.is_empty(),
        "the server called webhooks for other requests than rhumb would"
    );
    ensure!(
        comparison.compared >= COMPARED_MIN
            && comparison.called.min(comparison.excluded) > COMPARED_MIN / 20,
        "too few pairs were compared, called or excluded"
    );
    Ok(())
}
