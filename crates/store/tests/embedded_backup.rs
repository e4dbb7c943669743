//! Backup, check and restore of an embedded store.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rhumb_store::embedded::{
    self, DataDirectoryError, EmbeddedOptions, EmbeddedStore, RESTORE_REVISION_GAP,
};
use rhumb_store::{Error, ExpectedRevision, RangeRequest, Revision, Store, Transaction};
use tempfile::tempdir;

async fn open(path: &Path) -> Result<EmbeddedStore, DataDirectoryError> {
    EmbeddedStore::open(path, EmbeddedOptions::default()).await
}

async fn put(store: &EmbeddedStore, key: &str, value: &str) -> Revision {
    let transaction = Transaction::new().put(key, value.to_owned(), ExpectedRevision::Any);
    store.commit(transaction).await.expect("commit write")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_busy_store_is_a_consistent_snapshot() {
    let directory = tempdir().expect("create temporary directory");
    let path = directory.path();
    let store = Arc::new(open(&path.join("a")).await.expect("create store"));
    put(&store, "/gone", "x").await;
    let delete = Transaction::new().delete("/gone", ExpectedRevision::Any);
    store.commit(delete).await.expect("commit deletion");
    let writer = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for index in 0..2000 {
                let value = index.to_string();
                let both = Transaction::new()
                    .put(
                        format!("/left/{}", index % 40),
                        value.clone(),
                        ExpectedRevision::Any,
                    )
                    .put(
                        format!("/right/{}", index % 40),
                        value,
                        ExpectedRevision::Any,
                    );
                store.commit(both).await.expect("commit write");
            }
        })
    };
    while store
        .range(RangeRequest::prefix("/left/"))
        .await
        .expect("range read")
        .entries
        .len()
        < 40
    {
        tokio::task::yield_now().await;
    }
    let file = path.join("backup");
    let saved = store.backup(&file).await.expect("back up");
    writer.await.expect("writer task");
    let seen = store.revision().await.expect("read revision");
    assert!(saved.revision < seen, "writers continued during the backup");
    let again = store.backup(&file).await;
    assert!(again.is_err(), "a backup must not overwrite a file");

    let restored = embedded::restore(&file, &path.join("b")).expect("restore backup");
    assert_eq!((restored.entries, saved.entries), (80, 80));
    let copy = open(&path.join("b")).await.expect("open restored store");
    let values =
        |page: rhumb_store::RangePage| page.entries.into_iter().map(|e| (e.value, e.modified));
    let left: Vec<_> = values(
        copy.range(RangeRequest::prefix("/left/"))
            .await
            .expect("range read"),
    )
    .collect();
    let right: Vec<_> = values(
        copy.range(RangeRequest::prefix("/right/"))
            .await
            .expect("range read"),
    )
    .collect();
    assert_eq!(left, right, "transactions are atomic");
    let at = store
        .range(RangeRequest::prefix("/left/").at(saved.revision))
        .await
        .expect("range read");
    assert_eq!(values(at).collect::<Vec<_>>(), left);

    // No revision that a client may have seen is reused, and all of them count as compacted.
    let next = put(&copy, "/new", "x").await;
    assert!(next > seen && next.get() > RESTORE_REVISION_GAP);
    let stale = copy.changes("/", seen).await;
    assert!(matches!(stale, Err(Error::Compacted { .. })));
    let taken = embedded::restore(&file, &path.join("b")).expect_err("must fail: directory in use");
    assert!(taken.to_string().contains("in use"), "{taken}");
    copy.close().await;
    let taken =
        embedded::restore(&file, &path.join("b")).expect_err("must fail: directory not empty");
    assert!(taken.to_string().contains("empty directory"), "{taken}");
}

