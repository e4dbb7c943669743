//! Those who make pods in one namespace, each over a connection that stays open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::StatusCode;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::answers::Answers;
use crate::client::{Connection, Endpoint};
use crate::pods;
use crate::servers::{Cpu, Server};

/// What a pod asks for.
pub(super) const CORES: &str = "4";

/// Pods of each writer before a turn that do not count: what is kept from one to the next is there afterwards.
const WARM_UP: usize = 2;

/// How much longer than its time a turn may take until every request is answered.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

/// No two pods have the same name: one that was refused may be there nevertheless.
pub(super) fn next_pod() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A turn ends with whatever comes first.
pub(super) struct Bounds {
    pub(super) pods: usize,
    pub(super) time: Duration,
    /// For how long the CPU time of the server counts when all is answered.
    pub(super) settle: Duration,
}

/// What all writers together did.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) elapsed: Duration,
    /// Of each pod, from the first try until it was let in.
    pub(super) times: Vec<Duration>,
    pub(super) answers: Answers,
    /// Used by the server, also while it settled.
    pub(super) cpu: Cpu,
}

pub(super) struct Writers {
    connections: Vec<Connection>,
}

impl Writers {
    pub(super) async fn connect(endpoint: &Endpoint, count: usize) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(endpoint.connect().await?);
        }
        Ok(Self { connections })
    }

    pub(super) fn count(&self) -> usize {
        self.connections.len()
    }

    /// All together make so many pods as the bounds allow.
    pub(super) async fn turn(
        &mut self,
        server: &Server<'_>,
        path: &str,
        bounds: &Bounds,
    ) -> Result<Turn> {
        let warm_up = WARM_UP * self.count();
        self.write(path, warm_up, bounds.time).await?;
        let before = server.cpu()?;
        let mut turn = self.write(path, bounds.pods, bounds.time).await?;
        tokio::time::sleep(bounds.settle).await;
        turn.cpu = server.cpu()?.since(before);
        Ok(turn)
    }

    async fn write(&mut self, path: &str, pods: usize, time: Duration) -> Result<Turn> {
        let left = Arc::new(AtomicUsize::new(pods));
        let path: Arc<str> = path.into();
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for connection in self.connections.drain(..) {
            let (path, left) = (path.clone(), left.clone());
            tasks.spawn(write(connection, path, left, begun + time));
        }
        let mut turn = Turn::default();
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                let (connection, one) = ended??;
                self.connections.push(connection);
                turn.times.extend(one.times);
                turn.answers.merge(one.answers);
            }
            anyhow::Ok(())
        };
        timeout(time + ANSWER_PATIENCE, all)
            .await
            .context("requests are not answered")??;
        turn.elapsed = begun.elapsed();
        Ok(turn)
    }
}

/// Makes pods until there are none left to make or it is too late.
async fn write(
    mut connection: Connection,
    path: Arc<str>,
    left: Arc<AtomicUsize>,
    end: Instant,
) -> Result<(Connection, Turn)> {
    let mut turn = Turn::default();
    let take = |left: usize| left.checked_sub(1);
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_ok()
    {
        let first_try = Instant::now();
        loop {
            if Instant::now() >= end {
                return Ok((connection, turn));
            }
            let pod = pods::limited(next_pod(), CORES);
            let (status, body) = connection.post(&path, pod).await?;
            turn.answers.add(status, &body);
            if status == StatusCode::CREATED {
                turn.times.push(first_try.elapsed());
                break;
            }
        }
    }
    Ok((connection, turn))
}
