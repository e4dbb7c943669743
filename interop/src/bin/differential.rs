//! Compares rhumb with kube-apiserver: `cargo xtask interop differential`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Parser};
use rhumb_interop::differential::case::{CaseFile, read_topics};
use rhumb_interop::differential::case_runner::run_all_cases;
use rhumb_interop::differential::expected_differences::{ComparisonResult, apply_expected, read};
use rhumb_interop::differential::{ResponsesByCase, diff, recording};
use rhumb_interop::servers::{self, TestServer};

/// Send the same requests to two servers and compare the responses.
#[derive(Parser)]
enum DifferentialCommand {
    /// Run the cases on kube-apiserver and record its responses.
    Record {
        #[command(flatten)]
        filter: CaseFilter,
        /// `kube-apiserver`, or the kubeconfig of a running one.
        #[arg(long, default_value = "kube-apiserver")]
        upstream: String,
        /// Output directory of the recording [default: in the build directory].
        #[arg(long)]
        to: Option<PathBuf>,
    },
    /// Start a server for manual tests, until standard input ends.
    Serve {
        #[arg(default_value = "kube-apiserver")]
        server: String,
    },
    /// Run the cases on rhumb and compare the responses with those of kube-apiserver.
    Compare {
        #[command(flatten)]
        filter: CaseFilter,
        /// `rhumb`, `kube-apiserver`, or the kubeconfig of a running server.
        #[arg(long, default_value = "rhumb")]
        server: String,
        /// `kube-apiserver`, or the kubeconfig of a running one.
        #[arg(long, default_value = "kube-apiserver")]
        upstream: String,
        /// Directory with a recording; kube-apiserver is not started.
        #[arg(long)]
        recorded: Option<PathBuf>,
        /// Print only the summary.
        #[arg(long)]
        brief: bool,
    },
}

#[derive(Args)]
struct CaseFilter {
    /// Run only these topics, such as `pods`; repeatable.
    #[arg(long)]
    topic: Vec<String>,
    /// Run only cases whose names contain this.
    #[arg(long, default_value = "")]
    case: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(DifferentialCommand::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("differential: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: DifferentialCommand) -> Result<()> {
    match command {
        DifferentialCommand::Serve { server } => {
            let server = servers::start(&server)?;
            println!("KUBECONFIG={}", server.kubeconfig().display());
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
            Ok(())
        }
        DifferentialCommand::Record {
            filter,
            upstream,
            to,
        } => {
            let topics = read_topics(&filter.topic)?;
            let to = to.unwrap_or_else(|| servers::target().join("interop/recorded"));
            let responses = run_cases(&upstream, &topics, &filter.case).await?;
            recording::write(&to, &responses)?;
            println!(
                "recorded the responses to {} cases in {}",
                responses.len(),
                to.display()
            );
            Ok(())
        }
        DifferentialCommand::Compare {
            filter,
            server,
            upstream,
            recorded,
            brief,
        } => {
            let topics = read_topics(&filter.topic)?;
            let theirs = match recorded {
                Some(directory) => recording::read(&directory, &topics, &filter.case)?,
                None => run_cases(&upstream, &topics, &filter.case).await?,
            };
            let ours = run_cases(&server, &topics, &filter.case).await?;
            // Between two kube-apiservers no differences are expected; the list is for rhumb.
            let expected = match server.as_str() {
                "kube-apiserver" => Vec::new(),
                _ => read()?,
            };
            let cases: Vec<&str> = theirs.keys().map(String::as_str).collect();
            let result = apply_expected(diff::compare(&theirs, &ours), &expected, &cases);
            report(&theirs, &result, brief);
            ensure!(
                result.unlisted.is_empty() && result.stale.is_empty(),
                "{} unlisted differences and {} stale entries of differences.yaml: fix the server or edit the list",
                result.unlisted.len(),
                result.stale.len()
            );
            Ok(())
        }
    }
}

async fn run_cases(server: &str, topics: &[CaseFile], filter: &str) -> Result<ResponsesByCase> {
    eprintln!("==> {server}");
    let server: Box<dyn TestServer> = servers::start(server)?;
    let report = |topic: &str| eprintln!("    {topic}");
    Ok(run_all_cases(&server.client()?, topics, filter, report).await)
}

#[derive(Default)]
struct TopicCounts {
    cases: usize,
    responses: usize,
    different: usize,
    differences: usize,
}

fn report(theirs: &ResponsesByCase, result: &ComparisonResult, brief: bool) {
    if !brief {
        show_differences(result);
    }
    for entry in &result.stale {
        println!(
            "stale entry of differences.yaml: {} at {}",
            entry.case, entry.location
        );
    }
    let topic_of = |case: &str| case.split('/').next().unwrap_or_default().to_owned();
    let mut counts = BTreeMap::<String, TopicCounts>::new();
    for (case, responses) in theirs {
        let count = counts.entry(topic_of(case)).or_default();
        count.cases += 1;
        count.responses += responses.len();
    }
    let mut steps: Vec<_> = result.unlisted.iter().map(|d| (&d.case, &d.step)).collect();
    steps.dedup();
    for (case, _) in steps {
        counts.entry(topic_of(case)).or_default().different += 1;
    }
    for difference in &result.unlisted {
        let count = counts.entry(topic_of(&difference.case)).or_default();
        count.differences += 1;
    }
    println!("\n{:24} cases responses  equal  different fields", "topic");
    for (topic, count) in counts {
        let equal = count.responses - count.different;
        let TopicCounts {
            cases,
            responses,
            differences,
            ..
        } = count;
        println!("{topic:24} {cases:5} {responses:9} {equal:6}  {differences}");
    }
    println!(
        "{} listed differences, {} unlisted differences, {} stale entries",
        result.listed_count,
        result.unlisted.len(),
        result.stale.len()
    );
}

fn show_differences(result: &ComparisonResult) {
    let (mut case, mut step) = ("", "");
    for difference in &result.unlisted {
        if difference.case != case {
            case = &difference.case;
            step = "";
            println!("\n{case}");
        }
        if difference.step != step {
            step = &difference.step;
            println!("  {step}");
        }
        println!("{difference}");
    }
}
