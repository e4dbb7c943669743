//! Many pods at once against a quota that lets few in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::StatusCode;
use serde::Serialize;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Arguments;
use super::answers::Answers;
use super::site::Site;
use super::writers::{CORES, next_pod};
use crate::client::Connection;
use crate::pods;

/// How long until all are answered.
const PATIENCE: Duration = Duration::from_secs(120);

/// One namespace, one quota, all pods at once.
#[derive(Debug, Serialize)]
pub(super) struct Repeat {
    pub(super) created: usize,
    pub(super) forbidden: usize,
    pub(super) conflicts: usize,
    pub(super) others: usize,
    /// How many pods there are afterwards.
    pub(super) stored: usize,
    /// Until the last answer.
    pub(super) ms: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Exactness {
    pub(super) limit: usize,
    pub(super) creates: usize,
    pub(super) repeats: Vec<Repeat>,
    pub(super) answers: Answers,
}

impl Exactness {
    /// Repeats in which some other number was let in than the quota allows, or someone was told anything else than
    /// that the quota is exceeded.
    pub(super) fn inexact(&self) -> usize {
        let expected = self.limit.min(self.creates);
        let is_exact = |repeat: &&Repeat| {
            repeat.created == expected
                && repeat.stored == expected
                && repeat.forbidden == self.creates - expected
        };
        self.repeats.len() - self.repeats.iter().filter(is_exact).count()
    }
}

pub(super) async fn measure(arguments: &Arguments, site: &mut Site<'_>) -> Result<Exactness> {
    let (limit, creates) = (arguments.exact_limit, arguments.exact_creates);
    let mut connections = Vec::new();
    for _ in 0..creates {
        connections.push(site.server.endpoint.connect().await?);
    }
    let mut exactness = Exactness {
        limit,
        creates,
        repeats: Vec::new(),
        answers: Answers::default(),
    };
    for number in 0..arguments.exact_repeats {
        let path = site
            .namespace_for(&format!("exact-{number}"), 1, limit)
            .await?;
        let all = timeout(PATIENCE, at_once(&mut connections, &path));
        let (answers, elapsed) = all.await.context("requests are not answered")??;
        let stored = site.pods(&path).await?;
        site.clear(&path).await?;
        exactness
            .repeats
            .push(Repeat::of(&answers, stored, elapsed));
        exactness.answers.merge(answers);
    }
    eprintln!(
        "  {creates} at once against a quota of {limit}: {} of {} not exact",
        exactness.inexact(),
        arguments.exact_repeats
    );
    Ok(exactness)
}

impl Repeat {
    fn of(answers: &Answers, stored: usize, elapsed: Duration) -> Self {
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

/// Each connection asks for one pod, none before all are ready to.
async fn at_once(connections: &mut Vec<Connection>, path: &str) -> Result<(Answers, Duration)> {
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
    let begun = Instant::now();
    let mut answers = Answers::default();
    while let Some(ended) = tasks.join_next().await {
        let (connection, (status, body)) = ended??;
        connections.push(connection);
        answers.add(status, &body);
    }
    Ok((answers, begun.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inexact(created: usize, stored: usize, forbidden: usize) -> usize {
        let repeat = Repeat {
            created,
            forbidden,
            conflicts: 100 - created - forbidden,
            others: 0,
            stored,
            ms: 1.0,
        };
        let exactness = Exactness {
            limit: 5,
            creates: 100,
            repeats: vec![repeat],
            answers: Answers::default(),
        };
        exactness.inexact()
    }

    #[test]
    fn exact_is_as_many_as_allowed_and_plain_refusals() {
        assert_eq!(inexact(5, 5, 95), 0);
        for (created, stored, forbidden) in [(4, 4, 96), (6, 6, 94), (5, 6, 95), (5, 5, 94)] {
            assert_eq!(inexact(created, stored, forbidden), 1, "{created} {stored}");
        }
    }
}
