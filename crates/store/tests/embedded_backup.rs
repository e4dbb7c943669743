//! How an embedded store is saved, checked and brought back.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rhumb_store::embedded::{self, Embedded, FileError, Options, RESTORE_REVISION_GAP};
use rhumb_store::{Error, Expect, Range, Revision, Store, Transaction};
use tempfile::tempdir;

async fn open(path: &Path) -> Result<Embedded, FileError> {
    Embedded::open(path, Options::default()).await
}

async fn put(store: &Embedded, key: &str, value: &str) -> Revision {
    let transaction = Transaction::new().put(key, value.to_owned(), Expect::Any);
    store.commit(transaction).await.expect("a write")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_busy_store_is_one_moment_of_it() {
    let directory = tempdir().expect("a directory");
    let path = directory.path();
    let store = Arc::new(open(&path.join("a")).await.expect("a new store"));
    put(&store, "/gone", "x").await;
    let delete = Transaction::new().delete("/gone", Expect::Any);
    store.commit(delete).await.expect("a deletion");
    let writer = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for index in 0..2000 {
                let value = index.to_string();
                let both = Transaction::new()
                    .put(format!("/left/{}", index % 40), value.clone(), Expect::Any)
                    .put(format!("/right/{}", index % 40), value, Expect::Any);
                store.commit(both).await.expect("a write");
            }
        })
    };
    while store
        .range(Range::prefix("/left/"))
        .await
        .expect("a range")
        .entries
        .len()
        < 40
    {
        tokio::task::yield_now().await;
    }
    let file = path.join("backup");
    let saved = store.backup(&file).await.expect("a backup");
    writer.await.expect("the writer");
    let seen = store.revision().await.expect("the revision");
    assert!(saved.revision < seen, "the writers went on meanwhile");
    let again = store.backup(&file).await;
    assert!(again.is_err(), "a backup overwrites nothing");

    let restored = embedded::restore(&file, &path.join("b")).expect("a restore");
    assert_eq!((restored.entries, saved.entries), (80, 80));
    let copy = open(&path.join("b")).await.expect("the restored store");
    let values = |page: rhumb_store::Page| page.entries.into_iter().map(|e| (e.value, e.modified));
    let left: Vec<_> =
        values(copy.range(Range::prefix("/left/")).await.expect("a range")).collect();
    let right: Vec<_> =
        values(copy.range(Range::prefix("/right/")).await.expect("a range")).collect();
    assert_eq!(left, right, "transactions are whole");
    let at = store
        .range(Range::prefix("/left/").at(saved.revision))
        .await
        .expect("a range");
    assert_eq!(values(at).collect::<Vec<_>>(), left);

    // No revision that anybody has seen is ever used again, and all of them count as compacted.
    let next = put(&copy, "/new", "x").await;
    assert!(next > seen && next.get() > RESTORE_REVISION_GAP);
    let stale = copy.changes("/", seen).await;
    assert!(matches!(stale, Err(Error::Compacted { .. })));
    let taken = embedded::restore(&file, &path.join("b")).expect_err("the directory is in use");
    assert!(taken.to_string().contains("in use"), "{taken}");
    copy.close().await;
    let taken = embedded::restore(&file, &path.join("b")).expect_err("the directory is not empty");
    assert!(taken.to_string().contains("empty directory"), "{taken}");
}

#[tokio::test]
async fn a_store_at_rest_can_be_checked_and_backed_up() {
    let directory = tempdir().expect("a directory");
    let path = directory.path();
    let store = open(&path.join("a")).await.expect("a new store");
    for index in 0..10 {
        put(&store, &format!("/k/{index}"), "12345").await;
    }
    let revision = store.revision().await.expect("the revision");
    store.close().await;
    let report = embedded::check(&path.join("a")).expect("a check");
    assert_eq!(
        (report.entries, report.bytes, report.revision),
        (10, 50, revision)
    );
    assert!(report.damaged.is_empty());
    let saved = embedded::backup_file(&path.join("a"), &path.join("backup")).expect("a backup");
    assert_eq!(saved, report);
    let missing = embedded::check(&path.join("nowhere")).expect_err("there is no store");
    assert!(missing.to_string().contains("nowhere"), "{missing}");
    assert!(!path.join("nowhere").exists());
    let nowhere = path.join("no/such/directory");
    let unwritten = embedded::backup_file(&path.join("a"), &nowhere).expect_err("no directory");
    assert!(
        unwritten.to_string().contains("no/such/directory:"),
        "{unwritten}"
    );
    let no_backup = embedded::restore(&path.join("nothing"), &path.join("c")).expect_err("no file");
    assert!(no_backup.to_string().contains("nothing"), "{no_backup}");
}

/// Far more than is kept in memory while it is read.
#[tokio::test]
async fn a_large_store_is_checked_saved_and_brought_back() {
    let directory = tempdir().expect("a directory");
    let path = directory.path();
    let store = open(&path.join("a")).await.expect("a new store");
    for index in 0..60 {
        put(
            &store,
            &format!("/k/{index:02}"),
            &format!("{index:02}").repeat(500_000),
        )
        .await;
    }
    let online = store.backup(&path.join("online")).await.expect("a backup");
    store.close().await;
    let checked = embedded::check(&path.join("a")).expect("a check");
    assert_eq!((checked.entries, checked.bytes), (60, 60_000_000));
    let offline = embedded::backup_file(&path.join("a"), &path.join("offline")).expect("a backup");
    assert_eq!((&online, &offline), (&checked, &checked));
    for (file, target) in [("online", "b"), ("offline", "c")] {
        let before = fs::read(path.join(file)).expect("the backup");
        let restored = embedded::restore(&path.join(file), &path.join(target)).expect("a restore");
        assert_eq!((restored.entries, restored.bytes), (60, 60_000_000));
        let after = fs::read(path.join(file)).expect("the backup");
        assert!(before == after, "restoring changed the backup");
        let checked = embedded::check(&path.join(target)).expect("a check");
        assert_eq!(checked.entries, 60);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_backups_of_one_name_one_is_made() {
    let directory = tempdir().expect("a directory");
    let store = Arc::new(
        open(&directory.path().join("a"))
            .await
            .expect("a new store"),
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
        match backup.await.expect("a backup") {
            Ok(_) => made += 1,
            Err(error) => assert!(error.to_string().contains("exists already"), "{error}"),
        }
    }
    assert_eq!(made, 1);
    let mut names: Vec<_> = fs::read_dir(directory.path())
        .expect("the directory")
        .map(|item| item.expect("an item").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "backup"], "nothing is left over");
    let restored = embedded::restore(
        &directory.path().join("backup"),
        &directory.path().join("b"),
    );
    assert_eq!(restored.expect("a restore").entries, 200);
}

/// Each restored store goes on where no other has been.
#[tokio::test]
async fn restoring_twice_never_uses_a_revision_twice() {
    let directory = tempdir().expect("a directory");
    let path = directory.path();
    let store = open(&path.join("a")).await.expect("a new store");
    put(&store, "/k/x", "1").await;
    store.backup(&path.join("backup")).await.expect("a backup");
    store.close().await;
    let mut last = Revision::ZERO;
    for name in ["b", "c"] {
        embedded::restore(&path.join("backup"), &path.join(name)).expect("a restore");
        let store = open(&path.join(name)).await.expect("the restored store");
        for value in 0..10 {
            let revision = put(&store, "/k/x", &value.to_string()).await;
            assert!(revision > last);
            last = revision;
        }
        store.close().await;
    }
}
