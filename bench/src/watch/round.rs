//! Runs all loads for one server and one number of watchers.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};

use super::WatchBenchArguments;
use super::churn;
use super::event::WatchEventType;
use super::history::{self, EventHistory};
use super::load::{self, DeliveryStats};
use super::watchers::{self, WatcherPool};
use crate::client::ApiConnection;
use crate::pods;
use crate::servers::{self, BenchServer, ServerProgram, ServerUsage};
use crate::stats::Percentiles;

/// Number of unmeasured pods that warm up the server.
const WARM_UP_PODS: usize = 200;

/// No more events are expected after this time without one.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of reported problems.
const PROBLEMS_MAX: usize = 10;

/// A rate above any server's: only the number of writers limits the load.
const AS_MANY_AS_IT_TAKES: f64 = 1e6;

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct WatchRound {
    pub(super) server: String,
    pub(super) is_peer: bool,
    pub(super) watchers: usize,
    /// At the rate given by --rate.
    pub(super) paced: WatchLoadResult,
    /// At the maximum rate of the server.
    pub(super) busy: Option<WatchLoadResult>,
    /// Lag with additional watchers that do not read.
    pub(super) stalled: Option<Percentiles>,
    pub(super) bytes_per_watcher: f64,
    pub(super) problems: Vec<String>,
}

/// Result of a load.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct WatchLoadResult {
    /// Pods created or, with churn, writes made.
    pub(super) changes: usize,
    pub(super) per_second: f64,
    /// Events delivered to watchers.
    pub(super) events: usize,
    /// Number of watches that the server ended and that were resumed.
    pub(super) resumed: usize,
    /// With churn: number of bookmarks.
    pub(super) bookmarks: usize,
    pub(super) deliveries: Option<DeliveryStats>,
    pub(super) cpu_us_per_change: f64,
    pub(super) generator_cpu_us_per_change: f64,
}

impl WatchLoadResult {
    /// Each pod is delivered to one watcher, so this is the cost of the create and of its delivery.
    pub(super) fn cpu_us_per_event(&self) -> Option<f64> {
        (self.events > 0).then(|| self.cpu_us_per_change * self.changes as f64 / self.events as f64)
    }

    fn spent(&mut self, before: RoundCpuTimes, after: RoundCpuTimes) {
        let per_change = |before: Duration, after: Duration| {
            after.saturating_sub(before).as_secs_f64() * 1e6 / self.changes as f64
        };
        self.cpu_us_per_change = per_change(before.server, after.server);
        self.generator_cpu_us_per_change = per_change(before.generator, after.generator);
    }
}

