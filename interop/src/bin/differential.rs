//! Compares rhumb with a real kube-apiserver: `cargo xtask interop differential`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Parser};
use rhumb_interop::differential::case::{Topic, topics};
use rhumb_interop::differential::expected::{Verdict, judge, read};
use rhumb_interop::differential::play::play_all;
use rhumb_interop::differential::{Answers, diff, recording};
use rhumb_interop::servers::{self, Server};

/// The same requests to two servers, and every answer compared.
#[derive(Parser)]
enum Command {
    /// Play the cases on a real server, and keep its answers.
    Record {
        #[command(flatten)]
        which: Which,
        /// `kube-apiserver`, or the kubeconfig of one that runs.
        #[arg(long, default_value = "kube-apiserver")]
        upstream: String,
        /// Where the answers go; by default into the build directory.
        #[arg(long)]
        to: Option<PathBuf>,
    },
    /// Start a server to try things on, until the input ends.
    Serve {
        #[arg(default_value = "kube-apiserver")]
        server: String,
    },
    /// Play the cases on rhumb, and compare the answers with those of a real server.
    Compare {
        #[command(flatten)]
        which: Which,
        /// `rhumb`, `kube-apiserver`, or the kubeconfig of a server that runs.
        #[arg(long, default_value = "rhumb")]
        server: String,
        /// `kube-apiserver`, or the kubeconfig of one that runs.
        #[arg(long, default_value = "kube-apiserver")]
        upstream: String,
        /// A directory with recorded answers: no real server is started.
        #[arg(long)]
        recorded: Option<PathBuf>,
        /// Show only the summary.
        #[arg(long)]
        brief: bool,
    },
}

#[derive(Args)]
struct Which {
    /// Only these topics, such as `pods`; may be given again.
    #[arg(long)]
    topic: Vec<String>,
    /// Only cases whose names contain this.
    #[arg(long, default_value = "")]
    case: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    match carry_out(Command::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("differential: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn carry_out(command: Command) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("differential");
    match command {
        Command::Serve { server } => {
            let server = servers::start(&server)?;
            println!("KUBECONFIG={}", server.kubeconfig().display());
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
            Ok(())
        }
        Command::Record {
            which,
            upstream,
            to,
        } => {
            let topics = topics(&folder.join("cases"), &which.topic)?;
            let to = to.unwrap_or_else(|| servers::target().join("interop/recorded"));
            let answers = play(&upstream, &topics, &which.case).await?;
            recording::write(&to, &answers)?;
            println!(
                "recorded the answers to {} cases in {}",
                answers.len(),
                to.display()
            );
            Ok(())
        }
        Command::Compare {
            which,
            server,
            upstream,
            recorded,
            brief,
        } => {
            let topics = topics(&folder.join("cases"), &which.topic)?;
            let theirs = match recorded {
                Some(directory) => recording::read(&directory, &topics, &which.case)?,
                None => play(&upstream, &topics, &which.case).await?,
            };
            let ours = play(&server, &topics, &which.case).await?;
            // Two real servers differ in nothing, whatever is listed for rhumb.
            let expected = match server.as_str() {
                "kube-apiserver" => Vec::new(),
                _ => read(&folder.join("differences.yaml"))?,
            };
            let cases: Vec<&str> = theirs.keys().map(String::as_str).collect();
            let verdict = judge(diff::compare(&theirs, &ours), &expected, &cases);
            report(&theirs, &verdict, brief);
            ensure!(
                verdict.unlisted.is_empty() && verdict.gone.is_empty(),
                "the servers differ"
            );
            Ok(())
        }
    }
}

async fn play(server: &str, topics: &[Topic], filter: &str) -> Result<Answers> {
    eprintln!("==> {server}");
    let server: Box<dyn Server> = servers::start(server)?;
    let say = |topic: &str| eprintln!("    {topic}");
    Ok(play_all(&server.client()?, topics, filter, say).await)
}

#[derive(Default)]
struct Count {
    cases: usize,
    answers: usize,
    different: usize,
    differences: usize,
}

fn report(theirs: &Answers, verdict: &Verdict, brief: bool) {
    if !brief {
        show_differences(verdict);
    }
    for entry in &verdict.gone {
        println!(
            "listed, but no longer there: {} at {}",
            entry.case, entry.at
        );
    }
    let topic_of = |case: &str| case.split('/').next().unwrap_or_default().to_owned();
    let mut counts = BTreeMap::<String, Count>::new();
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
        let Count {
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
        verdict.gone.len()
    );
}

fn show_differences(verdict: &Verdict) {
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
