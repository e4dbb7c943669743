//! The embedded store on a disk that is full, fails to sync, or has changed what it was given.

mod simulated_disk;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rhumb_store::embedded::{self, Embedded, Options};
use rhumb_store::{ChangeEvent, Error, Expect, Range, Revision, Store, Transaction};
use rhumb_store_conformance::Random;
use simulated_disk::{Image, Operation, SimulatedDisk, after_crash};

async fn put(store: &Embedded, key: &str, value: &str) -> Result<Revision, Error> {
    let transaction = Transaction::new().put(key, value.to_owned(), Expect::Any);
    store.commit(transaction).await
}

async fn keys(store: &Embedded) -> Vec<String> {
    let page = store.range(Range::prefix("/")).await.expect("a range");
    page.entries
        .iter()
        .map(|entry| entry.key.to_string())
        .collect()
}

/// Writes once the store has noticed that there is room again, which takes it a moment.
async fn put_when_there_is_room(store: &Embedded, key: &str, value: &str) -> Revision {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match put(store, key, value).await {
            Ok(revision) => return revision,
            Err(Error::StorageFull { .. } | Error::OutcomeUnknown { .. })
                if Instant::now() < deadline =>
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => panic!("there is room: {error}"),
        }
    }
}

/// Writes until the disk is full; tells which keys were acknowledged.
async fn fill(store: &Embedded, from: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for index in from.. {
        let key = format!("/k/{index:06}");
        match put(store, &key, &"v".repeat(3000)).await {
            Ok(_) => acknowledged.push(key),
            Err(Error::StorageFull { .. }) => break,
            Err(error) => panic!("a full disk is not {error}"),
        }
    }
    acknowledged
}

/// Row 6, again and again with room for any number of pages, so that every stage of a write meets it.
#[tokio::test]
async fn a_full_disk_fails_writes_cleanly_and_recovers_without_a_restart() {
    let disk = SimulatedDisk::default();
    let store = Embedded::open_on(disk.clone(), Options::default())
        .await
        .expect("a new store");
    let mut expected = Vec::new();
    let start = store.revision().await.expect("the revision");
    for round in 0..40 {
        disk.leave_room(Some(round));
        expected.extend(fill(&store, round * 1000).await);
        assert_eq!(keys(&store).await, expected, "reads go on, round {round}");
        disk.leave_room(None);
        let key = format!("/k/{:06}", round * 1000 + 999);
        put_when_there_is_room(&store, &key, "room again").await;
        expected.push(key);
    }
    assert_eq!(keys(&store).await, expected);
    let mut stream = store.changes("/k/0", start).await.expect("a stream");
    for key in &expected {
        match stream.next().await.expect("streams go on") {
            ChangeEvent::Changes(set) => assert_eq!(&**set.changes[0].key(), key),
            ChangeEvent::Progress(_) => panic!("nobody asked"),
        }
    }
    drop(stream);
    store.close().await;
    let store = Embedded::open_on(disk, Options::default())
        .await
        .expect("the store");
    assert_eq!(keys(&store).await, expected);
}

