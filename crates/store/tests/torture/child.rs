//! The child process: writes until it is killed.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore, RetentionPolicy};
use rhumb_store::{ExpectedRevision, Store, Transaction};

pub(super) const WRITERS: usize = 16;

/// Short history and small segments, so that kills also hit the rolling and packing of segments.
pub(super) fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        retention: RetentionPolicy {
            revisions_max: 3000,
            ..RetentionPolicy::default()
        },
        segment_bytes: 256 * 1024,
        ..EmbeddedOptions::default()
    }
}

pub(super) fn left_key(writer: usize) -> String {
    format!("/left/{writer:02}")
}

pub(super) fn right_key(writer: usize) -> String {
    format!("/right/{writer:02}")
}

/// The number at the start of a value.
pub(super) fn leading_number(value: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(value);
    let number = text.split(' ').next().and_then(|first| first.parse().ok());
    number.unwrap_or_else(|| panic!("unexpected value: {text:?}"))
}

/// Each writer increments a number at two keys in one transaction, and prints it once the commit is acknowledged.
pub(super) async fn write_until_killed(directory: &Path) {
    let store = EmbeddedStore::open(directory, options())
        .await
        .expect("open store");
    let store = Arc::new(store);
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&store), writer)));
    for writer in writers.collect::<Vec<_>>() {
        writer
            .await
            .expect("writers run until the process is killed");
    }
}

async fn write(store: Arc<EmbeddedStore>, writer: usize) {
    let entry = store.get(&left_key(writer)).await.expect("read entry");
    let mut count = entry.map_or(0, |entry| leading_number(&entry.value));
    loop {
        count += 1;
        let filler = "x".repeat((count as usize * 7919 + writer) % 3000);
        let value = format!("{count} {filler}");
        let transaction = Transaction::new()
            .put(left_key(writer), value.clone(), ExpectedRevision::Any)
            .put(right_key(writer), value, ExpectedRevision::Any);
        let revision = store.commit(transaction).await.expect("commit");
        // One write per line: lines of several writers do not mix, and a killed child prints only complete lines.
        let line = format!("{writer} {count} {revision}\n");
        std::io::stdout()
            .write_all(line.as_bytes())
            .expect("write to stdout");
    }
}
