//! Informers: list and watch one kind, and report every change with the key of its object. Corresponds to client-go's
//! `SharedIndexInformer` with its event handlers, without a store: callers keep what they need of an object.
//!
//! Entry points: [`events`], [`events_and_list_starts`] and [`watch`]. Listing, bookmarks, relisting after 410 and
//! retries are the [`reflector`]'s.

use std::collections::HashSet;
use std::fmt::Debug;
use std::future::ready;
use std::hash::Hash;
use std::pin::pin;

use futures_util::{Stream, StreamExt};
use kube::runtime::watcher::{self, Config};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::{Error, reflector};

/// A change of a watched kind. `Key` identifies an object, as the result of client-go's `KeyFunc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<K, Key: Eq + Hash> {
    /// Added or updated, or repeated by a list.
    Applied(K),
    Deleted(Key),
    /// A list is complete, the first one or one after a gap in the watch: only these objects exist. Each has been
    /// reported as applied.
    Replaced(HashSet<Key>),
}

impl<K, Key: Eq + Hash> Event<K, Key> {
    /// Converts the object of an `Applied` event; `None` drops the event.
    pub fn filter_map<T>(self, convert: impl FnOnce(K) -> Option<T>) -> Option<Event<T, Key>> {
        Some(match self {
            Event::Applied(object) => Event::Applied(convert(object)?),
            Event::Deleted(key) => Event::Deleted(key),
            Event::Replaced(keys) => Event::Replaced(keys),
        })
    }

    /// Converts the object of an `Applied` event.
    pub fn map<T>(self, convert: impl FnOnce(K) -> T) -> Event<T, Key> {
        match self {
            Event::Applied(object) => Event::Applied(convert(object)),
            Event::Deleted(key) => Event::Deleted(key),
            Event::Replaced(keys) => Event::Replaced(keys),
        }
    }
}

/// An event, or the start of a list: until the next `Replaced` event objects come in the order of the list, not of their
/// changes. A list that fails starts again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InformerMessage<K, Key: Eq + Hash> {
    Event(Event<K, Key>),
    ListStart,
}

/// All changes of a kind, in order: first a list, then the changes after it. Never ends.
pub fn events<K, Key>(
    api: Api<K>,
    config: Config,
    key: impl Fn(&K) -> Key + Send,
) -> impl Stream<Item = Event<K, Key>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    Key: Eq + Hash + Send,
{
    let events = events_and_list_starts(api, config, key);
    events.filter_map(|event| {
        ready(match event {
            InformerMessage::Event(event) => Some(event),
            InformerMessage::ListStart => None,
        })
    })
}

/// As [`events`], for consumers that must know whether a list is in progress.
pub fn events_and_list_starts<K, Key>(
    api: Api<K>,
    config: Config,
    key: impl Fn(&K) -> Key + Send,
) -> impl Stream<Item = InformerMessage<K, Key>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    Key: Eq + Hash + Send,
{
    let mut lists = WatchEventConverter::new(key);
    let events = reflector::watch_events(api, config);
    events.map(move |event| lists.convert(event))
}

/// Passes every event to `on_event`, in order, until the future is dropped.
pub async fn watch<K, Key>(
    api: Api<K>,
    config: Config,
    key: impl Fn(&K) -> Key + Send,
    mut on_event: impl FnMut(Event<K, Key>),
) -> Result<(), Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    Key: Eq + Hash + Send,
{
    let mut events = pin!(events(api, config, key));
    while let Some(event) = events.next().await {
        on_event(event);
    }
    Ok(())
}

/// Collects the keys of a list in progress.
struct WatchEventConverter<Key, F> {
    key: F,
    listed: HashSet<Key>,
}

impl<Key: Eq + Hash, F> WatchEventConverter<Key, F> {
    fn new(key: F) -> Self {
        WatchEventConverter {
            key,
            listed: HashSet::new(),
        }
    }

    fn convert<K>(&mut self, event: watcher::Event<K>) -> InformerMessage<K, Key>
    where
        F: Fn(&K) -> Key,
    {
        InformerMessage::Event(match event {
            watcher::Event::Init => {
                self.listed.clear();
                return InformerMessage::ListStart;
            }
            watcher::Event::InitApply(object) => {
                self.listed.insert((self.key)(&object));
                Event::Applied(object)
            }
            watcher::Event::InitDone => Event::Replaced(std::mem::take(&mut self.listed)),
            watcher::Event::Apply(object) => Event::Applied(object),
            watcher::Event::Delete(object) => Event::Deleted((self.key)(&object)),
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event as Watched;

    use super::*;

    #[test]
    fn a_list_ends_with_the_keys_of_all_its_objects() {
        let mut lists = WatchEventConverter::new(|object: &(&'static str, u32)| object.0);
        let mut convert = |event| lists.convert(event);
        assert_eq!(convert(Watched::Init), InformerMessage::ListStart);
        assert_eq!(
            convert(Watched::InitApply(("a", 1))),
            InformerMessage::Event(Event::Applied(("a", 1)))
        );
        // The list is interrupted and starts again.
        assert_eq!(convert(Watched::Init), InformerMessage::ListStart);
        convert(Watched::InitApply(("b", 1)));
        convert(Watched::InitApply(("c", 1)));
        assert_eq!(
            convert(Watched::InitDone),
            InformerMessage::Event(Event::Replaced(HashSet::from(["b", "c"])))
        );
        assert_eq!(
            convert(Watched::Apply(("b", 2))),
            InformerMessage::Event(Event::Applied(("b", 2)))
        );
        assert_eq!(
            convert(Watched::Delete(("b", 3))),
            InformerMessage::Event(Event::Deleted("b"))
        );
        assert_eq!(convert(Watched::Init), InformerMessage::ListStart);
        assert_eq!(
            convert(Watched::InitDone),
            InformerMessage::Event(Event::Replaced(HashSet::new()))
        );
    }

    #[test]
    fn only_applied_events_are_converted() {
        let applied: Event<u32, &str> = Event::Applied(1);
        assert_eq!(applied.clone().filter_map(|_| None::<u32>), None);
        assert_eq!(applied.map(|number| number + 1), Event::Applied(2));
        let deleted: Event<u32, &str> = Event::Deleted("a");
        assert_eq!(
            deleted.filter_map(|_| None::<u32>),
            Some(Event::Deleted("a"))
        );
    }
}
