//! One server, one number of watchers, and all that is measured of them.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde::Serialize;

use super::Arguments;
use super::churn;
use super::event::Kind;
use super::history::{self, History};
use super::load::{self, Deliveries};
use super::watchers::{self, Watchers};
use crate::client::Connection;
use crate::pods;
use crate::servers::{self, Program, Server, Usage};
use crate::stats::Percentiles;

/// Pods that are created before anything is measured: a server's first requests are like no others.
const WARM_UP_PODS: usize = 200;

/// When no event has come for so long, none is expected any more.
const PATIENCE: Duration = Duration::from_secs(20);

/// More problems than this say nothing new.
const PROBLEMS_MAX: usize = 10;

/// Faster than any server: the writers alone set the pace.
const AS_MANY_AS_IT_TAKES: f64 = 1e6;

#[derive(Serialize)]
pub(super) struct Round {
    pub(super) server: String,
    pub(super) is_peer: bool,
    pub(super) watchers: usize,
    /// At the rate that was asked for.
    pub(super) paced: Load,
    /// As many as the server takes.
    pub(super) busy: Option<Load>,
    /// The lag beside watchers that do not read.
    pub(super) stalled: Option<Percentiles>,
    pub(super) bytes_per_watcher: f64,
    pub(super) problems: Vec<String>,
}

/// What a load came to.
#[derive(Serialize, Default)]
pub(super) struct Load {
    /// Pods that were created or, with churn, changes that were made.
    pub(super) changes: usize,
    pub(super) per_second: f64,
    /// Events that watchers were told.
    pub(super) events: usize,
    /// How often the server ended a watch, and its watcher went on where it was.
    pub(super) resumed: usize,
    /// With churn: how often a watcher was told how far it is.
    pub(super) bookmarks: usize,
    pub(super) deliveries: Option<Deliveries>,
    pub(super) cpu_us_per_change: f64,
    pub(super) generator_cpu_us_per_change: f64,
}

impl Load {
    fn spent(&mut self, before: Cpu, after: Cpu) {
        let per_change = |before: Duration, after: Duration| {
            after.saturating_sub(before).as_secs_f64() * 1e6 / self.changes as f64
        };
        self.cpu_us_per_change = per_change(before.server, after.server);
        self.generator_cpu_us_per_change = per_change(before.generator, after.generator);
    }
}

impl Round {
    pub(super) async fn run(
        arguments: &Arguments,
        program: &Program,
        watchers: usize,
    ) -> Result<Self> {
        let server = Server::start(program).await?;
        let stage = Stage::set(arguments, &server, watchers).await?;
        let mut round = Self {
            server: program.to_string(),
            is_peer: matches!(program, Program::Kubernetes(_)),
            watchers,
            paced: Load::default(),
            busy: None,
            stalled: None,
            bytes_per_watcher: stage.bytes_per_watcher,
            problems: Vec::new(),
        };
        if arguments.churn {
            round.paced = round.churn(&stage).await?;
        } else {
            round.create_all(&stage).await?;
        }
        // A server that keeps up ends no watch.
        let resumed = stage.watchers.resumed();
        let anew = (resumed > 0).then(|| format!("watches were begun anew {resumed} times"));
        round.note(anew);
        Ok(round)
    }

    /// Creates pods in all the ways that were asked for.
    async fn create_all(&mut self, stage: &Stage<'_>) -> Result<()> {
        let arguments = stage.arguments;
        let first = stage.first_pod + WARM_UP_PODS;
        let paced = first..first + arguments.pods;
        let beside = paced.end..paced.end + 2 * arguments.pods;
        let busy = beside.end..beside.end + arguments.busy_pods;
        self.paced = self.create(stage, paced, arguments.rate).await?;
        let fewest = arguments.watchers.iter().min() == Some(&self.watchers);
        if fewest && arguments.stalled > 0 {
            self.create_beside_stalled(stage, beside).await?;
        }
        if !busy.is_empty() {
            eprintln!("  and as many as it takes");
            self.busy = Some(self.create(stage, busy, AS_MANY_AS_IT_TAKES).await?);
        }
        Ok(())
    }

