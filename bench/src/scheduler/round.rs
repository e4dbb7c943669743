//! Runs one case with one scheduler: creates the cluster, warms up the scheduler, then measures the binding of all pods.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::JoinSet;

use super::SchedulerUnderTest;
use super::bindings::BindingWatcher;
use super::objects::{self, CreateRequest, OTHER_NAMESPACE};
use super::placement_check::ClusterSnapshot;
use super::scheduler_process::SchedulerProcess;
use super::workload::{PodTemplate, SchedulerWorkload, WorkloadCase, WorkloadChurn};
use crate::client::ServerEndpoint;
use crate::servers::{self, BenchServer};
use crate::stats::Percentiles;

/// Number of concurrent writers.
const WRITERS: usize = 24;
/// Time limit for the first binding.
const WARM_UP_PATIENCE: Duration = Duration::from_secs(120);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Idle time before a measurement, for deferred work of server and scheduler.
const QUIET: Duration = Duration::from_secs(2);
/// Maximum number of reported problems.
const PROBLEMS_SHOWN: usize = 3;

/// Result of one case with one scheduler.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SchedulerRound {
    pub(super) case: String,
    pub(super) contestant: String,
    pub(super) is_ours: bool,
    pub(super) is_peer: bool,
    pub(super) pods: usize,
    pub(super) bound: usize,
    /// Time until the last pod was bound or the time limit was reached.
    pub(super) seconds: f64,
    pub(super) pods_per_second: f64,
    pub(super) time_to_bind: Percentiles,
    /// Per bound pod.
    pub(super) scheduler_cpu_ms: f64,
    pub(super) apiserver_cpu_ms: f64,
    pub(super) etcd_cpu_ms: Option<f64>,
    pub(super) scheduler_peak_mib: f64,
    /// Number of broken constraints.
    pub(super) problems: usize,
    pub(super) problems_shown: Vec<String>,
    /// Total duration including setup and checks.
    pub(super) took_seconds: f64,
}

impl SchedulerRound {
    pub(super) fn is_finished(&self) -> bool {
        self.bound == self.pods
    }

    pub(super) fn ms_per_pod(&self) -> f64 {
        1e3 / self.pods_per_second
    }
}

pub(super) async fn run(
    contestant: &SchedulerUnderTest,
    workload: &SchedulerWorkload,
    case: &WorkloadCase,
    limit: Duration,
) -> Result<SchedulerRound> {
    let started = Instant::now();
    let server = BenchServer::start(&contestant.server).await?;
    prepare(&server.endpoint, workload, case).await?;
    let mut scheduler = SchedulerProcess::start(&contestant.scheduler, &server)?;
    warm_up(&server.endpoint, &mut scheduler).await?;

    scheduler.hold()?;
    let measured = case.clone();
    create_all(&server.endpoint, case.measured, move |number| {
        objects::measured_pod(&measured, number)
    })
    .await?;
    let mut bindings = BindingWatcher::watch(&server.endpoint).await?;
    tokio::time::sleep(QUIET).await;

    let cpu = || {
        servers::cpu_of(scheduler.id())
            .context("failed to read the usage of the scheduler: it has exited")
    };
    let (server_cpu, scheduler_cpu) = (server.cpu()?, cpu()?);
    scheduler.go_on()?;
    let begun = Instant::now();
    let measured = bindings.collect(case.measured, begun, limit);
    let times = match workload.churn.clone() {
        None => measured.await?,
        Some(churn) => tokio::select! {
            times = measured => times?,
            ended = churn_on(&server.endpoint, churn) => return Err(ended),
        },
    };
    let elapsed = match times.last() {
        Some(last) if times.len() == case.measured => *last,
        _ => begun.elapsed(),
    };
    let (server_cpu, scheduler_cpu) = (
        server.cpu()?.since(server_cpu),
        cpu()?.saturating_sub(scheduler_cpu),
    );
    scheduler.check()?;
    let peak = servers::peak_resident_bytes(scheduler.id())
        .context("failed to read the usage of the scheduler: it has exited")?;
    // Stop the scheduler before its placements are checked.
    drop(scheduler);
    let mut connection = server.endpoint.connect().await?;
    let problems = ClusterSnapshot::read(&mut connection).await?.problems()?;

    let each_ms = |time: Duration| time.as_secs_f64() * 1e3 / (times.len().max(1) as f64);
    Ok(SchedulerRound {
        case: case.name.clone(),
        contestant: contestant.to_string(),
        is_ours: contestant.is_ours(),
        is_peer: contestant.is_peer(),
        pods: case.measured,
        bound: times.len(),
        seconds: elapsed.as_secs_f64(),
        pods_per_second: times.len() as f64 / elapsed.as_secs_f64(),
        scheduler_cpu_ms: each_ms(scheduler_cpu),
        apiserver_cpu_ms: each_ms(server_cpu.apiserver),
        etcd_cpu_ms: server_cpu.etcd.map(each_ms),
        scheduler_peak_mib: peak as f64 / f64::from(1 << 20),
        problems: problems.len(),
        problems_shown: problems.into_iter().take(PROBLEMS_SHOWN).collect(),
        time_to_bind: Percentiles::of(times),
        took_seconds: started.elapsed().as_secs_f64(),
    })
}

