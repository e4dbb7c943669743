//! Oracle test of the dispatcher: every watcher receives exactly the events that evaluating its filter on every change
//! would produce.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use rhumb_cache::{
    CacheOptions, CacheWatcher, EventKind, IndexOptions, WatchMessage, WatchRequest, WatchScope,
    WatchStart,
};
use rhumb_meta::fields;
use rhumb_store::{ExpectedRevision, Store, Transaction};
use rhumb_store_conformance::SeededRng;
use support::memory_store::MemoryStore;
use support::random::{RandomObject, random_request};
use support::{ROOT, current, pods, start};

const TRANSACTIONS: usize = 20_000;
const WATCHERS: usize = 120;

/// A watcher with its request and the events that the oracle expects it to deliver next.
struct CheckedWatcher {
    request: WatchRequest,
    watcher: CacheWatcher,
    expected: Vec<String>,
}

impl CheckedWatcher {
    fn matches(&self, key: &str, object: Option<&RandomObject>) -> bool {
        let (Some(object), Some((namespace, name))) = (object, key.split_once('/')) else {
            return false;
        };
        let in_scope = match &self.request.scope {
            WatchScope::All => true,
            WatchScope::Namespace(wanted) => **wanted == *namespace,
            WatchScope::Object {
                namespace: wanted,
                name: wanted_name,
            } => wanted.as_deref() == Some(namespace) && **wanted_name == *name,
        };
        let fields = [
            ("metadata.name", name),
            ("metadata.namespace", namespace),
            ("node", object.node),
            ("phase", object.phase),
        ];
        in_scope
            && self.request.labels.matches(&object.labels)
            && fields::Selector::matches(&self.request.fields, &fields)
    }

    fn expect_event(
        &mut self,
        key: &str,
        old: Option<&RandomObject>,
        new: Option<&RandomObject>,
        revision: u64,
    ) {
        let mark = match (self.matches(key, old), self.matches(key, new)) {
            (false, false) => return,
            (false, true) => "+",
            (true, true) => "~",
            (true, false) => "-",
        };
        self.expected.push(format!("{mark}{key}@{revision}"));
    }

    /// Reads all available events and compares them with the expected ones.
    fn check(&mut self) {
        let mut received = Vec::new();
        while let Some(message) = self.watcher.try_next().expect("a live watch") {
            if let WatchMessage::Event(event) = &message {
                let frame = event.frame();
                let head = format!(
                    "{{\"type\":\"{}\",\"object\":{{\"rv\":{},",
                    event.kind().as_str(),
                    event.revision()
                );
                assert!(frame.starts_with(head.as_bytes()), "{frame:?}");
                assert!(frame.ends_with(b"}}\n"));
                assert_ne!(
                    (event.kind(), event.previous().is_none()),
                    (EventKind::Deleted, true)
                );
                received.push(support::summarize(&message));
            }
        }
        assert_eq!(received, self.expected, "{:?}", self.request);
        self.expected.clear();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_receives_exactly_its_matching_events() {
    for seed in 1..=3 {
        run_random_transactions(seed, IndexOptions::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_receives_the_same_events_without_label_triggers() {
    let off = IndexOptions {
        by_label: false,
        ..IndexOptions::default()
    };
    run_random_transactions(4, off).await;
}

async fn run_random_transactions(seed: u64, index: IndexOptions) {
    println!("seed {seed}");
    let random = &mut SeededRng::new(seed);
    let memory = MemoryStore::new();
    let store: Arc<dyn Store> = memory.clone();
    let options = CacheOptions {
        // Small, so that many queues overflow and their watchers catch up from the history.
        watcher_queue_max: 40,
        index,
        ..CacheOptions::default()
    };
    let manager = start(&store, options).await;
    let cache = pods(&manager);
    let mut objects: BTreeMap<String, (RandomObject, u64)> = BTreeMap::new();
    let mut watched: Vec<CheckedWatcher> = Vec::new();
    for index in 0..TRANSACTIONS {
        if index % 50 == 0 {
            current(&manager).await;
            if watched.len() >= WATCHERS {
                let mut removed = watched.swap_remove(random.below(watched.len()));
                removed.check();
            }
            let request = random_request(random);
            let watcher = cache.watch(request.clone()).expect("a watch");
            let mut new = CheckedWatcher {
                request,
                watcher,
                expected: Vec::new(),
            };
            if new.request.start == WatchStart::InitialList {
                for (key, (object, revision)) in &objects {
                    new.expect_event(key, None, Some(object), *revision);
                }
            }
            watched.push(new);
            // Some of the other watchers read at random times.
            for _ in 0..watched.len() / 4 {
                let chosen = random.below(watched.len());
                watched[chosen].check();
            }
        }
        let mut transaction = Transaction::new();
        let mut changed: BTreeMap<String, Option<RandomObject>> = BTreeMap::new();
        for _ in 0..=random.below(8) / 6 {
            let key = format!("ns{}/o{}", random.below(3), random.below(6));
            let new = (random.below(5) > 0).then(|| RandomObject::random(random));
            changed.insert(key, new);
        }
        for (key, new) in &changed {
            let path = format!("{ROOT}pods/{key}");
            transaction = match new {
                Some(object) => transaction.put(path, object.to_stored(), ExpectedRevision::Any),
                None => transaction.delete(path, ExpectedRevision::Any),
            };
        }
        let revision = store.commit(transaction).await.expect("a commit").get();
        for (key, new) in changed {
            let old = objects.get(&key).map(|(object, _)| object.clone());
            for watched in &mut watched {
                watched.expect_event(&key, old.as_ref(), new.as_ref(), revision);
            }
            match new {
                Some(object) => objects.insert(key, (object, revision)),
                None => objects.remove(&key),
            };
        }
    }
    current(&manager).await;
    watched.iter_mut().for_each(CheckedWatcher::check);
    let stats = cache.stats();
    assert!(
        stats.queue_overflows > 0 && stats.delivered_events > 10_000,
        "{stats:?}"
    );
    assert_eq!((stats.expired_watchers, stats.watchers), (0, watched.len()));
    drop(watched);
    assert_eq!(cache.stats().watchers, 0);
}
