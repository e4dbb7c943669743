//! What is there and what changes, of one kind.

use std::fmt::Debug;
use std::future::ready;
use std::pin::pin;

use futures_util::{Stream, StreamExt};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::Error;

/// Failures in a row after which people are told: a server that starts again is back before.
const FAILURES_QUIET: usize = 4;

/// Hands on every event, in order, until it is dropped.
pub async fn watch<K>(
    api: Api<K>,
    config: Config,
    mut on_event: impl FnMut(Event<K>),
) -> Result<(), Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = pin!(events(api, config));
    while let Some(event) = events.next().await {
        on_event(event);
    }
    Ok(())
}

/// Every event, in order. A stream that breaks is begun anew: what is there comes again between `Init` and `InitDone`,
/// and what is not among it is gone.
pub fn events<K>(api: Api<K>, config: Config) -> impl Stream<Item = Event<K>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let resource = api.resource_url().to_owned();
    let mut failures = Failures::default();
    let events = watcher(api, config).default_backoff();
    events.filter_map(move |event| {
        ready(match event {
            Ok(event) => {
                failures.end(&event);
                Some(event)
            }
            Err(error) => {
                if failures.add() {
                    tracing::warn!(resource, %error, "cannot be watched; it is tried on");
                } else {
                    tracing::debug!(resource, %error, "watched anew");
                }
                None
            }
        })
    })
}

/// How often a watch failed since it last told something.
#[derive(Default)]
struct Failures(usize);

impl Failures {
    /// Whether it is time to tell people, which is once.
    fn add(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        self.0 == FAILURES_QUIET + 1
    }

    fn end<K>(&mut self, event: &Event<K>) {
        // Before a list is asked for there is an `Init` already, so that alone is no success.
        if !matches!(event, Event::Init) {
            self.0 = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_fails_on_and_on_is_told_once() {
        let mut failures = Failures::default();
        let round = |failures: &mut Failures| -> Vec<bool> {
            (0..FAILURES_QUIET + 3)
                .map(|_| {
                    failures.end(&Event::<()>::Init);
                    failures.add()
                })
                .collect()
        };
        let mut expected = vec![false; FAILURES_QUIET + 3];
        expected[FAILURES_QUIET] = true;
        assert_eq!(round(&mut failures), expected);
        assert_eq!(round(&mut failures), vec![false; FAILURES_QUIET + 3]);
        failures.end(&Event::<()>::InitDone);
        assert_eq!(round(&mut failures), expected);
    }
}
