//! Compares rhumb with kube-apiserver: `cargo xtask interop differential`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Parser};
use rhumb_interop::differential::case::{CaseFile, topics};
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
        which: CaseFilter,
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
        which: CaseFilter,
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
    match carry_out(DifferentialCommand::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("differential: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn carry_out(command: DifferentialCommand) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("differential");
    match command {
        DifferentialCommand::Serve { server } => {
            let server = servers::start(&server)?;
            println!("KUBECONFIG={}", server.kubeconfig().display());
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
            Ok(())
        }
        DifferentialCommand::Record {
            which,
            upstream,
            to,
        } => {
            let topics = topics(&folder.join("cases"), &which.topic)?;
            let to = to.unwrap_or_else(|| servers::target().join("interop/recorded"));
            let answers = run_cases(&upstream, &topics, &which.case).await?;
            recording::write(&to, &answers)?;
            println!(
                "recorded the answers to {} cases in {}",
                answers.len(),
                to.display()
            );
            Ok(())
        }
        DifferentialCommand::Compare {
            which,
            server,
            upstream,
            recorded,
            brief,
        } => {
            let topics = topics(&folder.join("cases"), &which.topic)?;
            let theirs = match recorded {
                Some(directory) => recording::read(&directory, &topics, &which.case)?,
                None => run_cases(&upstream, &topics, &which.case).await?,
            };
            let ours = run_cases(&server, &topics, &which.case).await?;
            // Between two kube-apiservers no differences are expected; the list is for rhumb.
            let expected = match server.as_str() {
                "kube-apiserver" => Vec::new(),
                _ => read(&folder.join("differences.yaml"))?,
            };
            let cases: Vec<&str> = theirs.keys().map(String::as_str).collect();
            let verdict = apply_expected(diff::compare(&theirs, &ours), &expected, &cases);
            report(&theirs, &verdict, brief);
            ensure!(
                verdict.unlisted.is_empty() && verdict.stale.is_empty(),
                "the servers differ"
            );
            Ok(())
        }
    }
}

async fn run_cases(server: &str, topics: &[CaseFile], filter: &str) -> Result<ResponsesByCase> {
    eprintln!("==> {server}");
    let server: Box<dyn TestServer> = servers::start(server)?;
    let say = |topic: &str| eprintln!("    {topic}");
    Ok(run_all_cases(&server.client()?, topics, filter, say).await)
}

#[derive(Default)]
struct TopicCounts {
    cases: usize,
    answers: usize,
    different: usize,
    differences: usize,
}

fn report(theirs: &ResponsesByCase, verdict: &ComparisonResult, brief: bool) {
    if !brief {
        show_differences(verdict);
    }
    for entry in &verdict.stale {
        println!(
            "listed, but no longer there: {} at {}",
            entry.case, entry.at
        );
    }
    let topic_of = |case: &str| case.split('/').next().unwrap_or_default().to_owned();
    let mut counts = BTreeMap::<String, TopicCounts>::new();
    for (case, answers) in theirs {
        let count = counts.entry(topic_of(case)).or_default();
        count.cases += 1;
        count.answers += answers.len();
    }
    let mut steps: Vec<_> = verdict
        .unlisted
        .iter()
        .map(|d| (&d.case, &d.step))
        .collect();
    steps.dedup();
    for (case, _) in steps {
        counts.entry(topic_of(case)).or_default().different += 1;
    }
    for difference in &verdict.unlisted {
        let count = counts.entry(topic_of(&difference.case)).or_default();
        count.differences += 1;
    }
    println!("\n{:24} cases answers  equal  fields that differ", "topic");
    for (topic, count) in counts {
        let equal = count.answers - count.different;
        let TopicCounts {
            cases,
            answers,
            differences,
            ..
        } = count;
        println!("{topic:24} {cases:5} {answers:7} {equal:6}  {differences}");
    }
    println!(
        "{} listed differences, {} unlisted, {} listed that are gone",
        verdict.listed_count,
        verdict.unlisted.len(),
        verdict.stale.len()
    );
}

fn show_differences(verdict: &ComparisonResult) {
    let (mut case, mut step) = ("", "");
    for difference in &verdict.unlisted {
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
