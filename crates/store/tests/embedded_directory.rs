//! The data directory of the embedded store: whose it is, what may lie in it, and how large it gets.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rhumb_store::embedded::{Embedded, FileError, Options, Retention};
use rhumb_store::{Error, Expect, Range, Revision, Store, Transaction};
use tempfile::tempdir;

/// The only segment of a small store.
const SEGMENT: &str = "log/00000000000000000002.log";

async fn open(path: &Path) -> Result<Embedded, FileError> {
    Embedded::open(path, Options::default()).await
}

async fn put(store: &Embedded, key: &str, value: &str) -> Revision {
    let transaction = Transaction::new().put(key, value.to_owned(), Expect::Any);
    store.commit(transaction).await.expect("a write")
}

/// Every file below a directory with its content.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for item in fs::read_dir(path).expect("the directory") {
        let item = item.expect("an item");
        let name = item.file_name().to_string_lossy().into_owned();
        if item.path().is_dir() {
            let inside = files_below(&item.path(), &name);
            files.extend(inside);
            files.insert(name, Vec::new());
        } else {
            files.insert(name, fs::read(item.path()).expect("a file"));
        }
    }
    files
}

fn files_below(path: &Path, above: &str) -> BTreeMap<String, Vec<u8>> {
    let name = |(name, content)| (format!("{above}/{name}"), content);
    files(path).into_iter().map(name).collect()
}

/// Opening must be refused with a message that has these words, and change nothing.
async fn check_refused(path: &Path, words: &[&str]) {
    let before = files(path);
    let error = open(path)
        .await
        .map(|_| ())
        .expect_err("a refusal")
        .to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} is missing in: {error}");
    }
    assert!(!error.contains('\n'), "one line: {error}");
    let mut after = files(path);
    // Whoever holds the directory leaves only the lock behind.
    if !before.contains_key("LOCK") {
        after.remove("LOCK");
    }
    assert!(before == after, "something was changed");
}

#[tokio::test]
async fn a_directory_in_use_is_refused_with_the_process_that_uses_it() {
    let directory = tempdir().expect("a directory");
    let store = open(directory.path()).await.expect("a new store");
    let error = open(directory.path())
        .await
        .map(|_| ())
        .expect_err("a refusal")
        .to_string();
    let process = std::process::id().to_string();
    assert!(
        error.contains(&process) && error.contains("in use"),
        "{error}"
    );
    store.close().await;
    open(directory.path())
        .await
        .expect("free again")
        .close()
        .await;
}

#[tokio::test]
async fn a_foreign_directory_is_refused_and_left_alone() {
    let directory = tempdir().expect("a directory");
    fs::create_dir(directory.path().join("member")).expect("what etcd leaves");
    check_refused(
        directory.path(),
        &["member", "not a rhumb store", "choose another path"],
    )
    .await;
    assert!(!directory.path().join("LOCK").exists());
}

#[tokio::test]
async fn a_foreign_file_is_refused_and_left_alone() {
    let directory = tempdir().expect("a directory");
    fs::create_dir(directory.path().join("log")).expect("a folder");
    fs::write(directory.path().join(SEGMENT), "SQLite format 3\0").expect("a file");
    check_refused(directory.path(), &[SEGMENT, "not a rhumb store"]).await;
}

/// A folder of that name may be anybody's.
#[tokio::test]
async fn a_log_of_another_program_is_refused_and_left_alone() {
    let directory = tempdir().expect("a directory");
    fs::create_dir(directory.path().join("log")).expect("a folder");
    fs::write(directory.path().join("log/messages"), "began\nended\n").expect("a file");
    check_refused(directory.path(), &["log", "missing"]).await;
    fs::write(directory.path().join("log/server.log"), "began\nended\n").expect("a file");
    check_refused(directory.path(), &["log/server.log", "not a rhumb store"]).await;
}

#[tokio::test]
async fn an_emptied_file_is_refused_and_left_alone() {
    let directory = tempdir().expect("a directory");
    open(directory.path())
        .await
        .expect("a new store")
        .close()
        .await;
    fs::write(directory.path().join(SEGMENT), "").expect("a file");
    check_refused(
        directory.path(),
        &[SEGMENT, "is damaged", "empty", "restore"],
    )
    .await;
}

#[tokio::test]
async fn a_cut_off_file_is_refused_and_left_alone() {
    let directory = tempdir().expect("a directory");
    let store = open(directory.path()).await.expect("a new store");
    for index in 0..300 {
        put(&store, &format!("/k/{index}"), &"v".repeat(1000)).await;
    }
    store.close().await;
    let file = directory.path().join(SEGMENT);
    let good = fs::read(&file).expect("the file");
    for length in [10, 100, 4096, good.len() / 2] {
        fs::write(&file, &good[..length]).expect("a file");
        check_refused(directory.path(), &[SEGMENT, "is damaged", "restore"]).await;
    }
}

