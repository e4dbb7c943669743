//! Concurrent writers that create pods in one namespace, each with its own persistent connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::StatusCode;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::response_counts::ResponseCounts;
use crate::client::{ApiConnection, ServerEndpoint};
use crate::pods;
use crate::servers::{BenchServer, ServerCpuTimes};

/// CPU request of a pod.
pub(super) const CORES: &str = "4";

/// Unmeasured pods of each writer before a round, so that caches are filled.
const WARM_UP: usize = 2;

/// How long after the end of a round its last responses may arrive.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

/// Unique pod number: a failed create may have been stored nevertheless.
pub(super) fn next_pod() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Limits of a round, which ends when the first is reached.
pub(super) struct RoundLimits {
    pub(super) pods: usize,
    pub(super) time: Duration,
    /// How long after the last response the server's CPU time still counts.
    pub(super) settle: Duration,
}

/// Result of a round, over all writers.
#[derive(Default)]
pub(super) struct PodCreateRound {
    pub(super) elapsed: Duration,
    /// For each pod, from the first attempt until it was created.
    pub(super) times: Vec<Duration>,
    pub(super) answers: ResponseCounts,
    /// CPU time of the server, including the settle time.
    pub(super) cpu: ServerCpuTimes,
}

pub(super) struct PodWriters {
    connections: Vec<ApiConnection>,
}

impl PodWriters {
    pub(super) async fn connect(endpoint: &ServerEndpoint, count: usize) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(endpoint.connect().await?);
        }
        Ok(Self { connections })
    }

    pub(super) fn count(&self) -> usize {
        self.connections.len()
    }

    /// Runs one round over all connections.
    pub(super) async fn run_round(
        &mut self,
        server: &BenchServer<'_>,
        path: &str,
        bounds: &RoundLimits,
    ) -> Result<PodCreateRound> {
        let warm_up = WARM_UP * self.count();
        self.write(path, warm_up, bounds.time).await?;
        let before = server.cpu()?;
        let mut round_result = self.write(path, bounds.pods, bounds.time).await?;
        tokio::time::sleep(bounds.settle).await;
        round_result.cpu = server.cpu()?.since(before);
        Ok(round_result)
    }

    async fn write(&mut self, path: &str, pods: usize, time: Duration) -> Result<PodCreateRound> {
        let left = Arc::new(AtomicUsize::new(pods));
        let path: Arc<str> = path.into();
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for connection in self.connections.drain(..) {
            let (path, left) = (path.clone(), left.clone());
            tasks.spawn(write(connection, path, left, started + time));
        }
        let mut round_result = PodCreateRound::default();
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                let (connection, one) = ended??;
                self.connections.push(connection);
                round_result.times.extend(one.times);
                round_result.answers.merge(one.answers);
            }
            anyhow::Ok(())
        };
        timeout(time + ANSWER_PATIENCE, all)
            .await
            .context("timed out waiting for responses to pod creates")??;
        round_result.elapsed = started.elapsed();
        Ok(round_result)
    }
}

/// Creates pods until the round's pod count or time limit is reached.
async fn write(
    mut connection: ApiConnection,
    path: Arc<str>,
    left: Arc<AtomicUsize>,
    end: Instant,
) -> Result<(ApiConnection, PodCreateRound)> {
    let mut round_result = PodCreateRound::default();
    let take = |left: usize| left.checked_sub(1);
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_ok()
    {
        let first_try = Instant::now();
        loop {
            if Instant::now() >= end {
                return Ok((connection, round_result));
            }
            let pod = pods::limited(next_pod(), CORES);
            let (status, body) = connection.post(&path, pod).await?;
            round_result.answers.add(status, &body);
            if status == StatusCode::CREATED {
                round_result.times.push(first_try.elapsed());
                break;
            }
        }
    }
    Ok((connection, round_result))
}
