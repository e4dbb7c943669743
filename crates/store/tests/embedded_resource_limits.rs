//! The embedded store without free file descriptors or space: it continues, and reports whether it can be written to.

mod simulated_disk;

use std::time::Duration;

use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store::{Error, ExpectedRevision, Revision, Store, Transaction};
use simulated_disk::SimulatedDisk;
use tokio::time::{sleep, timeout};

const SEGMENT_BYTES: u64 = 4096;

/// How long tests wait for a condition.
const PATIENCE: Duration = Duration::from_secs(30);

async fn open(disk: &SimulatedDisk) -> EmbeddedStore {
    let options = EmbeddedOptions {
        segment_bytes: SEGMENT_BYTES,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open_on(disk.clone(), options).await;
    store.unwrap_or_else(|error| panic!("failed to open the store: {error}"))
}

async fn put(store: &EmbeddedStore, key: &str, bytes: usize) -> Result<Revision, Error> {
    let put = Transaction::new().put(key, "v".repeat(bytes), ExpectedRevision::Any);
    store.commit(put).await
}

fn segment_count(disk: &SimulatedDisk) -> usize {
    let names = disk.file_names();
    names.iter().filter(|name| name.ends_with(".log")).count()
}

/// Clients use up all file descriptors while the store needs new segments.
#[tokio::test]
async fn a_lack_of_file_descriptors_does_not_stop_the_store() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    put(&store, "/a", 2000).await.expect("commit");
    disk.set_out_of_descriptors(true);
    let segments = segment_count(&disk);
    for number in 0..20 {
        put(&store, &format!("/b{number}"), 3000)
            .await
            .expect("commit");
    }
    assert_eq!(
        segment_count(&disk),
        segments + 1,
        "the segment that was opened ahead is used, then it grows"
    );
    disk.set_out_of_descriptors(false);
    let rolled = async {
        while segment_count(&disk) == segments + 1 {
            put(&store, "/c", 3000).await.expect("commit");
            sleep(Duration::from_millis(20)).await;
        }
    };
    let rolled = timeout(PATIENCE, rolled).await;
    rolled.expect("the store starts new segments again");
    drop(store);
    let store = open(&disk).await;
    for key in ["/a", "/b0", "/b19", "/c"] {
        let entry = store.get(key).await.expect("readable");
        assert!(entry.is_some(), "{key}");
    }
}

/// What health checks report while the disk is full, after there is space again, and after storage failed.
#[tokio::test]
async fn a_store_that_cannot_write_says_so() {
    let disk = SimulatedDisk::default();
    let store = EmbeddedStore::open_on(disk.clone(), EmbeddedOptions::default())
        .await
        .expect("create store");
    assert!(store.check_writable().await.is_ok());
    disk.limit_free_pages(Some(0));
    let mut number = 0;
    while put(&store, &format!("/k{number}"), 3000).await.is_ok() {
        number += 1;
    }
    let full = store.check_writable().await;
    assert!(matches!(full, Err(Error::StorageFull { .. })), "{full:?}");
    disk.limit_free_pages(None);
    let written = async {
        while put(&store, "/again", 1).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, written).await.expect("writes continue");
    assert!(store.check_writable().await.is_ok());
    disk.fail_syncs(true);
    put(&store, "/lost", 1).await.expect_err("the sync fails");
    let failed = store.check_writable().await;
    assert!(
        matches!(failed, Err(Error::StorageFailed { .. })),
        "{failed:?}"
    );
}
