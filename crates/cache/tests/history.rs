//! The change history: its limits, past snapshots, and watchers that fall behind.

mod support;

use std::sync::Arc;
use std::time::Duration;

use rhumb_cache::{CacheOptions, HistoryError, WatchEnd, WatchMessage, WatchRequest, WatchStart};
use rhumb_meta::{Clock, ManualClock, Revision};
use rhumb_store::Store;
use rhumb_store_conformance::SeededRng;
use support::memory_store::MemoryStore;
use support::{
    contents, current, delete, drain, key, next, pods, put, start, summarize, wait, watch,
};

fn memory_store() -> (Arc<MemoryStore>, Arc<dyn Store>) {
    let memory = MemoryStore::new();
    (Arc::clone(&memory), memory)
}

#[tokio::test]
async fn history_is_kept_for_its_age_and_then_expires() {
    let (_, store) = memory_store();
    let clock = Arc::new(ManualClock::default());
    let options = CacheOptions {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..CacheOptions::default()
    };
    let manager = start(&store, options).await;
    let first = put(&*store, "pods/ns/a", ";;1").await;
    let second = put(&*store, "pods/ns/a", ";;2").await;
    wait(&manager, second).await;
    let mut stalled = watch(&pods(&manager), WatchStart::After(first));
    clock.advance(Duration::from_secs(75));
    let third = put(&*store, "pods/ns/a", ";;3").await;
    wait(&manager, third).await;
    let at = pods(&manager).snapshot_at(first).expect("still there");
    assert_eq!(
        contents(&at)["ns/a"],
        format!("{{\"rv\":{first},\"body\":\"1\"}}")
    );
    // The first segment is trimmed as a whole, once its last change is too old.
    clock.advance(Duration::from_secs(76));
    let fourth = put(&*store, "pods/ns/a", ";;4").await;
    wait(&manager, fourth).await;
    let mut filled = fourth;
    for index in 0..300 {
        filled = put(&*store, "pods/ns/b", &format!(";;{index}")).await;
    }
    wait(&manager, filled).await;
    clock.advance(Duration::from_secs(76));
    let last = put(&*store, "pods/ns/b", ";;last").await;
    wait(&manager, last).await;
    let expired = pods(&manager).snapshot_at(second).expect_err("too old");
    let oldest = pods(&manager).oldest_revision();
    assert_eq!(
        expired,
        HistoryError::Expired {
            requested: second,
            oldest
        }
    );
    assert!(oldest > second && oldest <= last);
    let again = WatchRequest::everything(WatchStart::After(second));
    assert_eq!(pods(&manager).watch(again).err(), Some(expired));
    assert_eq!(next(&mut stalled).await.err(), Some(WatchEnd::Expired));
    assert_eq!(next(&mut stalled).await.err(), Some(WatchEnd::Expired));
    assert_eq!(pods(&manager).stats().expired_watchers, 1);
    // A resource without changes can be read at any older revision, until the next compaction.
    let quiet = manager
        .cache(&support::prefix("services/endpoints"))
        .expect("cached");
    assert!(quiet.snapshot_at(first).is_ok());
}

#[tokio::test(start_paused = true)]
async fn past_contents_of_a_quiet_resource_expire() {
    let (_, store) = memory_store();
    let clock = Arc::new(ManualClock::default());
    let options = CacheOptions {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..CacheOptions::default()
    };
    let interval = options.compaction_interval;
    let manager = start(&store, options).await;
    let quiet = manager
        .cache(&support::prefix("services/endpoints"))
        .expect("cached");
    let advance = async |time: Duration| {
        clock.advance(time);
        // The maintenance runs several times a minute.
        tokio::time::sleep(Duration::from_secs(60)).await;
    };
    let first = put(&*store, "pods/ns/a", ";;1").await;
    wait(&manager, first).await;
    advance(interval).await;
    let second = put(&*store, "pods/ns/a", ";;2").await;
    wait(&manager, second).await;
    assert!(quiet.snapshot_at(first).is_ok());
    advance(interval - Duration::from_secs(1)).await;
    assert!(quiet.snapshot_at(first).is_ok());
    advance(Duration::from_secs(1)).await;
    assert!(
        quiet.snapshot_at(first).is_ok(),
        "this is the compacted revision"
    );
    advance(interval).await;
    let expired = HistoryError::Expired {
        requested: first,
        oldest: second,
    };
    assert_eq!(quiet.snapshot_at(first).err(), Some(expired));
    assert!(quiet.snapshot_at(second).is_ok());
    // Nothing was missed, so a watch continues.
    assert!(
        watch(&quiet, WatchStart::After(first))
            .try_next()
            .is_ok_and(|next| next.is_none())
    );
    assert_eq!(quiet.snapshot().revision(), second);
}