#[tokio::test]
async fn a_store_of_another_format_is_refused_and_left_alone() {
    let directory = tempdir().expect("a directory");
    fs::write(directory.path().join("store.redb"), "redb").expect("a file of format 1");
    check_refused(directory.path(), &["store.redb", "format 1", "format 2"]).await;

    let later = tempdir().expect("a directory");
    open(later.path()).await.expect("a new store").close().await;
    let file = later.path().join(SEGMENT);
    let mut bytes = fs::read(&file).expect("the segment");
    bytes[8] = 3;
    let crc = crc32fast::hash(&[&bytes[..12], &bytes[16..64]].concat());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    fs::write(&file, bytes).expect("the segment");
    check_refused(later.path(), &[SEGMENT, "format 3", "format 2"]).await;
}

#[tokio::test]
async fn a_directory_without_rights_is_named() {
    let directory = tempdir().expect("a directory");
    let file = directory.path().join("a-file");
    fs::write(&file, "").expect("a file");
    let error = open(&file.join("data"))
        .await
        .map(|_| ())
        .expect_err("a refusal")
        .to_string();
    assert!(
        error.contains("a-file") && error.contains("cannot use"),
        "{error}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_data_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempdir().expect("a directory");
    let (new, existing) = (
        directory.path().join("new"),
        directory.path().join("existing"),
    );
    fs::create_dir(&existing).expect("a directory");
    let store = open(&new).await.expect("a new store");
    store
        .backup(&directory.path().join("backup"))
        .await
        .expect("a backup");
    store.close().await;
    open(&existing).await.expect("a new store").close().await;
    for path in [
        "new",
        "new/log",
        "new/log/00000000000000000002.log",
        "new/LOCK",
        "existing/log/00000000000000000002.log",
        "backup",
    ] {
        let metadata = fs::metadata(directory.path().join(path)).expect(path);
        let mode = metadata.permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path}: {mode:o}");
    }
}

#[tokio::test]
async fn a_crash_while_the_store_is_made_leaves_nothing_in_the_way() {
    let directory = tempdir().expect("a directory");
    fs::create_dir(directory.path().join("log.new")).expect("a folder");
    fs::write(directory.path().join("log.new/half"), "half a log").expect("a file");
    let store = open(directory.path()).await.expect("a new store");
    assert_eq!(
        store.revision().await.expect("the revision"),
        Revision::new(1)
    );
    assert!(!directory.path().join("log.new").exists());
}

/// History goes by count, its room is given back, and the log does not grow with the number of writes.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_stays_bounded_however_much_is_written() {
    const KEYS: usize = 50;
    const ROUNDS: usize = 8;
    // What may be kept: the history and a tenth more, as much again that is not worth packing, the segment that
    // grows, one that is being packed and its copy.
    const VERSIONS_MAX: usize = 2 * (2000 + 200);
    const VERSION_BYTES: usize = 1024;
    const SEGMENT_BYTES: usize = 1 << 20;
    const LOG_BYTES_MAX: usize = VERSIONS_MAX * VERSION_BYTES + 4 * SEGMENT_BYTES;
    let directory = tempdir().expect("a directory");
    let options = Options {
        retention: Retention {
            revisions_max: 2000,
            ..Retention::default()
        },
        segment_bytes: SEGMENT_BYTES as u64,
        ..Options::default()
    };
    let store = Arc::new(
        Embedded::open(directory.path(), options)
            .await
            .expect("a new store"),
    );
    let mut sizes = Vec::new();
    for _ in 0..ROUNDS {
        let writers: Vec<_> = (0..KEYS)
            .map(|key| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for round in 0..200 {
                        put(
                            &store,
                            &format!("/k/{key}"),
                            &format!("{round}").repeat(300),
                        )
                        .await;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("a writer");
        }
        sizes.push(store.stats().file_bytes);
    }
    // Without an end to history these 80,000 writes would take eight times as much.
    assert!(
        sizes.iter().all(|size| *size <= LOG_BYTES_MAX as u64),
        "{sizes:?}"
    );
    let current = store.revision().await.expect("the revision");
    let old = store
        .changes("/", Revision::new(current.get() - 10_000))
        .await;
    assert!(matches!(old, Err(Error::Compacted { .. })));
    store
        .changes("/", Revision::new(current.get() - 1000))
        .await
        .expect("young history is kept");
    let page = store.range(Range::prefix("/k/")).await.expect("a range");
    assert_eq!(page.entries.len(), KEYS);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_goes_by_age() {
    let directory = tempdir().expect("a directory");
    let options = Options {
        retention: Retention {
            age_max: Duration::from_millis(500),
            ..Retention::default()
        },
        ..Options::default()
    };
    let store = Arc::new(
        Embedded::open(directory.path(), options)
            .await
            .expect("a new store"),
    );
    let first = put(&store, "/k/x", "first").await;
    for batch in 0..30 {
        let writes: Vec<_> = (0..100)
            .map(|index| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    put(&store, &format!("/k/{index}"), &batch.to_string()).await
                })
            })
            .collect();
        for write in writes {
            write.await.expect("a write");
        }
    }
    let gone = async {
        while store.changes("/", first).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .expect("old history goes");
    assert_eq!(
        store
            .range(Range::prefix("/k/"))
            .await
            .expect("a range")
            .entries
            .len(),
        101
    );
}
