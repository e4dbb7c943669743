//! The data directory of the embedded store: locking, foreign and damaged files, permissions, size.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rhumb_store::embedded::{DataDirectoryError, EmbeddedOptions, EmbeddedStore, RetentionPolicy};
use rhumb_store::{Error, ExpectedRevision, RangeRequest, Revision, Store, Transaction};
use tempfile::tempdir;

/// The only segment of a small store.
const SEGMENT: &str = "log/00000000000000000002.log";

async fn open(path: &Path) -> Result<EmbeddedStore, DataDirectoryError> {
    EmbeddedStore::open(path, EmbeddedOptions::default()).await
}

async fn put(store: &EmbeddedStore, key: &str, value: &str) -> Revision {
    let transaction = Transaction::new().put(key, value.to_owned(), ExpectedRevision::Any);
    store.commit(transaction).await.expect("commit write")
}

/// All files below a directory with their content.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for item in fs::read_dir(path).expect("read directory") {
        let item = item.expect("directory entry");
        let name = item.file_name().to_string_lossy().into_owned();
        if item.path().is_dir() {
            let inside = files_below(&item.path(), &name);
            files.extend(inside);
            files.insert(name, Vec::new());
        } else {
            files.insert(name, fs::read(item.path()).expect("write file"));
        }
    }
    files
}

fn files_below(path: &Path, above: &str) -> BTreeMap<String, Vec<u8>> {
    let name = |(name, content)| (format!("{above}/{name}"), content);
    files(path).into_iter().map(name).collect()
}

/// Checks that opening fails with a message that contains these words, and that it changes nothing.
async fn check_refused(path: &Path, words: &[&str]) {
    let before = files(path);
    let error = open(path)
        .await
        .map(|_| ())
        .expect_err("open must fail")
        .to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} not found in: {error}");
    }
    assert!(!error.contains('\n'), "expected one line: {error}");
    let mut after = files(path);
    // Opening may leave only the lock file behind.
    if !before.contains_key("LOCK") {
        after.remove("LOCK");
    }
    assert!(before == after, "the directory was changed");
}

#[tokio::test]
async fn a_directory_in_use_is_rejected_with_the_process_id() {
    let directory = tempdir().expect("create temporary directory");
    let store = open(directory.path()).await.expect("create store");
    let error = open(directory.path())
        .await
        .map(|_| ())
        .expect_err("open must fail")
        .to_string();
    let process = std::process::id().to_string();
    assert!(
        error.contains(&process) && error.contains("in use"),
        "{error}"
    );
    store.close().await;
    open(directory.path())
        .await
        .expect("directory is unlocked")
        .close()
        .await;
}

/// The lock file may have been deleted by a person who thought that it was a leftover of a crash.
#[tokio::test]
async fn a_deleted_lock_file_does_not_admit_a_second_process() {
    let directory = tempdir().expect("create temporary directory");
    let first = open(directory.path()).await.expect("create store");
    fs::remove_file(directory.path().join("LOCK")).expect("delete the lock file");
    let second = open(directory.path()).await;
    assert!(
        matches!(second, Err(DataDirectoryError::InUse { .. })),
        "{second:?}"
    );
    first.close().await;
    open(directory.path()).await.expect("the lock is released");
}

#[tokio::test]
async fn a_foreign_directory_is_rejected_unchanged() {
    let directory = tempdir().expect("create temporary directory");
    fs::create_dir(directory.path().join("member")).expect("create an etcd data directory");
    check_refused(
        directory.path(),
        &["member", "not a rhumb store", "choose another path"],
    )
    .await;
    assert!(!directory.path().join("LOCK").exists());
}

#[tokio::test]
async fn a_foreign_file_is_rejected_unchanged() {
    let directory = tempdir().expect("create temporary directory");
    fs::create_dir(directory.path().join("log")).expect("create directory");
    fs::write(directory.path().join(SEGMENT), "SQLite format 3\0").expect("write file");
    check_refused(directory.path(), &[SEGMENT, "not a rhumb store"]).await;
}

/// A `log` directory may belong to another program.
#[tokio::test]
async fn a_log_of_another_program_is_rejected_unchanged() {
    let directory = tempdir().expect("create temporary directory");
    fs::create_dir(directory.path().join("log")).expect("create directory");
    fs::write(directory.path().join("log/messages"), "began\nended\n").expect("write file");
    check_refused(directory.path(), &["log", "missing"]).await;
    fs::write(directory.path().join("log/server.log"), "began\nended\n").expect("write file");
    check_refused(directory.path(), &["log/server.log", "not a rhumb store"]).await;
}

#[tokio::test]
async fn an_emptied_file_is_rejected_unchanged() {
    let directory = tempdir().expect("create temporary directory");
    open(directory.path())
        .await
        .expect("create store")
        .close()
        .await;
    fs::write(directory.path().join(SEGMENT), "").expect("write file");
    check_refused(
        directory.path(),
        &[SEGMENT, "is damaged", "empty", "restore"],
    )
    .await;
}

