//! Checks that a quota admits exactly its limit when many pods are created concurrently.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::StatusCode;
use serde::Serialize;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::QuotaBenchArguments;
use super::quota_test_server::QuotaTestServer;
use super::response_counts::ResponseCounts;
use super::writers::{CORES, next_pod};
use crate::client::ApiConnection;
use crate::pods;

/// Time limit for all responses of a run.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// Responses of one run: one namespace, one quota, all creates concurrent.
#[derive(Debug, Serialize)]
pub(super) struct ExactnessRun {
    pub(super) created: usize,
    pub(super) forbidden: usize,
    pub(super) conflicts: usize,
    pub(super) others: usize,
    /// Number of pods in the namespace afterwards.
    pub(super) stored: usize,
    /// Time until the last response.
    pub(super) ms: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct QuotaExactness {
    pub(super) limit: usize,
    pub(super) creates: usize,
    pub(super) repeats: Vec<ExactnessRun>,
    pub(super) answers: ResponseCounts,
}

impl QuotaExactness {
    /// Number of runs in which the number of admitted pods differs from the limit, or a rejection is anything but
    /// 403 Forbidden.
    pub(super) fn inexact(&self) -> usize {
        let expected = self.limit.min(self.creates);
        let is_exact = |repeat: &&ExactnessRun| {
            repeat.created == expected
                && repeat.stored == expected
                && repeat.forbidden == self.creates - expected
        };
        self.repeats.len() - self.repeats.iter().filter(is_exact).count()
    }
}

pub(super) async fn measure(
    arguments: &QuotaBenchArguments,
    site: &mut QuotaTestServer<'_>,
) -> Result<QuotaExactness> {
    let (limit, creates) = (arguments.exact_limit, arguments.exact_creates);
    let mut connections = Vec::new();
    for _ in 0..creates {
        connections.push(site.server.endpoint.connect().await?);
    }
    let mut exactness = QuotaExactness {
        limit,
        creates,
        repeats: Vec::new(),
        answers: ResponseCounts::default(),
    };
    for number in 0..arguments.exact_repeats {
        let path = site
            .namespace_for(&format!("exact-{number}"), 1, limit)
            .await?;
        let all = timeout(RESPONSE_TIMEOUT, at_once(&mut connections, &path));
        let (answers, elapsed) = all
            .await
            .context("timed out waiting for responses to pod creates")??;
        let stored = site.pods(&path).await?;
        site.clear(&path).await?;
        exactness
            .repeats
            .push(ExactnessRun::of(&answers, stored, elapsed));
        exactness.answers.merge(answers);
    }
    eprintln!(
        "  {creates} concurrent creates against a quota of {limit}: {} of {} runs not exact",
        exactness.inexact(),
        arguments.exact_repeats
    );
    Ok(exactness)
}

impl ExactnessRun {
    fn of(answers: &ResponseCounts, stored: usize, elapsed: Duration) -> Self {
        let created = answers.count(StatusCode::CREATED);
        let forbidden = answers.count(StatusCode::FORBIDDEN);
        let conflicts = answers.count(StatusCode::CONFLICT);
        Self {
            created,
            forbidden,
            conflicts,
            others: answers.total() - created - forbidden - conflicts,
            stored,
            ms: elapsed.as_secs_f64() * 1e3,
        }
    }
}

/// Sends one create on each connection, all released by a barrier.
async fn at_once(
    connections: &mut Vec<ApiConnection>,
    path: &str,
) -> Result<(ResponseCounts, Duration)> {
    let start = Arc::new(Barrier::new(connections.len() + 1));
    let path: Arc<str> = path.into();
    let mut tasks = JoinSet::new();
    for mut connection in connections.drain(..) {
        let (start, path) = (start.clone(), path.clone());
        tasks.spawn(async move {
            let pod = pods::limited(next_pod(), CORES);
            start.wait().await;
            let answer = connection.post(&path, pod).await?;
            anyhow::Ok((connection, answer))
        });
    }
    start.wait().await;
    let started = Instant::now();
    let mut answers = ResponseCounts::default();
    while let Some(ended) = tasks.join_next().await {
        let (connection, (status, body)) = ended??;
        connections.push(connection);
        answers.add(status, &body);
    }
    Ok((answers, started.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inexact(created: usize, stored: usize, forbidden: usize) -> usize {
        let repeat = ExactnessRun {
            created,
            forbidden,
            conflicts: 100 - created - forbidden,
            others: 0,
            stored,
            ms: 1.0,
        };
        let exactness = QuotaExactness {
            limit: 5,
            creates: 100,
            repeats: vec![repeat],
            answers: ResponseCounts::default(),
        };
        exactness.inexact()
    }

    #[test]
    fn exact_means_hard_limit_reached_and_only_quota_denials() {
        assert_eq!(inexact(5, 5, 95), 0);
        for (created, stored, forbidden) in [(4, 4, 96), (6, 6, 94), (5, 6, 95), (5, 5, 94)] {
            assert_eq!(inexact(created, stored, forbidden), 1, "{created} {stored}");
        }
    }
}