/// Creates the objects that exist before the scheduler starts.
async fn prepare(
    endpoint: &ServerEndpoint,
    workload: &SchedulerWorkload,
    case: &WorkloadCase,
) -> Result<()> {
    let mut first = objects::namespaces(workload, case);
    first.extend(objects::priority_classes(workload));
    create_all(endpoint, first.len(), move |number| first[number].clone()).await?;
    let of = workload.clone();
    create_all(endpoint, case.nodes, move |number| {
        objects::node(&of, number)
    })
    .await?;
    let of = case.clone();
    create_all(endpoint, case.existing, move |number| {
        objects::existing_pod(&of, number)
    })
    .await
}

/// Creates `count` objects over several connections.
async fn create_all(
    endpoint: &ServerEndpoint,
    count: usize,
    creation: impl Fn(usize) -> CreateRequest + Send + Sync + 'static,
) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let creation = Arc::new(creation);
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS.min(count) {
        let mut connection = endpoint.connect().await?;
        let (next, creation) = (next.clone(), creation.clone());
        writers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(());
                }
                let (path, body) = creation(number);
                connection.execute(Method::POST, &path, body).await?;
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(())
}

/// Waits until the scheduler has bound a pod, which means that its caches are synced.
async fn warm_up(endpoint: &ServerEndpoint, scheduler: &mut SchedulerProcess) -> Result<()> {
    let (path, body) = objects::other_pod(&PodTemplate::tiny(), "warm-up");
    let mut connection = endpoint.connect().await?;
    connection.execute(Method::POST, &path, body).await?;
    let path = format!("/api/v1/namespaces/{OTHER_NAMESPACE}/pods/warm-up");
    let begun = Instant::now();
    loop {
        scheduler.check()?;
        let pod = connection.execute(Method::GET, &path, Bytes::new()).await?;
        let pod: Value = serde_json::from_slice(&pod)?;
        if pod["spec"]["nodeName"].is_string() {
            break;
        }
        ensure!(
            begun.elapsed() < WARM_UP_PATIENCE,
            "timed out waiting for the scheduler to bind the warm-up pod: {}",
            pod["status"]
        );
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    tokio::time::sleep(QUIET).await;
    Ok(())
}

/// Creates churn pods at a fixed interval; returns only on failure.
async fn churn_on(endpoint: &ServerEndpoint, churn: WorkloadChurn) -> anyhow::Error {
    let mut interval = tokio::time::interval(Duration::from_millis(churn.every_ms.max(1)));
    let mut create = async || {
        let mut connection = endpoint.connect().await?;
        for number in 0.. {
            interval.tick().await;
            let (path, body) = objects::other_pod(&churn.pod, &format!("churn-{number:06}"));
            connection.execute(Method::POST, &path, body).await?;
        }
        anyhow::Ok(())
    };
    match create().await {
        Ok(()) => anyhow!("churn pod numbers exhausted"),
        Err(problem) => problem.context("failed to create a churn pod"),
    }
}
