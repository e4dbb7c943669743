//! Groups repeated failures of a pod into event series (upstream: the event cache of client-go's `tools/events`).
//!
//! The first failure is written as an event and the second makes it a series. Later ones are only counted; the count is
//! written from time to time, and when the series ends. Other events do not repeat: a pod is bound and preempted once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::recorded_event::RecordedEvent;
use crate::model::Pod;

/// A series ends when nothing was observed for this long, as upstream.
const FINISH_AFTER: SignedDuration = SignedDuration::from_mins(6);
/// How often a series that continues is written, as upstream. Events expire on the server unless they are written.
const REFRESH_INTERVAL: SignedDuration = SignedDuration::from_mins(30);
/// Limit on cached series. Failures beyond it are written as events of their own.
const SERIES_MAX: usize = 20_000;

/// The failures that may be repeated.
#[derive(Debug)]
pub(super) struct EventSeriesCache {
    host_name: Box<str>,
    by_key: HashMap<SeriesKey, FailureSeries>,
}

/// What the failures of a series have in common. Upstream compares the resource version of the pod instead of the
/// message, so an event that only updates the pod starts another series, and a new message may not be shown.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    pod_uid: Box<str>,
    message: Box<str>,
}

#[derive(Debug)]
struct FailureSeries {
    pod: Arc<Pod>,
    first_observed: Timestamp,
    last_observed: Timestamp,
    count: i32,
    written_count: i32,
    written_at: Timestamp,
}

impl EventSeriesCache {
    pub(super) fn new(host_name: Box<str>) -> EventSeriesCache {
        EventSeriesCache {
            host_name,
            by_key: HashMap::new(),
        }
    }

    /// Counts a failure. Returns the event to write, if any: with a series if the event exists already.
    pub(super) fn observe(
        &mut self,
        pod: Arc<Pod>,
        message: &str,
        now: Timestamp,
    ) -> Option<Event> {
        let is_full = self.by_key.len() >= SERIES_MAX;
        let key = SeriesKey {
            pod_uid: pod.uid.clone(),
            message: message.into(),
        };
        match self.by_key.entry(key) {
            Entry::Occupied(mut entry) => {
                let series = entry.get_mut();
                series.count = series.count.saturating_add(1);
                series.last_observed = now;
                (series.count == 2).then(|| series.write(message, &self.host_name, now))
            }
            Entry::Vacant(entry) => {
                let mut series = FailureSeries::new(pod, now);
                let event = series.write(message, &self.host_name, now);
                if !is_full {
                    entry.insert(series);
                }
                Some(event)
            }
        }
    }

    /// Removes the series that have ended. Returns the events whose counts have to be written.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<Event> {
        let mut due = Vec::new();
        self.by_key.retain(|key, series| {
            let is_finished = now.duration_since(series.last_observed) >= FINISH_AFTER;
            let is_stale = now.duration_since(series.written_at) >= REFRESH_INTERVAL;
            if series.count > series.written_count && (is_finished || is_stale) {
                due.push(series.write(&key.message, &self.host_name, now));
            }
            !is_finished
        });
        due
    }
}

impl FailureSeries {
    fn new(pod: Arc<Pod>, now: Timestamp) -> FailureSeries {
        FailureSeries {
            pod,
            first_observed: now,
            last_observed: now,
            count: 1,
            written_count: 0,
            written_at: now,
        }
    }

    /// The current event, which the caller writes.
    fn write(&mut self, message: &str, host_name: &str, now: Timestamp) -> Event {
        self.written_count = self.count;
        self.written_at = now;
        let failure = RecordedEvent::Failed {
            pod: self.pod.clone(),
            message: message.to_owned(),
        };
        let series = (self.count > 1).then_some(EventSeries {
            count: self.count,
            last_observed_time: MicroTime(self.last_observed),
        });
        Event {
            series,
            ..failure.to_event(host_name, self.first_observed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    fn pod(uid: &str) -> Arc<Pod> {
        Arc::new(Pod {
            uid: uid.into(),
            ..Pod::default()
        })
    }

    fn cache() -> EventSeriesCache {
        EventSeriesCache::new("host".into())
    }

    /// Name, count and last observation of an event.
    fn summary(event: &Event) -> (String, Option<(i32, Timestamp)>) {
        let series = event.series.as_ref();
        let series = series.map(|series| (series.count, series.last_observed_time.0));
        (event.metadata.name.clone().unwrap(), series)
    }

    #[test]
    fn repeated_failures_become_a_series() {
        let mut cache = cache();
        let first = cache.observe(pod("a"), "m", at(0)).unwrap();
        let (name, series) = summary(&first);
        assert_eq!(series, None);
        let second = cache.observe(pod("a"), "m", at(1)).unwrap();
        assert_eq!(summary(&second), (name, Some((2, at(1)))));
        assert_eq!(second.event_time, first.event_time);
        assert_eq!(cache.observe(pod("a"), "m", at(2)), None);
    }

    #[test]
    fn other_pods_and_messages_are_other_series() {
        let mut cache = cache();
        for (uid, message) in [("a", "m"), ("a", "n"), ("b", "m")] {
            let event = cache.observe(pod(uid), message, at(0)).unwrap();
            assert_eq!((event.series, event.note.as_deref()), (None, Some(message)));
        }
    }

    #[test]
    fn counts_are_written_at_the_end_of_a_series() {
        let mut cache = cache();
        for minute in 0..5 {
            cache.observe(pod("a"), "m", at(minute));
        }
        assert_eq!(cache.take_due(at(9)), []);
        let due = cache.take_due(at(10));
        assert_eq!(summary(&due[0]).1, Some((5, at(4))));
        assert_eq!(due.len(), 1);
        assert_eq!(cache.take_due(at(60)), []);
        let next = cache.observe(pod("a"), "m", at(61)).unwrap();
        assert_eq!(next.series, None);
    }

    #[test]
    fn counts_of_a_long_series_are_refreshed() {
        let mut cache = cache();
        let mut written = Vec::new();
        for minute in 0..65 {
            cache.observe(pod("a"), "m", at(minute));
            let due = cache.take_due(at(minute));
            written.extend(due.iter().filter_map(|event| summary(event).1));
        }
        assert_eq!(written, [(32, at(31)), (62, at(61))]);
    }

    #[test]
    fn single_events_and_written_series_end_silently() {
        let mut cache = cache();
        cache.observe(pod("a"), "m", at(0));
        cache.observe(pod("b"), "m", at(0));
        cache.observe(pod("b"), "m", at(1));
        assert_eq!(cache.take_due(at(60)), []);
        assert!(cache.by_key.is_empty());
    }

    #[test]
    fn failures_beyond_the_limit_are_events_of_their_own() {
        let mut cache = cache();
        for number in 0..SERIES_MAX {
            cache.observe(pod(&number.to_string()), "m", at(0));
        }
        for _ in 0..2 {
            let event = cache.observe(pod("a"), "m", at(0)).unwrap();
            assert_eq!(event.series, None);
        }
        assert_eq!(cache.by_key.len(), SERIES_MAX);
    }
}
