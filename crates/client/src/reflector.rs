//! List and watch of one kind with backoff and relisting, on top of kube-rs' `watcher`. Corresponds to client-go's
//! `Reflector`; entry points [`watch`] and [`watch_events`].

use std::fmt::Debug;
use std::future::ready;
use std::pin::pin;

use futures_util::{Stream, StreamExt};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::Error;

/// Consecutive failures that are logged at debug level only: a server that restarts is usually back before.
const QUIET_FAILURES_MAX: usize = 4;

/// Passes every event to `on_event`, in order, until the future is dropped.
pub async fn watch<K>(
    api: Api<K>,
    config: Config,
    mut on_event: impl FnMut(Event<K>),
) -> Result<(), Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = pin!(watch_events(api, config));
    while let Some(event) = events.next().await {
        on_event(event);
    }
    Ok(())
}

/// A stream of all events, in order. After a failure the watch starts again: existing objects are repeated between
/// `Init` and `InitDone`, and objects that are not repeated have been deleted.
pub fn watch_events<K>(api: Api<K>, config: Config) -> impl Stream<Item = Event<K>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let resource = api.resource_url().to_owned();
    let mut failures = WatchFailureCounter::default();
    let events = watcher(api, config).default_backoff();
    events.filter_map(move |event| {
        ready(match event {
            Ok(event) => {
                failures.record_event(&event);
                Some(event)
            }
            Err(error) => {
                if failures.record_failure() {
                    tracing::warn!(resource, %error, "watch keeps failing; retrying with backoff");
                } else {
                    tracing::debug!(resource, %error, "watch failed; retrying with backoff");
                }
                None
            }
        })
    })
}

/// Number of failures of a watch since its last event.
#[derive(Default)]
struct WatchFailureCounter(usize);

impl WatchFailureCounter {
    /// Counts a failure. Returns true once, when the failures should be logged as a warning.
    fn record_failure(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        self.0 == QUIET_FAILURES_MAX + 1
    }

    fn record_event<K>(&mut self, event: &Event<K>) {
        // `Init` is emitted before the list request is sent, so it is no sign of success.
        if !matches!(event, Event::Init) {
            self.0 = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_watch_failures_are_warned_about_once() {
        let mut failures = WatchFailureCounter::default();
        let round = |failures: &mut WatchFailureCounter| -> Vec<bool> {
            (0..QUIET_FAILURES_MAX + 3)
                .map(|_| {
                    failures.record_event(&Event::<()>::Init);
                    failures.record_failure()
                })
                .collect()
        };
        let mut expected = vec![false; QUIET_FAILURES_MAX + 3];
        expected[QUIET_FAILURES_MAX] = true;
        assert_eq!(round(&mut failures), expected);
        assert_eq!(round(&mut failures), vec![false; QUIET_FAILURES_MAX + 3]);
        failures.record_event(&Event::<()>::InitDone);
        assert_eq!(round(&mut failures), expected);
    }
}
