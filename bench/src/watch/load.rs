//! Creates pods at a constant rate, and matches them with the events of the watchers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use http::Method;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::event::WatchEventType;
use super::watchers::WatcherRecord;
use crate::client::ServerEndpoint;
use crate::pods;
use crate::stats::Percentiles;

/// Maximum number of concurrent requests.
pub(super) const WRITERS: usize = 32;

/// Hands out slots at a constant rate, independent of how long the work in a slot takes.
#[derive(Clone)]
pub(super) struct RateLimiter {
    started: Instant,
    per_second: f64,
    next: Arc<AtomicUsize>,
    indexes: Range<usize>,
}

impl RateLimiter {
    pub(super) fn new(indexes: Range<usize>, per_second: f64) -> Self {
        Self {
            // A short delay, so that all writers have started.
            started: Instant::now() + Duration::from_millis(5),
            per_second,
            next: Arc::new(AtomicUsize::new(indexes.start)),
            indexes,
        }
    }

    /// Waits for the next free slot; None when all are used.
    pub(super) async fn next_index(&self) -> Option<usize> {
        let next_index = self.next.fetch_add(1, Ordering::Relaxed);
        if next_index >= self.indexes.end {
            return None;
        }
        let before = (next_index - self.indexes.start) as f64;
        let due = self.started + Duration::from_secs_f64(before / self.per_second);
        tokio::time::sleep_until(due.into()).await;
        Some(next_index)
    }
}

/// Pod that was created, with the times of request and response.
#[derive(Clone, Copy, Debug)]
pub(super) struct CreatedPod {
    pub(super) pod: u32,
    pub(super) app: u32,
    pub(super) sent: Instant,
    pub(super) answered: Instant,
}

/// Creates these pods, spread over the applications.
pub(super) async fn create(
    endpoint: &ServerEndpoint,
    pods: Range<usize>,
    apps: usize,
    per_second: f64,
) -> Result<Vec<CreatedPod>> {
    let mut connections = Vec::new();
    for _ in 0..WRITERS {
        connections.push(endpoint.connect().await?);
    }
    let pace = RateLimiter::new(pods, per_second);
    let mut writers = JoinSet::new();
    for mut connection in connections {
        let pace = pace.clone();
        writers.spawn(async move {
            let mut created = Vec::new();
            while let Some(pod) = pace.next_index().await {
                let app = pods::scattered(pod, apps);
                let (path, body) = (pods::collection(app), pods::pending(pod, app));
                let sent = Instant::now();
                connection.execute(Method::POST, &path, body).await?;
                let answered = Instant::now();
                let (pod, app) = (u32::try_from(pod)?, u32::try_from(app)?);
                created.push(CreatedPod {
                    pod,
                    app,
                    sent,
                    answered,
                });
            }
            anyhow::Ok(created)
        });
    }
    let mut all = Vec::new();
    while let Some(created) = writers.join_next().await {
        all.extend(created??);
    }
    Ok(all)
}

/// Actual rate of create requests.
pub(super) fn sent_per_second(created: &[CreatedPod]) -> f64 {
    let times = || created.iter().map(|created| created.sent);
    match (times().min(), times().max()) {
        (Some(first), Some(last)) if last > first => {
            (created.len() - 1) as f64 / (last - first).as_secs_f64()
        }
        _ => 0.0,
    }
}

/// Delivery of the events for created pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DeliveryStats {
    pub(super) delivered: usize,
    pub(super) missed: usize,
    /// Delivered to a watcher that does not select the pod, or not as ADDED.
    pub(super) wrong: usize,
    pub(super) repeated: usize,
    /// Time from the request to the event.
    pub(super) lag: Percentiles,
    /// Time from the response to the event; zero if the event came first.
    pub(super) lag_after_answer: Percentiles,
}

impl DeliveryStats {
    pub(super) fn count(created: &[CreatedPod], streams: &[WatcherRecord]) -> Self {
        let mut waiting: HashMap<u32, (CreatedPod, bool)> = created
            .iter()
            .map(|created| (created.pod, (*created, false)))
            .collect();
        let mut counted = Self::default();
        let (mut lags, mut lags_after_answer) = (Vec::new(), Vec::new());
        for (app, stream) in streams.iter().enumerate() {
            for event in stream
                .received
                .iter()
                .filter(|it| it.kind != WatchEventType::Bookmark)
            {
                // Other pods belong to an earlier load.
                let Some((created, received)) = waiting.get_mut(&event.pod) else {
                    continue;
                };
                let right = created.app as usize == app && event.app == Some(created.app);
                if !right || event.kind != WatchEventType::Added {
                    counted.wrong += 1;
                } else if std::mem::replace(received, true) {
                    counted.repeated += 1;
                } else {
                    counted.delivered += 1;
                    lags.push(event.at.saturating_duration_since(created.sent));
                    lags_after_answer.push(event.at.saturating_duration_since(created.answered));
                }
            }
        }
        counted.missed = created.len() - counted.delivered;
        counted.lag = Percentiles::of(lags);
        counted.lag_after_answer = Percentiles::of(lags_after_answer);
        counted
    }

    pub(super) fn all_right(&self) -> bool {
        self.missed == 0 && self.wrong == 0 && self.repeated == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::event::TimedWatchEvent;

    fn count(event: &[(usize, WatchEventType, u32, u32)]) -> [usize; 4] {
        let sent = Instant::now();
        let created = |pod, app| CreatedPod {
            pod,
            app,
            sent,
            answered: sent,
        };
        let mut streams = vec![WatcherRecord::default(); 2];
        for &(watcher, kind, pod, app) in event {
            streams[watcher].received.push(TimedWatchEvent {
                kind,
                pod,
                app: Some(app),
                version: 1,
                at: sent + Duration::from_millis(3),
            });
        }
        let counted = DeliveryStats::count(&[created(0, 0), created(1, 1)], &streams);
        assert!(counted.delivered == 0 || counted.lag.p50_ms == 3.0);
        [
            counted.delivered,
            counted.missed,
            counted.wrong,
            counted.repeated,
        ]
    }

    #[test]
    fn each_delivery_is_counted_once_by_type() {
        use WatchEventType::{Added, Bookmark, Modified};
        assert_eq!(count(&[(0, Added, 0, 0), (1, Added, 1, 1)]), [2, 0, 0, 0]);
        assert_eq!(count(&[(0, Added, 0, 0)]), [1, 1, 0, 0]);
        assert_eq!(count(&[(0, Added, 0, 0), (0, Added, 0, 0)]), [1, 1, 0, 1]);
        assert_eq!(count(&[(1, Added, 0, 0), (1, Added, 1, 1)]), [1, 1, 1, 0]);
        assert_eq!(
            count(&[(0, Modified, 0, 0), (1, Added, 1, 1)]),
            [1, 1, 1, 0]
        );
        // A label of another watcher, a bookmark, and a pod of an earlier load.
        assert_eq!(count(&[(0, Added, 0, 1)]), [0, 2, 1, 0]);
        assert_eq!(
            count(&[(0, Bookmark, 0, 0), (1, Added, 9, 9)]),
            [0, 2, 0, 0]
        );
    }
}
