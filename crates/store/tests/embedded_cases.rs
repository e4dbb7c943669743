//! Single cases in which a log like that of the embedded store goes wrong easily.

mod simulated_disk;

use std::time::{Duration, Instant};

use rhumb_store::embedded::{Embedded, Options};
use rhumb_store::{ChangeStream, Error, Expect, Range, Revision, Store, Transaction};
use simulated_disk::SimulatedDisk;
use tokio::time::timeout;

const SEGMENT_BYTES: u64 = 4096;

/// Long enough for what does not wait.
const MOMENT: Duration = Duration::from_millis(50);

fn options() -> Options {
    Options {
        segment_bytes: SEGMENT_BYTES,
        ..Options::default()
    }
}

async fn open(disk: &SimulatedDisk) -> Embedded {
    let store = Embedded::open_on(disk.clone(), options()).await;
    store.unwrap_or_else(|error| panic!("the store does not open: {error}"))
}

async fn put(store: &Embedded, key: &str, bytes: usize) -> Revision {
    let put = Transaction::new().put(key, "v".repeat(bytes), Expect::Any);
    store.commit(put).await.expect("a write")
}

async fn delete(store: &Embedded, key: &str) -> Revision {
    let delete = Transaction::new().delete(key, Expect::Any);
    store.commit(delete).await.expect("a deletion")
}

/// Waits until the cleaner has nothing more to do.
async fn rest(disk: &SimulatedDisk) {
    let mut before = usize::MAX;
    while disk.position() != before {
        before = disk.position();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
}

async fn compact(store: &Embedded) {
    let now = store.revision().await.expect("the revision");
    store.compact(now).await.expect("a compaction");
}

async fn has(store: &Embedded, key: &str) -> bool {
    store.get(key).await.expect("a read").is_some()
}

/// A stream that leads, and whose reader asks for nothing any more.
async fn hanging_reader(store: &Embedded) -> Box<dyn ChangeStream> {
    let start = store.revision().await.expect("the revision");
    let mut stream = store.lead("/", start).await.expect("a stream");
    assert!(timeout(MOMENT, stream.next()).await.is_err());
    stream
}

/// Ends the segment that grows: the next write is too large for it.
async fn end_segment(store: &Embedded, name: &str) {
    put(store, &format!("/live/{name}"), 3000).await;
}

/// Compactions without writes fill a segment; the next one has no other name.
#[tokio::test]
async fn a_segment_is_never_followed_by_one_of_the_same_name() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    for index in 0..200 {
        put(&store, &format!("/k/{index}"), 10).await;
    }
    for revision in 2..=200 {
        store
            .compact(Revision::new(revision))
            .await
            .expect("a compaction");
    }
    put(&store, "/after", 10).await;
    // The cleaner looks around once a second when nothing happens.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    rest(&disk).await;
    store.close().await;
    assert!(has(&open(&disk).await, "/after").await);
}

/// One compaction at the beginning of a segment, as an idle store makes it by itself, and then a large write.
#[tokio::test]
async fn a_compaction_and_a_large_write_in_a_new_segment() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    put(&store, "/a", 2400).await;
    // The next segment is begun, which takes two syncs, but the write itself finds no room.
    disk.be_full_after_syncs(Some(2));
    let large = Transaction::new().put("/large", "v".repeat(30_000), Expect::Any);
    let refused = store.commit(large).await;
    assert!(
        matches!(refused, Err(Error::StorageFull { .. })),
        "{refused:?}"
    );
    disk.be_full_after_syncs(None);
    tokio::time::sleep(Duration::from_millis(150)).await;
    compact(&store).await;
    put(&store, "/large", 30_000).await;
    put(&store, "/a", 2400).await;
    compact(&store).await;
    put(&store, "/b", 2400).await;
    rest(&disk).await;
    store.close().await;
    assert!(has(&open(&disk).await, "/large").await);
}

