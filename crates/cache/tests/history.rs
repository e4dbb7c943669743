//! What is kept of the past, for how long, and who suffers when it is gone.

mod support;

use std::sync::Arc;
use std::time::Duration;

use rhumb_cache::{HistoryError, Message, Options, Start, WatchEnd, WatchRequest};
use rhumb_meta::{Clock, ManualClock, Revision};
use rhumb_store::Store;
use rhumb_store_conformance::Random;
use support::memory::Memory;
use support::{contents, current, delete, drain, key, next, pods, put, sketch, start, wait, watch};

fn memory() -> (Arc<Memory>, Arc<dyn Store>) {
    let memory = Memory::new();
    (Arc::clone(&memory), memory)
}

#[tokio::test]
async fn history_lasts_its_time_and_then_says_so() {
    let (_, store) = memory();
    let clock = Arc::new(ManualClock::default());
    let options = Options {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..Options::default()
    };
    let hub = start(&store, options).await;
    let first = put(&*store, "pods/ns/a", ";;1").await;
    let second = put(&*store, "pods/ns/a", ";;2").await;
    wait(&hub, second).await;
    let mut stalled = watch(&pods(&hub), Start::After(first));
    clock.advance(Duration::from_secs(75));
    let third = put(&*store, "pods/ns/a", ";;3").await;
    wait(&hub, third).await;
    let at = pods(&hub).snapshot_at(first).expect("still there");
    assert_eq!(
        contents(&at)["ns/a"],
        format!("{{\"rv\":{first},\"body\":\"1\"}}")
    );
    // The segment that holds the first changes is given up as a whole, once its last change is old.
    clock.advance(Duration::from_secs(76));
    let fourth = put(&*store, "pods/ns/a", ";;4").await;
    wait(&hub, fourth).await;
    let mut filled = fourth;
    for index in 0..300 {
        filled = put(&*store, "pods/ns/b", &format!(";;{index}")).await;
    }
    wait(&hub, filled).await;
    clock.advance(Duration::from_secs(76));
    let last = put(&*store, "pods/ns/b", ";;last").await;
    wait(&hub, last).await;
    let expired = pods(&hub).snapshot_at(second).expect_err("too old");
    let oldest = pods(&hub).oldest();
    assert_eq!(
        expired,
        HistoryError::Expired {
            requested: second,
            oldest
        }
    );
    assert!(oldest > second && oldest <= last);
    let again = WatchRequest::everything(Start::After(second));
    assert_eq!(pods(&hub).watch(again).err(), Some(expired));
    assert_eq!(next(&mut stalled).await.err(), Some(WatchEnd::Expired));
    assert_eq!(next(&mut stalled).await.err(), Some(WatchEnd::Expired));
    assert_eq!(pods(&hub).stats().terminated, 1);
    // Where nothing changed for long, any revision will do.
    let quiet = hub
        .cache(&support::prefix("services/endpoints"))
        .expect("cached");
    assert!(quiet.snapshot_at(first).is_ok());
}