#[tokio::test]
async fn a_truncated_file_is_rejected_unchanged() {
    let directory = tempdir().expect("create temporary directory");
    let store = open(directory.path()).await.expect("create store");
    for index in 0..300 {
        put(&store, &format!("/k/{index}"), &"v".repeat(1000)).await;
    }
    store.close().await;
    let file = directory.path().join(SEGMENT);
    let good = fs::read(&file).expect("access file");
    for length in [10, 100, 4096, good.len() / 2] {
        fs::write(&file, &good[..length]).expect("write file");
        check_refused(directory.path(), &[SEGMENT, "is damaged", "restore"]).await;
    }
}

#[tokio::test]
async fn a_store_of_another_format_is_rejected_unchanged() {
    let directory = tempdir().expect("create temporary directory");
    fs::write(directory.path().join("store.redb"), "redb").expect("write a file of format 1");
    check_refused(directory.path(), &["store.redb", "format 1", "format 2"]).await;

    let later = tempdir().expect("create temporary directory");
    open(later.path())
        .await
        .expect("create store")
        .close()
        .await;
    let file = later.path().join(SEGMENT);
    let mut bytes = fs::read(&file).expect("access segment file");
    bytes[8] = 3;
    let crc = crc32fast::hash(&[&bytes[..12], &bytes[16..64]].concat());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    fs::write(&file, bytes).expect("access segment file");
    check_refused(later.path(), &[SEGMENT, "format 3", "format 2"]).await;
}

#[tokio::test]
async fn an_inaccessible_directory_is_named() {
    let directory = tempdir().expect("create temporary directory");
    let file = directory.path().join("a-file");
    fs::write(&file, "").expect("write file");
    let error = open(&file.join("data"))
        .await
        .map(|_| ())
        .expect_err("open must fail")
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
    let directory = tempdir().expect("create temporary directory");
    let (new, existing) = (
        directory.path().join("new"),
        directory.path().join("existing"),
    );
    fs::create_dir(&existing).expect("create temporary directory");
    let store = open(&new).await.expect("create store");
    store
        .backup(&directory.path().join("backup"))
        .await
        .expect("back up");
    store.close().await;
    open(&existing).await.expect("create store").close().await;
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
async fn a_crash_during_creation_does_not_block_the_next_start() {
    let directory = tempdir().expect("create temporary directory");
    fs::create_dir(directory.path().join("log.new")).expect("create directory");
    fs::write(directory.path().join("log.new/half"), "half a log").expect("write file");
    let store = open(directory.path()).await.expect("create store");
    assert_eq!(
        store.revision().await.expect("read revision"),
        Revision::new(1)
    );
    assert!(!directory.path().join("log.new").exists());
}

/// History is compacted by count, its space is reclaimed, and the log does not grow with the number of writes.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_size_does_not_grow_with_the_number_of_writes() {
    const KEYS: usize = 50;
    const ROUNDS: usize = 8;
    // The bound: the history and a tenth more, the same amount of dead records that are not worth packing, the active
    // segment, a segment being packed and its copy.
    const VERSIONS_MAX: usize = 2 * (2000 + 200);
    const VERSION_BYTES: usize = 1024;
    const SEGMENT_BYTES: usize = 1 << 20;
    const LOG_BYTES_MAX: usize = VERSIONS_MAX * VERSION_BYTES + 4 * SEGMENT_BYTES;
    let directory = tempdir().expect("create temporary directory");
    let options = EmbeddedOptions {
        retention: RetentionPolicy {
            revisions_max: 2000,
            ..RetentionPolicy::default()
        },
        segment_bytes: SEGMENT_BYTES as u64,
        ..EmbeddedOptions::default()
    };
    let store = Arc::new(
        EmbeddedStore::open(directory.path(), options)
            .await
            .expect("create store"),
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
            writer.await.expect("writer task");
        }
        sizes.push(store.stats().file_bytes);
    }
    // Without compaction these 80,000 writes would take eight times as much.
    assert!(
        sizes.iter().all(|size| *size <= LOG_BYTES_MAX as u64),
        "{sizes:?}"
    );
    let current = store.revision().await.expect("read revision");
    let old = store
        .changes("/", Revision::new(current.get() - 10_000))
        .await;
    assert!(matches!(old, Err(Error::Compacted { .. })));
    store
        .changes("/", Revision::new(current.get() - 1000))
        .await
        .expect("recent history is kept");
    let page = store
        .range(RangeRequest::prefix("/k/"))
        .await
        .expect("range read");
    assert_eq!(page.entries.len(), KEYS);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_compacted_by_age() {
    let directory = tempdir().expect("create temporary directory");
    let options = EmbeddedOptions {
        retention: RetentionPolicy {
            age_max: Duration::from_millis(500),
            ..RetentionPolicy::default()
        },
        ..EmbeddedOptions::default()
    };
    let store = Arc::new(
        EmbeddedStore::open(directory.path(), options)
            .await
            .expect("create store"),
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
            write.await.expect("commit write");
        }
    }
    let gone = async {
        while store.changes("/", first).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .expect("old history is compacted in time");
    assert_eq!(
        store
            .range(RangeRequest::prefix("/k/"))
            .await
            .expect("range read")
            .entries
            .len(),
        101
    );
}