/// A deletion that is alone in the log counts when its key comes back.
#[tokio::test]
async fn a_key_that_was_deleted_twice_stays_deleted() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    // What is written first is packed first.
    put(&store, "/x", 10).await;
    put(&store, "/garbage", 3000).await;
    end_segment(&store, "1").await;
    delete(&store, "/x").await;
    put(&store, "/later", 10).await;
    end_segment(&store, "2").await;
    put(&store, "/garbage", 10).await;
    compact(&store).await;
    rest(&disk).await;
    store.close().await;

    // The deletion is all that the log has of the key.
    let store = open(&disk).await;
    put(&store, "/x", 10).await;
    put(&store, "/beside", 500).await;
    end_segment(&store, "3").await;
    delete(&store, "/live/1").await;
    compact(&store).await;
    rest(&disk).await;
    end_segment(&store, "4").await;
    delete(&store, "/x").await;
    put(&store, "/garbage", 3000).await;
    end_segment(&store, "5").await;
    put(&store, "/garbage", 10).await;
    compact(&store).await;
    rest(&disk).await;
    assert!(!has(&store, "/x").await);
    store.close().await;
    assert!(!has(&open(&disk).await, "/x").await, "it came back");
}

/// The deletion is packed away before what it deleted, and the key came back later.
#[tokio::test]
async fn the_past_of_a_key_that_came_back_is_the_same_after_a_start() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    put(&store, "/x", 10).await;
    put(&store, "/beside", 500).await;
    end_segment(&store, "1").await;
    put(&store, "/garbage", 3000).await;
    delete(&store, "/x").await;
    end_segment(&store, "2").await;
    let between = put(&store, "/garbage", 10).await;
    put(&store, "/x", 20).await;
    store.compact(between).await.expect("a compaction");
    rest(&disk).await;
    let past = || Range::prefix("/x").at(between);
    assert_eq!(store.range(past()).await.expect("a range").entries, []);
    store.close().await;
    let store = open(&disk).await;
    assert_eq!(store.range(past()).await.expect("a range").entries, []);
}

/// The folder cannot be synced once, after the next segment has its name; then something small is written.
#[tokio::test]
async fn a_segment_whose_rename_failed_late_is_no_obstacle() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    put(&store, "/a", 2000).await;
    disk.fail_renames_late(1);
    let large = Transaction::new().put("/large", "v".repeat(3000), Expect::Any);
    let refused = store.commit(large).await;
    assert!(refused.is_err(), "{refused:?}");
    tokio::time::sleep(Duration::from_millis(150)).await;
    // It may be refused, but what is acknowledged is there.
    let small = Transaction::new().put("/small", "x", Expect::Any);
    let acknowledged = store.commit(small).await.is_ok();
    store.close().await;
    let store = open(&disk).await;
    let found = store.get("/small").await.expect("a read").is_some();
    assert_eq!(found, acknowledged);
}

/// A writer whose answer waits for a reader that hangs, and then the disk fails.
#[tokio::test]
async fn a_writer_is_answered_also_when_the_store_stands_still() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    let _hanging = hanging_reader(&store).await;
    let mut first = Box::pin(store.commit(Transaction::new().put("/a", "x", Expect::Any)));
    assert!(timeout(MOMENT, &mut first).await.is_err(), "it waits");
    disk.fail_syncs(true);
    let failed = store
        .commit(Transaction::new().put("/b", "x", Expect::Any))
        .await;
    assert!(matches!(failed, Err(Error::Failed { .. })), "{failed:?}");
    let answered = timeout(Duration::from_secs(8), first).await;
    assert!(answered.is_ok(), "the first writer waits for ever");
}