#[tokio::test]
async fn a_closed_store_can_be_checked_and_backed_up() {
    let directory = tempdir().expect("create temporary directory");
    let path = directory.path();
    let store = open(&path.join("a")).await.expect("create store");
    for index in 0..10 {
        put(&store, &format!("/k/{index}"), "12345").await;
    }
    let revision = store.revision().await.expect("read revision");
    store.close().await;
    let report = embedded::check_store(&path.join("a")).expect("check store");
    assert_eq!(
        (report.entries, report.bytes, report.revision),
        (10, 50, revision)
    );
    assert!(report.damaged.is_empty());
    let saved = embedded::backup_offline(&path.join("a"), &path.join("backup")).expect("back up");
    assert_eq!(saved, report);
    let missing = embedded::check_store(&path.join("nowhere")).expect_err("must fail: no store");
    assert!(missing.to_string().contains("nowhere"), "{missing}");
    assert!(!path.join("nowhere").exists());
    let nowhere = path.join("no/such/directory");
    let unwritten = embedded::backup_offline(&path.join("a"), &nowhere)
        .expect_err("must fail: no such directory");
    assert!(
        unwritten.to_string().contains("no/such/directory:"),
        "{unwritten}"
    );
    let no_backup = embedded::restore(&path.join("nothing"), &path.join("c"))
        .expect_err("must fail: no such file");
    assert!(no_backup.to_string().contains("nothing"), "{no_backup}");
}

/// More data than is held in memory while reading.
#[tokio::test]
async fn a_large_store_is_checked_backed_up_and_restored() {
    let directory = tempdir().expect("create temporary directory");
    let path = directory.path();
    let store = open(&path.join("a")).await.expect("create store");
    for index in 0..60 {
        put(
            &store,
            &format!("/k/{index:02}"),
            &format!("{index:02}").repeat(500_000),
        )
        .await;
    }
    let online = store.backup(&path.join("online")).await.expect("back up");
    store.close().await;
    let checked = embedded::check_store(&path.join("a")).expect("check store");
    assert_eq!((checked.entries, checked.bytes), (60, 60_000_000));
    let offline =
        embedded::backup_offline(&path.join("a"), &path.join("offline")).expect("back up");
    assert_eq!((&online, &offline), (&checked, &checked));
    for (file, target) in [("online", "b"), ("offline", "c")] {
        let before = fs::read(path.join(file)).expect("read backup file");
        let restored =
            embedded::restore(&path.join(file), &path.join(target)).expect("restore backup");
        assert_eq!((restored.entries, restored.bytes), (60, 60_000_000));
        let after = fs::read(path.join(file)).expect("read backup file");
        assert!(before == after, "restoring changed the backup");
        let checked = embedded::check_store(&path.join(target)).expect("check store");
        assert_eq!(checked.entries, 60);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_backups_with_one_name_one_succeeds() {
    let directory = tempdir().expect("create temporary directory");
    let store = Arc::new(
        open(&directory.path().join("a"))
            .await
            .expect("create store"),
    );
    for index in 0..200 {
        put(&store, &format!("/k/{index}"), &"v".repeat(2000)).await;
    }
    let backups: Vec<_> = (0..6)
        .map(|_| {
            let (store, file) = (Arc::clone(&store), directory.path().join("backup"));
            tokio::spawn(async move { store.backup(&file).await })
        })
        .collect();
    let mut made = 0;
    for backup in backups {
        match backup.await.expect("back up") {
            Ok(_) => made += 1,
            Err(error) => assert!(error.to_string().contains("exists already"), "{error}"),
        }
    }
    assert_eq!(made, 1);
    let mut names: Vec<_> = fs::read_dir(directory.path())
        .expect("read directory")
        .map(|item| item.expect("directory entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "backup"], "no temporary file is left");
    let restored = embedded::restore(
        &directory.path().join("backup"),
        &directory.path().join("b"),
    );
    assert_eq!(restored.expect("restore backup").entries, 200);
}

/// Every restored store starts at a revision that no other store has used.
#[tokio::test]
async fn restoring_twice_never_uses_a_revision_twice() {
    let directory = tempdir().expect("create temporary directory");
    let path = directory.path();
    let store = open(&path.join("a")).await.expect("create store");
    put(&store, "/k/x", "1").await;
    store.backup(&path.join("backup")).await.expect("back up");
    store.close().await;
    let mut last = Revision::ZERO;
    for name in ["b", "c"] {
        embedded::restore(&path.join("backup"), &path.join(name)).expect("restore backup");
        let store = open(&path.join(name)).await.expect("open restored store");
        for value in 0..10 {
            let revision = put(&store, "/k/x", &value.to_string()).await;
            assert!(revision > last);
            last = revision;
        }
        store.close().await;
    }
}