/// A disk on which there is no room at all is not tried all the time, also when there is history to remove, and
/// then everything goes on.
#[tokio::test]
async fn a_disk_that_stays_full_does_not_keep_the_store_busy() {
    const SYNCS_A_COMMIT: usize = 1;
    let disk = SimulatedDisk::default();
    let store = Embedded::open_on(disk.clone(), Options::default())
        .await
        .expect("a new store");
    for index in 0..200 {
        put(&store, &format!("/k/{}", index % 10), &"v".repeat(3000))
            .await
            .expect("a write");
    }
    let revision = store.revision().await.expect("the revision");
    disk.be_full_after_syncs(Some(SYNCS_A_COMMIT));
    store
        .compact(revision)
        .await
        .expect("the last write that finds room");
    let before = disk.writes();
    let until = Instant::now() + Duration::from_millis(700);
    while Instant::now() < until {
        let refused = put(&store, "/k/refused", "x").await;
        assert!(
            matches!(&refused, Err(Error::StorageFull { .. })),
            "{refused:?}"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let tries = disk.writes() - before;
    assert!(tries <= 24, "{tries} tries in less than a second");
    disk.be_full_after_syncs(None);
    put_when_there_is_room(&store, "/k/after", "x").await;
    let mut stream = store.changes("/", revision).await.expect("a stream");
    let mut expected: Vec<String> = (0..10).map(|index| format!("/k/{index}")).collect();
    while expected.last().is_none_or(|last| last != "/k/after") {
        match stream.next().await.expect("a change") {
            ChangeEvent::Changes(set) => expected.push(set.changes[0].key().to_string()),
            ChangeEvent::Progress(_) => panic!("nobody asked"),
        }
    }
    expected.sort();
    assert_eq!(keys(&store).await, expected);
}

/// A write whose sync finds no room is taken back, and its writer, readers and streams all hear the same. When not even
/// that works, it is unknown what a crash would leave, and the store goes on without it.
#[tokio::test]
async fn a_write_that_fails_late_is_told_as_it_turned_out() {
    let mut unknown = 0;
    for first in 0..3 {
        for count in 1..6 {
            let disk = SimulatedDisk::default();
            let store = Embedded::open_on(disk.clone(), Options::default())
                .await
                .expect("a new store");
            let before = put(&store, "/k/before", "x").await.expect("a write");
            disk.fail_syncs_for_lack_of_room(first..first + count);
            let outcome = put(&store, "/k/doubtful", "x").await;
            let crashed = disk.trace();
            put_when_there_is_room(&store, "/k/after", "x").await;
            let found = store.get("/k/doubtful").await.expect("a read").is_some();
            let told = next_key(&store, before).await == "/k/doubtful";
            assert_eq!((found, told), (outcome.is_ok(), outcome.is_ok()));
            disk.fail_syncs_for_lack_of_room(0..0);
            store.close().await;
            let store = Embedded::open_on(disk, Options::default())
                .await
                .expect("the store");
            let reopened = store.get("/k/doubtful").await.expect("a read").is_some();
            assert_eq!(reopened, found, "syncs {first}..{}", first + count);
            let certain = match outcome {
                Ok(_) => Some(true),
                Err(Error::StorageFull { .. }) => Some(false),
                Err(Error::OutcomeUnknown { .. }) => None,
                Err(error) => panic!("{error}"),
            };
            unknown += usize::from(certain.is_none());
            for seed in 1..20 {
                let after = found_after_crash(&crashed, seed).await;
                assert!(certain.is_none_or(|certain| certain == after));
            }
        }
    }
    assert!(unknown > 0, "no case in which the outcome was unknown");
}

async fn found_after_crash(trace: &[Operation], seed: u64) -> bool {
    let image = after_crash(
        &Image::default(),
        trace,
        trace.len(),
        &mut Random::new(seed),
    );
    let store = Embedded::open_on(SimulatedDisk::with_content(image), Options::default())
        .await
        .expect("the store");
    store.get("/k/doubtful").await.expect("a read").is_some()
}

/// The key of the first change after a revision.
async fn next_key(store: &Embedded, after: Revision) -> String {
    let mut stream = store.changes("/", after).await.expect("a stream");
    match stream.next().await.expect("a change") {
        ChangeEvent::Changes(set) => set.changes[0].key().to_string(),
        ChangeEvent::Progress(_) => panic!("nobody asked"),
    }
}

/// A sector that cannot be read for a moment.
#[tokio::test]
async fn a_failed_read_does_not_stop_the_store() {
    let disk = SimulatedDisk::default();
    let store = Embedded::open_on(disk.clone(), Options::default())
        .await
        .expect("a new store");
    for index in 0..100 {
        put(&store, &format!("/k/{index:02}"), &"v".repeat(3000))
            .await
            .expect("a write");
    }
    for count in [1, 2] {
        disk.fail_reads(count);
        assert_eq!(keys(&store).await.len(), 100, "it is read once more");
        put(&store, "/k/00", "again").await.expect("writes go on");
    }
    disk.fail_reads(usize::MAX);
    let failed = store.range(Range::prefix("/")).await;
    assert!(
        matches!(failed, Err(Error::Unavailable { .. })),
        "{failed:?}"
    );
    disk.fail_reads(0);
    assert_eq!(keys(&store).await.len(), 100);
    put_when_there_is_room(&store, "/k/00", "and again").await;
}

/// Row 7.
#[tokio::test]
async fn after_a_failed_sync_nothing_is_acknowledged_until_the_store_is_opened_again() {
    let disk = SimulatedDisk::default();
    let store = Embedded::open_on(disk.clone(), Options::default())
        .await
        .expect("a new store");
    let before = put(&store, "/k/before", "1").await.expect("a write");
    disk.fail_syncs(true);
    let during = put(&store, "/k/during", "2").await;
    assert!(matches!(during, Err(Error::Failed { .. })), "{during:?}");
    disk.fail_syncs(false);
    let after = put(&store, "/k/after", "3").await;
    assert!(matches!(after, Err(Error::Failed { .. })), "{after:?}");
    assert_eq!(store.revision().await.expect("the revision"), before);
    store.close().await;
    // The kernel may have dropped what it failed to write.
    for seed in 1..50 {
        let (trace, mut random) = (disk.trace(), Random::new(seed));
        let image = after_crash(&Image::default(), &trace, disk.position(), &mut random);
        let disk = SimulatedDisk::with_content(image);
        let store = Embedded::open_on(disk, Options::default())
            .await
            .expect("the store");
        let keys = keys(&store).await;
        assert!(
            keys == ["/k/before"] || keys == ["/k/before", "/k/during"],
            "{keys:?}"
        );
        put(&store, "/k/after", "3")
            .await
            .expect("writes work again");
    }
}

/// The only segment of a small store.
fn store_file(directory: &Path) -> std::path::PathBuf {
    directory.join("log/00000000000000000002.log")
}

/// Flips one bit of `text` wherever it stands in the file.
fn flip_a_bit_of(file: &Path, text: &str) {
    let mut bytes = fs::read(file).expect("the file");
    let windows = bytes.windows(text.len()).enumerate();
    let places: Vec<_> = windows
        .filter(|(_, w)| *w == text.as_bytes())
        .map(|(p, _)| p)
        .collect();
    assert!(!places.is_empty(), "{text} stands in the file");
    for place in places {
        bytes[place + text.len() / 2] ^= 0x10;
    }
    fs::write(file, bytes).expect("the file");
}

/// Row 5.
#[tokio::test]
async fn a_flipped_bit_is_reported_with_its_key_and_harms_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let store = Embedded::open(path, Options::default())
        .await
        .expect("a new store");
    for index in 0..50 {
        put(
            &store,
            &format!("/k/{index:02}"),
            &format!("unmistakable-{index:02}"),
        )
        .await
        .expect("a write");
    }
    let revision = store.revision().await.expect("the revision");
    store.close().await;
    flip_a_bit_of(&store_file(path), "unmistakable-23");

    let report = embedded::check(path).expect("a check");
    assert_eq!((report.entries, report.damaged.len()), (49, 1));
    assert!(report.damaged[0].starts_with("/k/23"), "{report:?}");

    let store = Embedded::open(path, Options::default())
        .await
        .expect("the store opens");
    assert_eq!(store.revision().await.expect("the revision"), revision);
    for index in 0..50 {
        let key = format!("/k/{index:02}");
        match store.get(&key).await {
            Ok(Some(entry)) => assert_eq!(entry.value, format!("unmistakable-{index:02}")),
            Err(Error::Damaged { key: named, .. }) => assert_eq!((named, index), (key, 23)),
            other => panic!("{key}: {other:?}"),
        }
    }
    let range = store.range(Range::prefix("/k/")).await;
    assert!(
        matches!(&range, Err(Error::Damaged { key, .. }) if key == "/k/23"),
        "{range:?}"
    );
    let rest = store
        .range(Range::prefix("/k/").after("/k/23"))
        .await
        .expect("the rest");
    assert_eq!(rest.entries.len(), 26);
    let backup = store.backup(&path.join("backup")).await;
    assert!(
        backup.is_err(),
        "a backup never leaves out what it cannot read"
    );
    let delete = Transaction::new().delete("/k/23", Expect::Any);
    store
        .commit(delete)
        .await
        .expect("what is damaged can be deleted");
    assert_eq!(keys(&store).await.len(), 49);
}

/// Any damage anywhere in the file: what is read afterwards is what was written, or an error.
#[tokio::test]
async fn damage_anywhere_in_the_file_never_changes_what_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let good = make_store(directory.path(), 200).await;
    let mut random = Random::new(3);
    for _ in 0..300 {
        let mut bytes = good.clone();
        let place = random.below(bytes.len());
        let length = 1 + random.below(64);
        for byte in bytes.iter_mut().skip(place).take(length) {
            *byte ^= 1 << random.below(8);
        }
        check_damaged(bytes, 200, place).await;
    }
}