    async fn create(&mut self, stage: &Stage<'_>, pods: Range<usize>, rate: f64) -> Result<Load> {
        let (changes, resumed) = (pods.len(), stage.watchers.resumed());
        let before = Cpu::now(stage.server)?;
        let (deliveries, per_second) = self.create_at(stage, pods, rate).await?;
        let mut load = Load {
            changes,
            per_second,
            resumed: stage.watchers.resumed() - resumed,
            events: deliveries.delivered,
            deliveries: Some(deliveries),
            ..Load::default()
        };
        load.spent(before, Cpu::now(stage.server)?);
        Ok(load)
    }

    async fn create_beside_stalled(&mut self, stage: &Stage<'_>, pods: Range<usize>) -> Result<()> {
        let (endpoint, arguments) = (&stage.server.endpoint, stage.arguments);
        eprintln!("  and {} that do not read", arguments.stalled);
        let (version, http) = (stage.version().await?, arguments.http);
        let stalled = watchers::open_stalled(endpoint, arguments.stalled, &version, http).await?;
        // The first load fills the buffers that stand between the server and who does not read.
        let middle = pods.start + pods.len() / 2;
        let rate = arguments.rate;
        self.create_at(stage, pods.start..middle, rate).await?;
        let (deliveries, _) = self.create_at(stage, middle..pods.end, rate).await?;
        drop(stalled);
        self.stalled = Some(deliveries.lag);
        Ok(())
    }

    /// What came of them, and how many a second were sent.
    async fn create_at(
        &mut self,
        stage: &Stage<'_>,
        pods: Range<usize>,
        rate: f64,
    ) -> Result<(Deliveries, f64)> {
        let told = stage.watchers.events();
        let created = load::create(&stage.server.endpoint, pods, self.watchers, rate).await?;
        stage.wait_for(told + created.len()).await;
        let streams = stage.watchers.streams();
        let deliveries = Deliveries::count(&created, &streams);
        for (watcher, stream) in streams.iter().enumerate() {
            let end = stream.end.iter();
            self.note(end.map(|end| format!("the watch of watcher {watcher} ended: {end}")));
        }
        if !deliveries.all_right() {
            let Deliveries {
                missed,
                wrong,
                repeated,
                ..
            } = deliveries;
            self.note([format!(
                "{missed} missed, {wrong} wrong, {repeated} repeated"
            )]);
        }
        Ok((deliveries, load::sent_per_second(&created)))
    }

    async fn churn(&mut self, stage: &Stage<'_>) -> Result<Load> {
        let before = Cpu::now(stage.server)?;
        let Stage {
            server, arguments, ..
        } = stage;
        let (endpoint, apps) = (&server.endpoint, self.watchers);
        let everything = Watchers::open_one_of_all(endpoint, &stage.since, arguments.http).await?;
        let first = stage.first_pod + WARM_UP_PODS;
        let begun = std::time::Instant::now();
        let changes = churn::run(endpoint, first, arguments.pods, apps, arguments.rate).await?;
        let mut load = Load {
            changes: arguments.pods,
            per_second: changes.len() as f64 / begun.elapsed().as_secs_f64(),
            ..Load::default()
        };
        everything.wait_for(changes.len(), PATIENCE).await;
        everything.wait_until_quiet().await;
        let streams = everything.streams();
        let history = History::of(streams.first().context("no watcher of everything")?);
        let due = history.due(apps);
        stage.wait_for(due.iter().map(Vec::len).sum()).await;
        load.spent(before, Cpu::now(server)?);
        // What is not due may still be on its way.
        stage.watchers.wait_until_quiet().await;
        load.events = stage.watchers.events();
        self.note(history.problems(&changes));
        let streams = stage.watchers.streams();
        let lines = streams.iter().flat_map(|stream| &stream.seen);
        load.bookmarks = lines.filter(|seen| seen.kind == Kind::Bookmark).count();
        let pairs = streams.iter().zip(&due).enumerate();
        self.note(pairs.filter_map(|(app, (stream, due))| history::check(app, stream, due)));
        Ok(load)
    }

    fn note(&mut self, problems: impl IntoIterator<Item = String>) {
        let room = PROBLEMS_MAX - self.problems.len();
        self.problems.extend(problems.into_iter().take(room));
    }

