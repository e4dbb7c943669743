//! What is there and what changes, of one kind.

use std::fmt::Debug;
use std::pin::pin;

use futures_util::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::Error;

/// Hands on every event, in order, until it is dropped. A stream that breaks is begun anew: what is there comes
/// again between `Init` and `InitDone`, and what is not among it is gone.
pub(crate) async fn watch<K>(
    api: Api<K>,
    config: Config,
    mut on_event: impl FnMut(Event<K>),
) -> Result<(), Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = pin!(watcher(api, config).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => on_event(event),
            Err(error) => tracing::debug!(%error, "watched anew"),
        }
    }
    Ok(())
}