/// Single bits, wherever they are: those of headers, tables, checksums and lengths as well.
#[tokio::test]
async fn no_single_bit_makes_an_entry_disappear() {
    let directory = tempfile::tempdir().expect("a directory");
    let good = make_store(directory.path(), 12).await;
    let used = |place: &usize| {
        good[place.saturating_sub(64)..*place + 1]
            .iter()
            .any(|byte| *byte != 0)
    };
    for place in (0..good.len()).filter(used) {
        let mut bytes = good.clone();
        bytes[place] ^= 1 << (place % 8);
        check_damaged(bytes, 12, place).await;
    }
}

/// Several segments, of which one is cut off, emptied or gone.
#[tokio::test]
async fn a_segment_that_is_missing_or_cut_off_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let options = || Options {
        segment_bytes: 16 * 1024,
        ..Options::default()
    };
    let store = Embedded::open(path, options()).await.expect("a new store");
    for index in 0..200 {
        put(&store, &format!("/k/{index:03}"), &value(index))
            .await
            .expect("a write");
    }
    store.close().await;
    let items = fs::read_dir(path.join("log")).expect("the log");
    let mut files: Vec<_> = items.map(|item| item.expect("an item").path()).collect();
    files.sort();
    assert!(files.len() > 3, "{files:?}");
    for file in files {
        let good = fs::read(&file).expect("a segment");
        fs::remove_file(&file).expect("it goes");
        assert!(
            Embedded::open(path, options()).await.is_err(),
            "{file:?} is gone"
        );
        for length in [0, 10, 600, 1100, good.len() / 2, good.len() - 64] {
            fs::write(&file, &good[..length]).expect("a part of it");
            let opened = Embedded::open(path, options()).await.map(|_| ());
            assert!(opened.is_err(), "{file:?} cut off at {length}");
        }
        fs::write(&file, &good).expect("all of it");
    }
    let store = Embedded::open(path, options()).await.expect("the store");
    assert_eq!(keys(&store).await.len(), 200);
}