/// The same on a disk that is full, with writers that try all the time.
#[tokio::test]
async fn a_writer_is_answered_also_while_others_are_refused() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    let _hanging = hanging_reader(&store).await;
    let mut first = Box::pin(store.commit(Transaction::new().put("/a", "x", Expect::Any)));
    assert!(timeout(MOMENT, &mut first).await.is_err(), "it waits");
    disk.be_full_after_syncs(Some(0));
    let until = Instant::now() + Duration::from_secs(8);
    while Instant::now() < until {
        let refused = store
            .commit(Transaction::new().put("/b", "x", Expect::Any))
            .await;
        assert!(
            matches!(refused, Err(Error::StorageFull { .. })),
            "{refused:?}"
        );
        if timeout(Duration::from_millis(100), &mut first)
            .await
            .is_ok()
        {
            return;
        }
    }
    panic!("the first writer waits for ever");
}

/// One sector that cannot be read, below a record that nobody needs, and a load that overwrites.
#[tokio::test]
async fn a_bad_sector_does_not_stop_the_giving_back_of_room() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    for round in 0..4 {
        put(&store, "/k", 1500 + round).await;
    }
    disk.break_sector("00000000000000000002.log", 2000);
    for round in 0..400 {
        put(&store, "/k", 1500 + round % 3).await;
        if round % 20 == 19 {
            compact(&store).await;
        }
    }
    rest(&disk).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    rest(&disk).await;
    let used = disk.bytes_used();
    assert!(
        used < 100_000,
        "{used} bytes for one key of 1500, {} files",
        disk.file_names().len()
    );
}

/// Long-lived keys among short-lived ones: a hundredth of what is written stays. Everything is small, so that deletions
/// are about as large as what they delete.
#[tokio::test]
async fn deletions_of_small_entries_do_not_pile_up() {
    let disk = SimulatedDisk::default();
    let segment_bytes = 16 * 1024;
    let options = Options {
        segment_bytes,
        ..Options::default()
    };
    let store = Embedded::open_on(disk.clone(), options)
        .await
        .expect("a new store");
    let mut live = 0;
    for round in 0..3000 {
        let mut transaction = Transaction::new();
        for index in 0..10 {
            transaction = transaction.put(format!("/short/{round:06}/{index}"), "", Expect::Any);
            if let Some(before) = usize::checked_sub(round, 12) {
                transaction =
                    transaction.delete(format!("/short/{before:06}/{index}"), Expect::Any);
            }
        }
        if round % 5 == 0 {
            transaction = transaction.put(format!("/long/{round:06}"), "", Expect::Any);
            live += 1;
        }
        store.commit(transaction).await.expect("a write");
        if round % 50 == 49 {
            compact(&store).await;
        }
    }
    rest(&disk).await;
    let (used, needed) = (disk.bytes_used(), live * 2 * (19 + 12));
    assert!(
        used < 6 * needed + 4 * segment_bytes as usize,
        "{used} bytes for entries of {needed}"
    );
}

/// A process that has too many files open for a moment when the next segment is begun.
#[tokio::test]
async fn too_many_open_files_for_a_moment_do_not_stop_the_store() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    put(&store, "/a", 2000).await;
    disk.fail_creates(1);
    let refused = store
        .commit(Transaction::new().put("/b", "v".repeat(3000), Expect::Any))
        .await;
    assert!(refused.is_ok(), "the old one grows on: {refused:?}");
    put(&store, "/b", 3000).await;
}