impl WatchRound {
    pub(super) async fn run(
        arguments: &WatchBenchArguments,
        program: &ServerProgram,
        watchers: usize,
    ) -> Result<Self> {
        let server = BenchServer::start(program).await?;
        let stage = WatchSetup::set(arguments, &server, watchers).await?;
        let mut round = Self {
            server: program.to_string(),
            is_peer: matches!(program, ServerProgram::Kubernetes(_)),
            watchers,
            paced: WatchLoadResult::default(),
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
        // A server that keeps up does not end watches.
        let resumed = stage.watchers.resumed();
        let anew = (resumed > 0).then(|| format!("watches were resumed {resumed} times"));
        round.note(anew);
        Ok(round)
    }

    /// Runs the paced, stalled and maximum-rate create loads.
    async fn create_all(&mut self, stage: &WatchSetup<'_>) -> Result<()> {
        let arguments = stage.arguments;
        let first = stage.first_pod + WARM_UP_PODS;
        let paced = first..first + arguments.pods;
        let beside = paced.end..paced.end + 2 * arguments.pods;
        let busy = beside.end..beside.end + arguments.busy_pods;
        self.paced = self.create(stage, paced, arguments.rate).await?;
        let fewest = arguments.watchers.iter().min() == Some(&self.watchers);
        if fewest && arguments.stalled > 0 {
            self.create_with_stalled_watchers(stage, beside).await?;
        }
        if !busy.is_empty() {
            eprintln!("  at the maximum rate");
            self.busy = Some(self.create(stage, busy, AS_MANY_AS_IT_TAKES).await?);
        }
        Ok(())
    }

    async fn create(
        &mut self,
        stage: &WatchSetup<'_>,
        pods: Range<usize>,
        rate: f64,
    ) -> Result<WatchLoadResult> {
        let (changes, resumed) = (pods.len(), stage.watchers.resumed());
        let before = RoundCpuTimes::now(stage.server)?;
        let (deliveries, per_second) = self.create_at(stage, pods, rate).await?;
        let mut load = WatchLoadResult {
            changes,
            per_second,
            resumed: stage.watchers.resumed() - resumed,
            events: deliveries.delivered,
            deliveries: Some(deliveries),
            ..WatchLoadResult::default()
        };
        load.spent(before, RoundCpuTimes::now(stage.server)?);
        Ok(load)
    }

    async fn create_with_stalled_watchers(
        &mut self,
        stage: &WatchSetup<'_>,
        pods: Range<usize>,
    ) -> Result<()> {
        let (endpoint, arguments) = (&stage.server.endpoint, stage.arguments);
        eprintln!("  with {} watchers that do not read", arguments.stalled);
        let (version, http) = (stage.version().await?, arguments.http);
        let stalled = watchers::open_stalled(endpoint, arguments.stalled, &version, http).await?;
        // The first load fills the buffers between the server and the stalled clients.
        let middle = pods.start + pods.len() / 2;
        let rate = arguments.rate;
        self.create_at(stage, pods.start..middle, rate).await?;
        let (deliveries, _) = self.create_at(stage, middle..pods.end, rate).await?;
        drop(stalled);
        self.stalled = Some(deliveries.lag);
        Ok(())
    }

    /// Creates pods and returns delivery statistics and the rate at which creates were sent.
    async fn create_at(
        &mut self,
        stage: &WatchSetup<'_>,
        pods: Range<usize>,
        rate: f64,
    ) -> Result<(DeliveryStats, f64)> {
        let received = stage.watchers.events();
        let created = load::create(&stage.server.endpoint, pods, self.watchers, rate).await?;
        stage.wait_for(received + created.len()).await;
        let streams = stage.watchers.streams();
        let deliveries = DeliveryStats::count(&created, &streams);
        for (watcher, stream) in streams.iter().enumerate() {
            let end = stream.end.iter();
            self.note(end.map(|end| format!("the watch of watcher {watcher} failed: {end}")));
        }
        if !deliveries.all_right() {
            let DeliveryStats {
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

    async fn churn(&mut self, stage: &WatchSetup<'_>) -> Result<WatchLoadResult> {
        let before = RoundCpuTimes::now(stage.server)?;
        let WatchSetup {
            server, arguments, ..
        } = stage;
        let (endpoint, apps) = (&server.endpoint, self.watchers);
        let everything =
            WatcherPool::open_one_of_all(endpoint, &stage.since, arguments.http).await?;
        let first = stage.first_pod + WARM_UP_PODS;
        let started = std::time::Instant::now();
        let changes = churn::run(endpoint, first, arguments.pods, apps, arguments.rate).await?;
        let mut load = WatchLoadResult {
            changes: arguments.pods,
            per_second: changes.len() as f64 / started.elapsed().as_secs_f64(),
            ..WatchLoadResult::default()
        };
        everything.wait_for(changes.len(), EVENT_TIMEOUT).await;
        everything.wait_until_quiet().await;
        let streams = everything.streams();
        let history = EventHistory::of(streams.first().context("no watcher of everything")?);
        let due = history.due(apps);
        stage.wait_for(due.iter().map(Vec::len).sum()).await;
        load.spent(before, RoundCpuTimes::now(server)?);
        // Unexpected events may still arrive.
        stage.watchers.wait_until_quiet().await;
        load.events = stage.watchers.events();
        self.note(history.problems(&changes));
        let streams = stage.watchers.streams();
        let lines = streams.iter().flat_map(|stream| &stream.received);
        load.bookmarks = lines
            .filter(|received| received.kind == WatchEventType::Bookmark)
            .count();
        let pairs = streams.iter().zip(&due).enumerate();
        self.note(pairs.filter_map(|(app, (stream, due))| history::check(app, stream, due)));
        Ok(load)
    }

    fn note(&mut self, problems: impl IntoIterator<Item = String>) {
        let remaining = PROBLEMS_MAX - self.problems.len();
        self.problems.extend(problems.into_iter().take(remaining));
    }

    pub(super) fn loads(&self) -> impl Iterator<Item = &WatchLoadResult> {
        [&self.paced].into_iter().chain(&self.busy)
    }

    /// The load whose CPU time is compared: the maximum-rate load if there is one.
    pub(super) fn hardest(&self) -> &WatchLoadResult {
        self.busy.as_ref().unwrap_or(&self.paced)
    }

    /// Whether the run fails: problems of kube-apiserver are only reported.
    pub(super) fn is_wrong(&self) -> bool {
        !self.is_peer && !self.problems.is_empty()
    }
}

impl fmt::Display for WatchRound {
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
struct RoundCpuTimes {
    server: Duration,
    generator: Duration,
}

impl RoundCpuTimes {
    fn now(server: &BenchServer<'_>) -> Result<Self> {
        Ok(Self {
            server: server.usage()?.cpu,
            generator: servers::own_usage()?.cpu,
        })
    }
}

/// Server with open watchers, ready for a load.
struct WatchSetup<'a> {
    arguments: &'a WatchBenchArguments,
    server: &'a BenchServer<'a>,
    watchers: WatcherPool,
    bytes_per_watcher: f64,
    first_pod: usize,
    /// resourceVersion at which the watchers started.
    since: String,
}

impl<'a> WatchSetup<'a> {
    async fn set(
        arguments: &'a WatchBenchArguments,
        server: &'a BenchServer<'a>,
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
        let before: ServerUsage = server.usage()?;
        let opened = WatcherPool::open(endpoint, watchers, &since, arguments.http).await?;
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
        if !self.watchers.wait_for(events, EVENT_TIMEOUT).await {
            let (came, seconds) = (self.watchers.events(), EVENT_TIMEOUT.as_secs());
            eprintln!("  {came} of {events} events arrived, none in the last {seconds} s");
        }
    }
}

/// Current resourceVersion of the pods.
async fn version(connection: &mut ApiConnection) -> Result<String> {
    let list = connection.execute(Method::GET, "/api/v1/pods?limit=1", Bytes::new());
    let list: serde_json::Value = serde_json::from_slice(&list.await?)?;
    let version = list["metadata"]["resourceVersion"].as_str();
    Ok(version
        .context("list response has no metadata.resourceVersion")?
        .to_owned())
}

/// First pod number. An external server may have pods of earlier runs, so the number depends on the time.
fn first_pod(arguments: &WatchBenchArguments) -> Result<usize> {
    /// Upper bound for the pods of one run.
    const PODS_A_RUN: u64 = 100_000;
    /// Number of runs that fit into the range of pod numbers.
    const RUNS: u64 = 40_000;
    if arguments.running.server.is_none() {
        return Ok(0);
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(usize::try_from(now.as_secs() % RUNS * PODS_A_RUN)?)
}