    pub(super) fn loads(&self) -> impl Iterator<Item = &Load> {
        [&self.paced].into_iter().chain(&self.busy)
    }

    /// The load that tells what a pod costs where CPU time is scarce.
    pub(super) fn hardest(&self) -> &Load {
        self.busy.as_ref().unwrap_or(&self.paced)
    }

    /// A peer that errs is worth a line, not a failure.
    pub(super) fn is_wrong(&self) -> bool {
        !self.is_peer && !self.problems.is_empty()
    }
}

impl fmt::Display for Round {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, watchers) = (&self.server, self.watchers);
        write!(formatter, "{server}, {watchers} watchers: ")?;
        for load in self.loads() {
            let (changes, events) = (load.changes, load.events);
            let (per_second, cpu) = (load.per_second, load.cpu_us_per_change);
            write!(
                formatter,
                "{changes} changes, {per_second:.0}/s, {events} events, {cpu:.0} µs CPU each; "
            )?;
        }
        write!(
            formatter,
            "{:.1} KB a watcher",
            self.bytes_per_watcher / 1e3
        )
    }
}

#[derive(Clone, Copy)]
struct Cpu {
    server: Duration,
    generator: Duration,
}

impl Cpu {
    fn now(server: &Server<'_>) -> Result<Self> {
        Ok(Self {
            server: server.usage()?.cpu,
            generator: servers::own_usage()?.cpu,
        })
    }
}

/// A server with its watchers, ready for a load.
struct Stage<'a> {
    arguments: &'a Arguments,
    server: &'a Server<'a>,
    watchers: Watchers,
    bytes_per_watcher: f64,
    first_pod: usize,
    /// The version that the watchers began at.
    since: String,
}

impl<'a> Stage<'a> {
    async fn set(
        arguments: &'a Arguments,
        server: &'a Server<'a>,
        watchers: usize,
    ) -> Result<Self> {
        let endpoint = &server.endpoint;
        let settle = Duration::from_secs(arguments.settle_seconds);
        pods::create_namespaces(&mut endpoint.connect().await?).await?;
        let first_pod = first_pod(arguments)?;
        let warm_up = first_pod..first_pod + WARM_UP_PODS;
        load::create(endpoint, warm_up, watchers, arguments.rate).await?;
        tokio::time::sleep(settle).await;
        let since = version(&mut endpoint.connect().await?).await?;
        let before: Usage = server.usage()?;
        let opened = Watchers::open(endpoint, watchers, &since, arguments.http).await?;
        tokio::time::sleep(settle).await;
        let grown = server.usage()?.resident_bytes as f64 - before.resident_bytes as f64;
        Ok(Self {
            arguments,
            server,
            watchers: opened,
            bytes_per_watcher: grown / watchers as f64,
            first_pod,
            since,
        })
    }

    async fn version(&self) -> Result<String> {
        version(&mut self.server.endpoint.connect().await?).await
    }

    async fn wait_for(&self, events: usize) {
        if !self.watchers.wait_for(events, PATIENCE).await {
            let (came, seconds) = (self.watchers.events(), PATIENCE.as_secs());
            eprintln!("  {came} of {events} events came, and none for {seconds} s");
        }
    }
}

/// Which version the pods are at.
async fn version(connection: &mut Connection) -> Result<String> {
    let list = connection.ask(Method::GET, "/api/v1/pods?limit=1", Bytes::new());
    let list: serde_json::Value = serde_json::from_slice(&list.await?)?;
    let version = list["metadata"]["resourceVersion"].as_str();
    Ok(version.context("a list without a version")?.to_owned())
}

/// A running server may have pods of an earlier run, and theirs are other names.
fn first_pod(arguments: &Arguments) -> Result<usize> {
    /// More pods than one run creates.
    const PODS_A_RUN: u64 = 100_000;
    /// As many as the numbers of pods have room for.
    const RUNS: u64 = 40_000;
    if arguments.running.server.is_none() {
        return Ok(0);
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(usize::try_from(now.as_secs() % RUNS * PODS_A_RUN)?)
}