/// A value that looks like thousands of frames with long tables, torn by a crash.
#[tokio::test]
async fn a_torn_value_that_looks_like_frames_does_not_take_long_to_judge() {
    let disk = SimulatedDisk::default();
    let store = Embedded::open_on(disk.clone(), Options::default())
        .await
        .expect("a new store");
    put(&store, "/before", 10).await;
    let records = 1_500_000u32 / 16;
    let mut unit = Vec::new();
    unit.extend_from_slice(b"rhfr");
    unit.extend_from_slice(&[0; 8]);
    unit.extend_from_slice(&records.to_le_bytes());
    unit.extend_from_slice(&[0; 8]);
    assert_eq!(unit.len() % 8, 0);
    // Records begin anywhere; one of eight such values lies as it should.
    let mut times = Vec::new();
    for shift in 0..8 {
        let mut value = vec![b'.'; shift];
        value.extend(unit.repeat(100_000));
        let put = Transaction::new().put("/hostile", value, Expect::Any);
        let position = disk.position();
        store.commit(put).await.expect("a write");
        let trace = disk.trace();
        let mut image = simulated_disk::Image::default();
        for (number, operation) in trace.iter().enumerate() {
            let large = matches!(operation, simulated_disk::Operation::Write { bytes, .. }
                if number >= position && bytes.len() > 2_000_000 && bytes.iter().any(|byte| *byte != 0));
            if large {
                image.carry_out(operation, 2_399_000);
                break;
            }
            image.carry_out(operation, usize::MAX);
        }
        let begun = Instant::now();
        let torn = Embedded::open_on(SimulatedDisk::with_content(image), Options::default())
            .await
            .expect("the store");
        times.push(begun.elapsed());
        drop(torn);
    }
    let longest = times.iter().max().expect("times");
    assert!(*longest < Duration::from_secs(2), "{times:?}");
}

/// A packed segment has its name, but the folder could not be synced, and the cleaner takes it for a failure. Later it
/// packs one of those segments alone.
#[tokio::test]
async fn a_packed_segment_whose_rename_failed_late_brings_nothing_back() {
    let disk = SimulatedDisk::default();
    let one_each = Options {
        segment_bytes: 1600,
        ..Options::default()
    };
    let store = Embedded::open_on(disk.clone(), one_each)
        .await
        .expect("a new store");
    put(&store, "/a", 1400).await;
    let two = Transaction::new()
        .put("/k", "v".repeat(200), Expect::Any)
        .put("/b", "v".repeat(150), Expect::Any);
    store.commit(two).await.expect("a write");
    put(&store, "/live", 3000).await;
    put(&store, "/tail", 10).await;
    store.close().await;

    disk.fail_replacements_late(1);
    let store = open(&disk).await;
    rest(&disk).await;
    // The store may stand still by now.
    let large = Transaction::new().put("/live/1", "v".repeat(3000), Expect::Any);
    if store.commit(large).await.is_err() {
        return;
    }
    delete(&store, "/k").await;
    let deleted = disk.position();
    end_segment(&store, "2").await;
    compact(&store).await;
    // The cleaner pauses after a failure.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    rest(&disk).await;
    assert!(store.get("/k").await.expect("a read").is_none());
    store.close().await;
    // A crash after any operation since the deletion.
    let trace = disk.trace();
    let mut image = simulated_disk::Image::default();
    for (position, operation) in trace.iter().enumerate() {
        image.carry_out(operation, usize::MAX);
        if position >= deleted && matches!(operation, simulated_disk::Operation::Rename { .. }) {
            let crashed = SimulatedDisk::with_content(image.clone());
            let found = open(&crashed).await.get("/k").await.expect("a read");
            assert!(
                found.is_none(),
                "it came back with a crash after {position}: {operation:?}"
            );
        }
    }
}

/// The first segment of a store looks much like a backup once it has been packed.
#[tokio::test]
async fn a_part_of_a_store_is_no_backup() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let store = Embedded::open(&data, options()).await.expect("a new store");
    put(&store, "/old", 100).await;
    for round in 0..60 {
        put(&store, "/k", 1500 + round % 3).await;
    }
    compact(&store).await;
    delete(&store, "/old").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    store.close().await;
    let part = data.join("log/00000000000000000002.log");
    let restored = rhumb_store::embedded::restore(&part, &directory.path().join("restored"));
    assert!(restored.is_err(), "{restored:?}");
}

/// Once a reader has been given up waiting for, the next writer does not wait for it again.
#[tokio::test]
async fn a_reader_that_hangs_is_waited_for_once() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    let _hanging = hanging_reader(&store).await;
    put(&store, "/a", 1).await;
    let begun = Instant::now();
    for _ in 0..3 {
        put(&store, "/a", 1).await;
    }
    let took = begun.elapsed();
    assert!(
        took < Duration::from_secs(1),
        "three more writes took {took:?}"
    );
}
