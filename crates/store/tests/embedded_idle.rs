//! CPU use of an idle embedded store. A single test, because it measures the whole process.

mod simulated_disk;

use std::time::Duration;

use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store::{Error, ExpectedRevision, Store, Transaction};
use simulated_disk::SimulatedDisk;

/// The CPU time of all threads so far, in hundredths of a second.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("read /proc/self/stat");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .expect("stat fields")
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().expect("number") + fields[12].parse::<u64>().expect("number")
}

/// The disk fails while there are many versions to prune.
#[tokio::test]
async fn a_failed_store_is_idle() {
    let disk = SimulatedDisk::default();
    let store = EmbeddedStore::open_on(disk.clone(), EmbeddedOptions::default())
        .await
        .expect("create store");
    for _ in 0..600 {
        let mut transaction = Transaction::new();
        for key in 0..120 {
            transaction = transaction.put(format!("/k/{key}"), "v", ExpectedRevision::Any);
        }
        store.commit(transaction).await.expect("commit write");
    }
    let now = store.revision().await.expect("read revision");
    store.compact(now).await.expect("compact");
    disk.fail_syncs(true);
    let failed = store
        .commit(Transaction::new().put("/b", "x", ExpectedRevision::Any))
        .await;
    assert!(
        matches!(failed, Err(Error::StorageFailed { .. })),
        "{failed:?}"
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = processor_time();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = processor_time() - before;
    assert!(used < 20, "{used} centiseconds of CPU time in two seconds");
}
