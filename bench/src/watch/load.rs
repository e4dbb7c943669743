//! Pods created at an even pace, and when each of their watchers was told.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use http::Method;
use serde::Serialize;
use tokio::task::JoinSet;

use super::event::Kind;
use super::watchers::Stream;
use crate::client::Endpoint;
use crate::pods;
use crate::stats::Percentiles;

/// More requests than this are not under way at a time: a server that cannot keep up sets the pace.
pub(super) const WRITERS: usize = 32;

/// A turn every so often, however long the turns take.
#[derive(Clone)]
pub(super) struct Pace {
    begun: Instant,
    per_second: f64,
    next: Arc<AtomicUsize>,
    turns: Range<usize>,
}

impl Pace {
    pub(super) fn new(turns: Range<usize>, per_second: f64) -> Self {
        Self {
            // The first turn is a moment away, so that all writers are there.
            begun: Instant::now() + Duration::from_millis(5),
            per_second,
            next: Arc::new(AtomicUsize::new(turns.start)),
            turns,
        }
    }

    /// Waits for the next turn that nobody has taken.
    pub(super) async fn turn(&self) -> Option<usize> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        if turn >= self.turns.end {
            return None;
        }
        let before = (turn - self.turns.start) as f64;
        let due = self.begun + Duration::from_secs_f64(before / self.per_second);
        tokio::time::sleep_until(due.into()).await;
        Some(turn)
    }
}

/// One pod that was created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Created {
    pub(super) pod: u32,
    pub(super) app: u32,
    pub(super) sent: Instant,
    pub(super) answered: Instant,
}

/// Creates these pods, each for one of the applications.
pub(super) async fn create(
    endpoint: &Endpoint,
    pods: Range<usize>,
    apps: usize,
    per_second: f64,
) -> Result<Vec<Created>> {
    let mut connections = Vec::new();
    for _ in 0..WRITERS {
        connections.push(endpoint.connect().await?);
    }
    let pace = Pace::new(pods, per_second);
    let mut writers = JoinSet::new();
    for mut connection in connections {
        let pace = pace.clone();
        writers.spawn(async move {
            let mut created = Vec::new();
            while let Some(pod) = pace.turn().await {
                let app = pods::scattered(pod, apps);
                let (path, body) = (pods::collection(app), pods::pending(pod, app));
                let sent = Instant::now();
                connection.ask(Method::POST, &path, body).await?;
                let answered = Instant::now();
                let (pod, app) = (u32::try_from(pod)?, u32::try_from(app)?);
                created.push(Created {
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

/// How many pods a second were really sent.
pub(super) fn sent_per_second(created: &[Created]) -> f64 {
    let times = || created.iter().map(|created| created.sent);
    match (times().min(), times().max()) {
        (Some(first), Some(last)) if last > first => {
            (created.len() - 1) as f64 / (last - first).as_secs_f64()
        }
        _ => 0.0,
    }
}

/// What came of the pods that were created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Deliveries {
    pub(super) delivered: usize,
    pub(super) missed: usize,
    /// To a watcher that did not ask for it, or as something else than a new pod.
    pub(super) wrong: usize,
    pub(super) repeated: usize,
    /// From when the request was sent.
    pub(super) lag: Percentiles,
    /// From when the request was answered; what came before that took no time.
    pub(super) lag_after_answer: Percentiles,
}

impl Deliveries {
    pub(super) fn count(created: &[Created], streams: &[Stream]) -> Self {
        let mut waiting: HashMap<u32, (Created, bool)> = created
            .iter()
            .map(|created| (created.pod, (*created, false)))
            .collect();
        let mut counted = Self::default();
        let (mut lags, mut lags_after_answer) = (Vec::new(), Vec::new());
        for (app, stream) in streams.iter().enumerate() {
            for seen in stream.seen.iter().filter(|it| it.kind != Kind::Bookmark) {
                // Other pods belong to a load before this one.
                let Some((created, told)) = waiting.get_mut(&seen.pod) else {
                    continue;
                };
                let right = created.app as usize == app && seen.app == Some(created.app);
                if !right || seen.kind != Kind::Added {
                    counted.wrong += 1;
                } else if std::mem::replace(told, true) {
                    counted.repeated += 1;
                } else {
                    counted.delivered += 1;
                    lags.push(seen.at.saturating_duration_since(created.sent));
                    lags_after_answer.push(seen.at.saturating_duration_since(created.answered));
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
    use crate::watch::event::Seen;

    fn count(seen: &[(usize, Kind, u32, u32)]) -> [usize; 4] {
        let sent = Instant::now();
        let created = |pod, app| Created {
            pod,
            app,
            sent,
            answered: sent,
        };
        let mut streams = vec![Stream::default(); 2];
        for &(watcher, kind, pod, app) in seen {
            streams[watcher].seen.push(Seen {
                kind,
                pod,
                app: Some(app),
                version: 1,
                at: sent + Duration::from_millis(3),
            });
        }
        let counted = Deliveries::count(&[created(0, 0), created(1, 1)], &streams);
        assert!(counted.delivered == 0 || counted.lag.p50_ms == 3.0);
        [
            counted.delivered,
            counted.missed,
            counted.wrong,
            counted.repeated,
        ]
    }

    #[test]
    fn each_delivery_counts_once_and_as_what_it_is() {
        use Kind::{Added, Bookmark, Modified};
        assert_eq!(count(&[(0, Added, 0, 0), (1, Added, 1, 1)]), [2, 0, 0, 0]);
        assert_eq!(count(&[(0, Added, 0, 0)]), [1, 1, 0, 0]);
        assert_eq!(count(&[(0, Added, 0, 0), (0, Added, 0, 0)]), [1, 1, 0, 1]);
        assert_eq!(count(&[(1, Added, 0, 0), (1, Added, 1, 1)]), [1, 1, 1, 0]);
        assert_eq!(
            count(&[(0, Modified, 0, 0), (1, Added, 1, 1)]),
            [1, 1, 1, 0]
        );
        // A label that is another watcher's, a bookmark, and a pod of an earlier load.
        assert_eq!(count(&[(0, Added, 0, 1)]), [0, 2, 1, 0]);
        assert_eq!(
            count(&[(0, Bookmark, 0, 0), (1, Added, 9, 9)]),
            [0, 2, 0, 0]
        );
    }
}
