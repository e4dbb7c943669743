//! Writes Kubernetes events (`Scheduled`, `FailedScheduling`, `Preempted`) in the background, with lower priority than
//! bindings.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use rhumb_client::AbortOnDrop;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::event_series::EventSeriesCache;
use super::in_flight::InFlightWrites;
use super::leader_client::{JSON, LeaderClient, RequestError, STRATEGIC_MERGE_PATCH};
use super::recorded_event::RecordedEvent;
use crate::metrics::Metrics;

/// Limit on queued events. An entry is small: it shares its pods.
const QUEUED_EVENTS_MAX: usize = 10_000;
/// Delay between events while bindings are in flight.
const DELAY_WHILE_BINDING: Duration = Duration::from_millis(10);
/// How often event series are checked for counts to write.
const SERIES_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Queues events without blocking. When the queue is full, events are dropped and counted.
#[derive(Debug)]
pub(super) struct SchedulingEventRecorder {
    queue: mpsc::Sender<RecordedEvent>,
    metrics: Arc<Metrics>,
    _task: AbortOnDrop<()>,
}

impl SchedulingEventRecorder {
    pub(super) fn start(
        server: LeaderClient,
        host_name: Box<str>,
        in_flight: Arc<InFlightWrites>,
        metrics: Arc<Metrics>,
    ) -> SchedulingEventRecorder {
        let (queue, queued) = mpsc::channel(QUEUED_EVENTS_MAX);
        let writer = EventWriter {
            server,
            in_flight,
            series: EventSeriesCache::new(host_name.clone()),
            host_name,
        };
        SchedulingEventRecorder {
            queue,
            metrics,
            _task: AbortOnDrop(tokio::spawn(writer.run(queued))),
        }
    }

    pub(super) fn record(&self, event: RecordedEvent) {
        if self.queue.try_send(event).is_err() {
            self.metrics.note_event_dropped();
        }
    }
}

/// Writes the queued events one after the other.
struct EventWriter {
    server: LeaderClient,
    in_flight: Arc<InFlightWrites>,
    host_name: Box<str>,
    series: EventSeriesCache,
}

impl EventWriter {
    async fn run(mut self, mut queued: mpsc::Receiver<RecordedEvent>) {
        let mut series_check = interval(SERIES_CHECK_INTERVAL);
        series_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                recorded = queued.recv() => {
                    let Some(recorded) = recorded else { return };
                    if let Some(event) = self.event_to_write(recorded) {
                        self.write(&event).await;
                    }
                }
                _ = series_check.tick() => {
                    for event in self.series.take_due(Timestamp::now()) {
                        self.write(&event).await;
                    }
                }
            }
        }
    }

    /// `None` if the event is only counted.
    fn event_to_write(&mut self, recorded: RecordedEvent) -> Option<Event> {
        let now = Timestamp::now();
        match recorded {
            RecordedEvent::Failed { pod, message } => self.series.observe(pod, &message, now),
            recorded => Some(recorded.to_event(&self.host_name, now)),
        }
    }

    /// Events are best effort: if the write fails, the event is dropped.
    async fn write(&self, event: &Event) {
        if self.in_flight.bindings() > 0 {
            sleep(DELAY_WHILE_BINDING).await;
        }
        if let Err(error) = self.create_or_update(event).await {
            tracing::debug!(%error, reason = event.reason, "failed to write event; dropping it");
        }
    }

    /// An event with a series exists, unless it has expired or could not be created.
    async fn create_or_update(&self, event: &Event) -> Result<(), RequestError> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        if let Some(series) = &event.series {
            let name = event.metadata.name.as_deref().unwrap_or_default();
            let path = format!("{path}/{name}");
            let patch = json!({ "series": series });
            let patched = self
                .server
                .send(Method::PATCH, &path, STRATEGIC_MERGE_PATCH, &patch);
            match patched.await {
                Err(error) if error.is_not_found() => {}
                result => return result.map(drop),
            }
        }
        let body = json!(event);
        let created = self.server.send(Method::POST, &path, JSON, &body).await;
        created.map(drop)
    }
}
