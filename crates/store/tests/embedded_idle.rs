//! What an embedded store does when there is nothing to do. One test, as it measures the whole process.

mod simulated_disk;

use std::time::Duration;

use rhumb_store::embedded::{Embedded, Options};
use rhumb_store::{Error, Expect, Store, Transaction};
use simulated_disk::SimulatedDisk;

/// The processor time of all threads so far, in hundredths of a second.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the process");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .expect("fields")
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

/// The disk fails while there are many versions to forget.
#[tokio::test]
async fn a_store_that_stands_still_does_nothing() {
    let disk = SimulatedDisk::default();
    let store = Embedded::open_on(disk.clone(), Options::default())
        .await
        .expect("a new store");
    for _ in 0..600 {
        let mut transaction = Transaction::new();
        for key in 0..120 {
            transaction = transaction.put(format!("/k/{key}"), "v", Expect::Any);
        }
        store.commit(transaction).await.expect("a write");
    }
    let now = store.revision().await.expect("the revision");
    store.compact(now).await.expect("a compaction");
    disk.fail_syncs(true);
    let failed = store
        .commit(Transaction::new().put("/b", "x", Expect::Any))
        .await;
    assert!(matches!(failed, Err(Error::Failed { .. })), "{failed:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = processor_time();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = processor_time() - before;
    assert!(
        used < 20,
        "{used} hundredths of a second of processor time in two seconds"
    );
}
