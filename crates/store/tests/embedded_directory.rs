//! The data directory of the embedded store: whose it is, what may lie in it, and how large it gets.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rhumb_store::embedded::{Embedded, FileError, Options, Retention};
use rhumb_store::{Error, Expect, Range, Revision, Store, Transaction};
use tempfile::tempdir;

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
        let content = if item.path().is_dir() {
            Vec::new()
        } else {
            fs::read(item.path()).expect("a file")
        };
        files.insert(name, content);
    }
    files
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
    fs::write(directory.path().join("store.redb"), "SQLite format 3\0").expect("a file");
    check_refused(directory.path(), &["store.redb", "not a rhumb store"]).await;
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_alone() {
    let directory = tempdir().expect("a directory");
    let file = directory.path().join("store.redb");
    let database = redb::Database::create(&file).expect("a database");
    let write = database.begin_write().expect("a write");
    let table: redb::TableDefinition<'_, &str, &str> = redb::TableDefinition::new("theirs");
    write
        .open_table(table)
        .expect("a table")
        .insert("a", "b")
        .expect("a row");
    write.commit().expect("a commit");
    drop(database);
    check_refused(directory.path(), &["store.redb", "another program"]).await;
}

#[tokio::test]
async fn an_emptied_file_is_refused_and_left_alone() {
    let directory = tempdir().expect("a directory");
    open(directory.path())
        .await
        .expect("a new store")
        .close()
        .await;
    fs::write(directory.path().join("store.redb"), "").expect("a file");
    check_refused(
        directory.path(),
        &["store.redb", "is damaged", "empty", "restore"],
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
    let file = directory.path().join("store.redb");
    let good = fs::read(&file).expect("the file");
    for length in [10, 100, 4096, good.len() / 2] {
        fs::write(&file, &good[..length]).expect("a file");
        check_refused(directory.path(), &["store.redb", "is damaged", "restore"]).await;
    }
}

#[tokio::test]
async fn a_store_of_a_later_format_is_refused_and_left_alone() {
    let directory = tempdir().expect("a directory");
    open(directory.path())
        .await
        .expect("a new store")
        .close()
        .await;
    let database = redb::Database::open(directory.path().join("store.redb")).expect("a database");
    let write = database.begin_write().expect("a write");
    let formats: redb::TableDefinition<'_, (), u64> = redb::TableDefinition::new("format");
    write
        .open_table(formats)
        .expect("a table")
        .insert((), 2)
        .expect("a row");
    write.commit().expect("a commit");
    drop(database);
    check_refused(directory.path(), &["store.redb", "format 2", "format 1"]).await;
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
        "new/store.redb",
        "new/LOCK",
        "existing/store.redb",
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
    fs::write(directory.path().join("store.redb.new"), "half a database").expect("a file");
    let store = open(directory.path()).await.expect("a new store");
    assert_eq!(
        store.revision().await.expect("the revision"),
        Revision::new(1)
    );
    assert!(!directory.path().join("store.redb.new").exists());
}

/// History goes by count, its room is used again, and the file does not grow with the number of writes.
#[tokio::test(flavor = "multi_thread")]
async fn the_file_stays_bounded_however_much_is_written() {
    const KEYS: usize = 50;
    const ROUNDS: usize = 8;
    // What may be kept: the history, a tenth more, and what waits to be removed. The file grows by doubling,
    // and shrinks again, so at any moment it may be twice what is needed.
    const VERSIONS_MAX: usize = 2000 + 200 + 2 * 4096;
    const VERSION_BYTES: usize = 1024;
    const FILE_BYTES_MAX: usize = 2 * VERSIONS_MAX * VERSION_BYTES;
    let directory = tempdir().expect("a directory");
    let options = Options {
        retention: Retention {
            revisions_max: 2000,
            ..Retention::default()
        },
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
    // Without an end to history these 80,000 writes would take three times as much.
    assert!(
        sizes.iter().all(|size| *size <= FILE_BYTES_MAX as u64),
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
