//! Every watcher is told exactly what a look at all objects after every change would tell it.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use rhumb_cache::{EventKind, IndexOptions, Message, Options, Scope, Start, WatchRequest, Watcher};
use rhumb_meta::fields;
use rhumb_store::{Expect, Store, Transaction};
use rhumb_store_conformance::Random;
use support::memory::Memory;
use support::random::{Object, random_request};
use support::{ROOT, current, pods, start};

const TRANSACTIONS: usize = 20_000;
const WATCHERS: usize = 120;

/// A watcher, what it asked for, and what it should have been told but was not asked about yet.
struct Watched {
    request: WatchRequest,
    watcher: Watcher,
    expected: Vec<String>,
}

impl Watched {
    fn picks(&self, key: &str, object: Option<&Object>) -> bool {
        let (Some(object), Some((namespace, name))) = (object, key.split_once('/')) else {
            return false;
        };
        let in_scope = match &self.request.scope {
            Scope::All => true,
            Scope::Namespace(wanted) => **wanted == *namespace,
            Scope::Object {
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

    fn expect(&mut self, key: &str, old: Option<&Object>, new: Option<&Object>, revision: u64) {
        let mark = match (self.picks(key, old), self.picks(key, new)) {
            (false, false) => return,
            (false, true) => "+",
            (true, true) => "~",
            (true, false) => "-",
        };
        self.expected.push(format!("{mark}{key}@{revision}"));
    }

    /// Reads all there is, and holds it against what was expected.
    fn check(&mut self) {
        let mut told = Vec::new();
        while let Some(message) = self.watcher.try_next().expect("a live watch") {
            if let Message::Event(event) = &message {
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
                told.push(support::sketch(&message));
            }
        }
        assert_eq!(told, self.expected, "{:?}", self.request);
        self.expected.clear();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_is_told_what_concerns_it_and_nothing_else() {
    for seed in 1..=3 {
        run(seed, IndexOptions::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_is_told_the_same_without_triggers() {
    let off = IndexOptions {
        enabled: false,
        ..IndexOptions::default()
    };
    run(4, off).await;
}

async fn run(seed: u64, index: IndexOptions) {
    println!("seed {seed}");
    let random = &mut Random::new(seed);
    let memory = Memory::new();
    let store: Arc<dyn Store> = memory.clone();
    let options = Options {
        // Small, so that many watchers overflow and catch up from the history.
        watcher_queue_max: 40,
        index,
        ..Options::default()
    };
    let hub = start(&store, options).await;
    let cache = pods(&hub);
    let mut objects: BTreeMap<String, (Object, u64)> = BTreeMap::new();
    let mut watched: Vec<Watched> = Vec::new();
    for index in 0..TRANSACTIONS {
        if index % 50 == 0 {
            current(&hub).await;
            if watched.len() >= WATCHERS {
                let mut leaves = watched.swap_remove(random.below(watched.len()));
                leaves.check();
            }
            let request = random_request(random);
            let watcher = cache.watch(request.clone()).expect("a watch");
            let mut new = Watched {
                request,
                watcher,
                expected: Vec::new(),
            };
            if new.request.start == Start::List {
                for (key, (object, revision)) in &objects {
                    new.expect(key, None, Some(object), *revision);
                }
            }
            watched.push(new);
            // The others read at times of their own.
            for _ in 0..watched.len() / 4 {
                let chosen = random.below(watched.len());
                watched[chosen].check();
            }
        }
        let mut transaction = Transaction::new();
        let mut changed: BTreeMap<String, Option<Object>> = BTreeMap::new();
        for _ in 0..=random.below(8) / 6 {
            let key = format!("ns{}/o{}", random.below(3), random.below(6));
            let new = (random.below(5) > 0).then(|| Object::random(random));
            changed.insert(key, new);
        }
        for (key, new) in &changed {
            let path = format!("{ROOT}pods/{key}");
            transaction = match new {
                Some(object) => transaction.put(path, object.stored(), Expect::Any),
                None => transaction.delete(path, Expect::Any),
            };
        }
        let revision = store.commit(transaction).await.expect("a commit").get();
        for (key, new) in changed {
            let old = objects.get(&key).map(|(object, _)| object.clone());
            for watched in &mut watched {
                watched.expect(&key, old.as_ref(), new.as_ref(), revision);
            }
            match new {
                Some(object) => objects.insert(key, (object, revision)),
                None => objects.remove(&key),
            };
        }
    }
    current(&hub).await;
    watched.iter_mut().for_each(Watched::check);
    let stats = cache.stats();
    assert!(
        stats.overflows > 0 && stats.deliveries > 10_000,
        "{stats:?}"
    );
    assert_eq!((stats.terminated, stats.watchers), (0, watched.len()));
    drop(watched);
    assert_eq!(cache.stats().watchers, 0);
}