fn value(index: usize) -> String {
    format!("value {index:03} ").repeat(20)
}

/// A store of so many entries, as bytes.
async fn make_store(directory: &Path, entries: usize) -> Vec<u8> {
    let store = Embedded::open(directory, Options::default())
        .await
        .expect("a new store");
    for index in 0..entries {
        put(&store, &format!("/k/{index:03}"), &value(index))
            .await
            .expect("a write");
    }
    store.close().await;
    fs::read(store_file(directory)).expect("the file")
}

/// Opens a damaged file: a refusal is fine, and so is an error for an entry, but no other answer.
async fn check_damaged(bytes: Vec<u8>, entries: usize, place: usize) {
    let damaged = tempfile::tempdir().expect("a directory");
    fs::create_dir(damaged.path().join("log")).expect("a folder");
    fs::write(store_file(damaged.path()), bytes).expect("the file");
    let checked = embedded::check(damaged.path());
    let Ok(store) = Embedded::open(damaged.path(), Options::default()).await else {
        return;
    };
    let mut errors = 0;
    for index in 0..entries {
        match store.get(&format!("/k/{index:03}")).await {
            Ok(Some(entry)) => assert_eq!(entry.value, value(index)),
            Ok(None) => panic!("damage at {place} made entry {index} disappear"),
            Err(_) => errors += 1,
        }
    }
    if let Ok(report) = checked {
        assert_eq!(
            report.damaged.len(),
            errors,
            "damage at {place}: {report:?}"
        );
    }
    store.close().await;
}
