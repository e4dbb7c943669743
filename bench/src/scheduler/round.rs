//! One case on one contestant: a cluster is made, a scheduler meets it, and then there is much to do at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;

use super::Contestant;
use super::bindings::Bindings;
use super::check::Cluster;
use super::objects::{self, Creation, OTHER_NAMESPACE};
use super::process::Scheduler;
use super::workload::{Case, Churn, Template, Workload};
use crate::client::Endpoint;
use crate::servers::{self, Server};
use crate::stats::Percentiles;

/// How many create at a time.
const WRITERS: usize = 24;
/// How long a scheduler may take until it has bound its first pod.
const WARM_UP_PATIENCE: Duration = Duration::from_secs(120);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Until a server and a scheduler have done what comes after much work.
const QUIET: Duration = Duration::from_secs(2);
/// How many problems are told.
const PROBLEMS_SHOWN: usize = 3;

/// What a contestant did in a case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Round {
    pub(super) case: String,
    pub(super) contestant: String,
    pub(super) is_ours: bool,
    pub(super) is_peer: bool,
    pub(super) pods: usize,
    pub(super) bound: usize,
    /// Until the last pod was bound, or there was no more time.
    pub(super) seconds: f64,
    pub(super) pods_per_second: f64,
    pub(super) time_to_bind: Percentiles,
    /// For each pod that was bound.
    pub(super) scheduler_cpu_ms: f64,
    pub(super) apiserver_cpu_ms: f64,
    pub(super) etcd_cpu_ms: Option<f64>,
    pub(super) scheduler_peak_mib: f64,
    /// How many constraints are broken, and some of them.
    pub(super) problems: usize,
    pub(super) problems_shown: Vec<String>,
    /// For everything, also what came before and after.
    pub(super) took_seconds: f64,
}

impl Round {
    pub(super) fn is_finished(&self) -> bool {
        self.bound == self.pods
    }

    pub(super) fn ms_per_pod(&self) -> f64 {
        1e3 / self.pods_per_second
    }
}

pub(super) async fn run(
    contestant: &Contestant,
    workload: &Workload,
    case: &Case,
    limit: Duration,
) -> Result<Round> {
    let started = Instant::now();
    let server = Server::start(&contestant.server).await?;
    prepare(&server.endpoint, workload, case).await?;
    let mut scheduler = Scheduler::start(&contestant.scheduler, &server)?;
    warm_up(&server.endpoint, &mut scheduler).await?;

    scheduler.hold()?;
    let measured = case.clone();
    create_all(&server.endpoint, case.measured, move |number| {
        objects::measured_pod(&measured, number)
    })
    .await?;
    let mut bindings = Bindings::watch(&server.endpoint).await?;
    tokio::time::sleep(QUIET).await;

    let cpu = || servers::cpu_of(scheduler.id()).context("the scheduler ended");
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
    let peak = servers::peak_resident_bytes(scheduler.id()).context("the scheduler ended")?;
    // What it does from now on is of no interest, but what it did is.
    drop(scheduler);
    let mut connection = server.endpoint.connect().await?;
    let problems = Cluster::read(&mut connection).await?.problems()?;

    let each_ms = |time: Duration| time.as_secs_f64() * 1e3 / (times.len().max(1) as f64);
    Ok(Round {
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

/// Everything that is there before the scheduler.
async fn prepare(endpoint: &Endpoint, workload: &Workload, case: &Case) -> Result<()> {
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

/// Creates so many objects over many connections.
async fn create_all(
    endpoint: &Endpoint,
    count: usize,
    creation: impl Fn(usize) -> Creation + Send + Sync + 'static,
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
                connection.ask(Method::POST, &path, body).await?;
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(())
}

/// A scheduler that has bound a pod knows everything that was there before it.
async fn warm_up(endpoint: &Endpoint, scheduler: &mut Scheduler) -> Result<()> {
    let (path, body) = objects::other_pod(&Template::tiny(), "warm-up");
    let mut connection = endpoint.connect().await?;
    connection.ask(Method::POST, &path, body).await?;
    let path = format!("/api/v1/namespaces/{OTHER_NAMESPACE}/pods/warm-up");
    let begun = Instant::now();
    loop {
        scheduler.check()?;
        let pod = connection.ask(Method::GET, &path, Bytes::new()).await?;
        let pod: Value = serde_json::from_slice(&pod)?;
        if pod["spec"]["nodeName"].is_string() {
            break;
        }
        ensure!(
            begun.elapsed() < WARM_UP_PATIENCE,
            "the scheduler binds nothing: {}",
            pod["status"]
        );
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    tokio::time::sleep(QUIET).await;
    Ok(())
}

/// Creates a pod again and again, and ends only if that fails.
async fn churn_on(endpoint: &Endpoint, churn: Churn) -> anyhow::Error {
    let mut interval = tokio::time::interval(Duration::from_millis(churn.every_ms.max(1)));
    let mut create = async || {
        let mut connection = endpoint.connect().await?;
        for number in 0.. {
            interval.tick().await;
            let (path, body) = objects::other_pod(&churn.pod, &format!("churn-{number:06}"));
            connection.ask(Method::POST, &path, body).await?;
        }
        anyhow::Ok(())
    };
    match create().await {
        Ok(()) => anyhow!("no more numbers for pods"),
        Err(problem) => problem.context("the pods that come meanwhile"),
    }
}