#[tokio::test]
async fn history_is_bounded_in_bytes_and_number() {
    for (bytes_max, changes_max) in [(3 << 20, usize::MAX), (usize::MAX, 1000)] {
        let (_, store) = memory();
        let options = Options {
            history_bytes_max: bytes_max,
            history_changes_max: changes_max,
            ..Options::default()
        };
        let hub = start(&store, options).await;
        let value = format!(";;{}", "v".repeat(4000));
        for index in 0..3000 {
            let key = format!("pods/ns/{}", index % 100);
            let revision = match index % 10 {
                9 => delete(&*store, &key).await,
                _ => put(&*store, &key, &value).await,
            };
            if index % 100 == 0 {
                wait(&hub, revision).await;
                let stats = pods(&hub).stats();
                assert!(stats.history_bytes <= bytes_max, "{stats:?}");
                assert!(stats.history_changes <= changes_max, "{stats:?}");
            }
        }
        current(&hub).await;
        let stats = pods(&hub).stats();
        assert!(stats.history_changes > 200, "{stats:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_of_the_past_is_exact() {
    let (_, store) = memory();
    let hub = start(&store, Options::default()).await;
    let random = &mut Random::new(7);
    let begin = current(&hub).await;
    let mut versions = vec![(begin, contents(&pods(&hub).snapshot()))];
    for index in 0..1500 {
        let name = random.below(40);
        let key = format!("pods/ns/{name}");
        let revision = match random.below(4) {
            0 => delete(&*store, &key).await,
            1 => put(&*store, &key, "not an object").await,
            _ => put(&*store, &key, &format!("a=b;;{index}")).await,
        };
        if index % 7 == 0 {
            let revision = revision.max(put(&*store, "services/specs/a/b", ";;x").await);
            wait(&hub, revision).await;
            versions.push((revision, contents(&pods(&hub).snapshot())));
        }
    }
    for (revision, expect) in &versions {
        let snapshot = pods(&hub).snapshot_at(*revision).expect("in the history");
        assert_eq!(snapshot.revision(), *revision);
        assert_eq!(&contents(&snapshot), expect, "at {revision}");
        assert_eq!(snapshot.len(), expect.len());
    }
    let latest = pods(&hub).snapshot();
    assert_eq!(latest.unreadable().count(), pods(&hub).stats().unreadable);
    assert!(pods(&hub).stats().unreadable > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_one_revision_ignore_later_writes() {
    let (_, store) = memory();
    for index in 0..500 {
        put(&*store, &format!("pods/ns-{}/{index:03}", index % 3), ";;x").await;
    }
    let hub = start(&store, Options::default()).await;
    for namespace in [None, Some("ns-1"), Some("ns"), Some("other")] {
        let first = pods(&hub).snapshot();
        let expect: Vec<_> = first
            .range(namespace, None)
            .map(|e| e.key().clone())
            .collect();
        let count = match namespace {
            None => 500,
            Some("ns-1") => 167,
            Some(_) => 0,
        };
        assert_eq!(expect.len(), count);
        let (mut seen, mut page_end) = (Vec::new(), None);
        loop {
            let page = pods(&hub).snapshot_at(first.revision()).expect("recent");
            let entries: Vec<_> = page.range(namespace, page_end.as_ref()).take(64).collect();
            seen.extend(entries.iter().map(|entry| entry.key().clone()));
            if entries.len() < 64 {
                break;
            }
            page_end = seen.last().cloned();
            for index in 0..20 {
                put(&*store, &format!("pods/ns-1/{:03}", index * 17), ";;later").await;
                let gone = delete(&*store, &format!("pods/ns-{}/new", index % 3)).await;
                put(&*store, &format!("pods/ns-{}/new", index % 3), ";;later").await;
                wait(&hub, gone).await;
            }
        }
        assert_eq!(seen, expect);
        for index in 0..3 {
            delete(&*store, &format!("pods/ns-{index}/new")).await;
        }
        // Back to the five hundred.
        for index in 0..20 {
            let index = index * 17;
            if index % 3 != 1 {
                delete(&*store, &format!("pods/ns-1/{index:03}")).await;
            }
        }
        current(&hub).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_watcher_holds_nobody_and_misses_nothing() {
    let (_, store) = memory();
    let options = Options {
        watcher_queue_max: 16,
        ..Options::default()
    };
    let hub = start(&store, options).await;
    let mut stalled = watch(&pods(&hub), Start::Latest);
    let mut healthy = watch(&pods(&hub), Start::Latest);
    assert!(drain(&mut stalled).is_empty());
    let mut made = Vec::new();
    for index in 0..5000 {
        let revision = put(&*store, "pods/ns/a", &format!(";;{index}")).await;
        made.push(revision);
        let message = next(&mut healthy).await.expect("a message");
        assert!(sketch(&message).ends_with(&format!("@{revision}")));
    }
    assert_eq!(
        pods(&hub).stats().overflows,
        1,
        "it was passed by ever after"
    );
    assert_eq!(stalled.progress(), None);
    for revision in made {
        let message = next(&mut stalled).await.expect("a message");
        assert!(sketch(&message).ends_with(&format!("@{revision}")));
    }
    assert_eq!(drain(&mut stalled), Vec::<String>::new());
    // The caches say that they hold a change only after they have handed it out.
    let reached = current(&hub).await;
    assert_eq!(stalled.progress(), Some(reached));
    let last = put(&*store, "pods/ns/a", ";;z").await;
    for watcher in [&mut stalled, &mut healthy] {
        let message = next(watcher).await.expect("a message");
        assert_eq!(sketch(&message), format!("~ns/a@{last}"));
    }
}

#[tokio::test]
async fn what_cannot_be_projected_is_an_error_where_it_is_asked_for() {
    let (memory, store) = memory();
    for index in 0..40 {
        put(&*store, &format!("pods/ns/{index:02}"), ";;x").await;
    }
    put(&*store, "pods/ns/bad", "nonsense").await;
    memory.damage("/registry/pods/ns/17");
    let options = Options {
        page_objects: 10,
        warm_revisions: 0,
        ..Options::default()
    };
    let hub = start(&store, options).await;
    let cache = pods(&hub);
    let check = |name: &str, reason: &str| {
        let error = cache
            .snapshot()
            .get(&key(name))
            .expect_err(reason)
            .to_string();
        assert!(
            error.starts_with(name) && error.ends_with(reason),
            "{error}"
        );
    };
    check("ns/bad", "not three parts");
    check("ns/17", "a bit was flipped");
    let stats = cache.stats();
    assert_eq!((stats.objects, stats.unreadable), (39, 2));
    let mut watcher = watch(&cache, Start::Latest);
    let good = put(&*store, "pods/ns/bad", ";;good").await;
    let bad = put(&*store, "pods/ns/00", "bad").await;
    let still_bad = put(&*store, "pods/ns/00", "worse").await;
    wait(&hub, still_bad).await;
    assert_eq!(
        drain(&mut watcher),
        [format!("+ns/bad@{good}"), format!("-ns/00@{bad}")]
    );
    check("ns/00", "not three parts");
    let gone = delete(&*store, "pods/ns/00").await;
    wait(&hub, gone).await;
    assert!(matches!(cache.snapshot().get(&key("ns/00")), Ok(None)));
    assert_eq!(drain(&mut watcher), Vec::<String>::new());
}

#[tokio::test]
async fn the_numbers_add_up() {
    let (_, store) = memory();
    let hub = start(&store, Options::default()).await;
    put(&*store, "pods/ns/a", ";;12345").await;
    let watcher = watch(&pods(&hub), Start::Latest);
    let last = put(&*store, "pods/ns/a", ";;1").await;
    wait(&hub, last).await;
    let stats = pods(&hub).stats();
    let entry = pods(&hub).snapshot();
    let entry = entry.get(&key("ns/a")).expect("readable").expect("there");
    assert_eq!((stats.objects, stats.watchers, stats.changes), (1, 1, 2));
    assert_eq!(
        stats.bytes,
        entry.frame(rhumb_cache::EventKind::Modified).len()
    );
    drop(watcher);
    let last = delete(&*store, "pods/ns/a").await;
    wait(&hub, last).await;
    let stats = pods(&hub).stats();
    assert_eq!(
        (
            stats.objects,
            stats.bytes,
            stats.watchers,
            stats.history_changes
        ),
        (0, 0, 0, 3)
    );
    assert_eq!(hub.revision(), Revision::new(3));
}

#[tokio::test]
async fn what_was_made_of_an_event_is_made_once_while_the_event_is_young() {
    let memory = Memory::new();
    let store: Arc<dyn Store> = memory.clone();
    let hub = start(&store, Options::default()).await;
    let mut watchers = [(); 3].map(|()| watch(&pods(&hub), Start::Latest));
    put(&*store, "pods/ns/a", ";;1").await;
    let (made, form) = (std::cell::Cell::new(0), Arc::from("a form"));
    let make = || {
        made.set(made.get() + 1);
        Ok::<_, ()>(bytes::Bytes::from("bytes"))
    };
    let mut first = None;
    for watcher in &mut watchers {
        let Message::Event(event) = next(watcher).await.expect("an event") else {
            panic!("not an event");
        };
        assert_eq!(event.form(&form, make), Ok("bytes".into()));
        first = Some(event);
    }
    assert_eq!(made.get(), 1);
    let event = first.expect("events");
    let failed = event.form(&"another".into(), || Err("no"));
    assert_eq!(failed, Err("no"));
    assert_eq!(event.form(&"another".into(), make), Ok("bytes".into()));
    assert_eq!(made.get(), 2);
    for index in 0..600 {
        put(&*store, "pods/ns/b", &format!(";;{index}")).await;
    }
    current(&hub).await;
    assert_eq!(event.form(&form, make), Ok("bytes".into()));
    assert_eq!(made.get(), 3, "what is old is not kept in every form");
}