#[tokio::test]
async fn history_is_bounded_in_bytes_and_number() {
    for (bytes_max, changes_max) in [(3 << 20, usize::MAX), (usize::MAX, 1000)] {
        let (_, store) = memory_store();
        let options = CacheOptions {
            history_bytes_max: bytes_max,
            history_changes_max: changes_max,
            ..CacheOptions::default()
        };
        let manager = start(&store, options).await;
        let value = format!(";;{}", "v".repeat(4000));
        for index in 0..3000 {
            let key = format!("pods/ns/{}", index % 100);
            let revision = match index % 10 {
                9 => delete(&*store, &key).await,
                _ => put(&*store, &key, &value).await,
            };
            if index % 100 == 0 {
                wait(&manager, revision).await;
                let stats = pods(&manager).stats();
                assert!(stats.history_bytes <= bytes_max, "{stats:?}");
                assert!(stats.history_changes <= changes_max, "{stats:?}");
            }
        }
        current(&manager).await;
        let stats = pods(&manager).stats();
        assert!(stats.history_changes > 200, "{stats:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_past_snapshot_is_exact() {
    let (_, store) = memory_store();
    let manager = start(&store, CacheOptions::default()).await;
    let random = &mut SeededRng::new(7);
    let begin = current(&manager).await;
    let mut versions = vec![(begin, contents(&pods(&manager).snapshot()))];
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
            wait(&manager, revision).await;
            versions.push((revision, contents(&pods(&manager).snapshot())));
        }
    }
    for (revision, expect) in &versions {
        let snapshot = pods(&manager)
            .snapshot_at(*revision)
            .expect("in the history");
        assert_eq!(snapshot.revision(), *revision);
        assert_eq!(&contents(&snapshot), expect, "at {revision}");
        assert_eq!(snapshot.len(), expect.len());
    }
    let latest = pods(&manager).snapshot();
    assert_eq!(latest.corrupt().count(), pods(&manager).stats().corrupt);
    assert!(pods(&manager).stats().corrupt > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_one_revision_ignore_later_writes() {
    let (_, store) = memory_store();
    for index in 0..500 {
        put(&*store, &format!("pods/ns-{}/{index:03}", index % 3), ";;x").await;
    }
    let manager = start(&store, CacheOptions::default()).await;
    for namespace in [None, Some("ns-1"), Some("ns"), Some("other")] {
        let first = pods(&manager).snapshot();
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
            let page = pods(&manager)
                .snapshot_at(first.revision())
                .expect("recent");
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
                wait(&manager, gone).await;
            }
        }
        assert_eq!(seen, expect);
        for index in 0..3 {
            delete(&*store, &format!("pods/ns-{index}/new")).await;
        }
        // Restore the original 500 objects.
        for index in 0..20 {
            let index = index * 17;
            if index % 3 != 1 {
                delete(&*store, &format!("pods/ns-1/{index:03}")).await;
            }
        }
        current(&manager).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_watcher_delays_no_other_and_misses_no_event() {
    let (_, store) = memory_store();
    let options = CacheOptions {
        watcher_queue_max: 16,
        ..CacheOptions::default()
    };
    let manager = start(&store, options).await;
    let mut stalled = watch(&pods(&manager), WatchStart::Latest);
    let mut healthy = watch(&pods(&manager), WatchStart::Latest);
    assert!(drain(&mut stalled).is_empty());
    let mut revisions = Vec::new();
    for index in 0..5000 {
        let revision = put(&*store, "pods/ns/a", &format!(";;{index}")).await;
        revisions.push(revision);
        let message = next(&mut healthy).await.expect("a message");
        assert!(summarize(&message).ends_with(&format!("@{revision}")));
    }
    assert_eq!(
        pods(&manager).stats().queue_overflows,
        1,
        "the dispatcher skips it after the overflow"
    );
    assert_eq!(stalled.progress(), None);
    for revision in revisions {
        let message = next(&mut stalled).await.expect("a message");
        assert!(summarize(&message).ends_with(&format!("@{revision}")));
    }
    assert_eq!(drain(&mut stalled), Vec::<String>::new());
    // A revision counts as applied only after its changes have been dispatched.
    let reached = current(&manager).await;
    assert_eq!(stalled.progress(), Some(reached));
    let last = put(&*store, "pods/ns/a", ";;z").await;
    for watcher in [&mut stalled, &mut healthy] {
        let message = next(watcher).await.expect("a message");
        assert_eq!(summarize(&message), format!("~ns/a@{last}"));
    }
}

#[tokio::test]
async fn corrupt_objects_are_errors_only_when_requested() {
    let (memory, store) = memory_store();
    for index in 0..40 {
        put(&*store, &format!("pods/ns/{index:02}"), ";;x").await;
    }
    put(&*store, "pods/ns/bad", "nonsense").await;
    memory.damage_key("/registry/pods/ns/17");
    let options = CacheOptions {
        page_objects: 10,
        startup_history_revisions: 0,
        ..CacheOptions::default()
    };
    let manager = start(&store, options).await;
    let cache = pods(&manager);
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
    assert_eq!((stats.objects, stats.corrupt), (39, 2));
    let mut watcher = watch(&cache, WatchStart::Latest);
    let good = put(&*store, "pods/ns/bad", ";;good").await;
    let bad = put(&*store, "pods/ns/00", "bad").await;
    let still_bad = put(&*store, "pods/ns/00", "worse").await;
    wait(&manager, still_bad).await;
    assert_eq!(
        drain(&mut watcher),
        [format!("+ns/bad@{good}"), format!("-ns/00@{bad}")]
    );
    check("ns/00", "not three parts");
    let gone = delete(&*store, "pods/ns/00").await;
    wait(&manager, gone).await;
    assert!(matches!(cache.snapshot().get(&key("ns/00")), Ok(None)));
    assert_eq!(drain(&mut watcher), Vec::<String>::new());
}

#[tokio::test]
async fn stats_are_consistent() {
    let (_, store) = memory_store();
    let manager = start(&store, CacheOptions::default()).await;
    put(&*store, "pods/ns/a", ";;12345").await;
    let watcher = watch(&pods(&manager), WatchStart::Latest);
    let last = put(&*store, "pods/ns/a", ";;1").await;
    wait(&manager, last).await;
    let stats = pods(&manager).stats();
    let entry = pods(&manager).snapshot();
    let entry = entry.get(&key("ns/a")).expect("readable").expect("there");
    assert_eq!((stats.objects, stats.watchers, stats.changes), (1, 1, 2));
    assert_eq!(
        stats.bytes,
        entry.frame(rhumb_cache::EventKind::Modified).len()
    );
    drop(watcher);
    let last = delete(&*store, "pods/ns/a").await;
    wait(&manager, last).await;
    let stats = pods(&manager).stats();
    assert_eq!(
        (
            stats.objects,
            stats.bytes,
            stats.watchers,
            stats.history_changes
        ),
        (0, 0, 0, 3)
    );
    assert_eq!(manager.applied_revision(), Revision::new(3));
}

#[tokio::test]
async fn recent_events_are_encoded_once() {
    let memory = MemoryStore::new();
    let store: Arc<dyn Store> = memory.clone();
    let manager = start(&store, CacheOptions::default()).await;
    let mut watchers = [(); 3].map(|()| watch(&pods(&manager), WatchStart::Latest));
    put(&*store, "pods/ns/a", ";;1").await;
    let (encode_count, form) = (std::cell::Cell::new(0), Arc::from("a form"));
    let make = || {
        encode_count.set(encode_count.get() + 1);
        Ok::<_, ()>(bytes::Bytes::from("bytes"))
    };
    let mut first = None;
    for watcher in &mut watchers {
        let WatchMessage::Event(event) = next(watcher).await.expect("an event") else {
            panic!("not an event");
        };
        assert_eq!(event.get_or_encode(&form, make), Ok("bytes".into()));
        first = Some(event);
    }
    assert_eq!(encode_count.get(), 1);
    let event = first.expect("events");
    let failed = event.get_or_encode(&"another".into(), || Err("no"));
    assert_eq!(failed, Err("no"));
    assert_eq!(
        event.get_or_encode(&"another".into(), make),
        Ok("bytes".into())
    );
    assert_eq!(encode_count.get(), 2);
    for index in 0..600 {
        put(&*store, "pods/ns/b", &format!(";;{index}")).await;
    }
    current(&manager).await;
    assert_eq!(event.get_or_encode(&form, make), Ok("bytes".into()));
    assert_eq!(
        encode_count.get(),
        3,
        "encodings of an old event are not cached"
    );
}
