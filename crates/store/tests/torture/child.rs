//! The process that is killed.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use rhumb_store::embedded::{Embedded, Options, Retention};
use rhumb_store::{Expect, Store, Transaction};

pub(super) const WRITERS: usize = 16;

/// History is short and segments are small, so that beginning and packing them is interrupted as well.
pub(super) fn options() -> Options {
    Options {
        retention: Retention {
            revisions_max: 3000,
            ..Retention::default()
        },
        segment_bytes: 256 * 1024,
        ..Options::default()
    }
}

pub(super) fn left(writer: usize) -> String {
    format!("/left/{writer:02}")
}

pub(super) fn right(writer: usize) -> String {
    format!("/right/{writer:02}")
}

/// The number at the start of a value.
pub(super) fn number(value: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(value);
    let number = text.split(' ').next().and_then(|first| first.parse().ok());
    number.unwrap_or_else(|| panic!("not a value that was written: {text:?}"))
}

/// Each writer counts up at two keys, both in one transaction, and says each number once it is durable.
pub(super) async fn write_until_killed(directory: &Path) {
    let store = Embedded::open(directory, options())
        .await
        .expect("the store opens");
    let store = Arc::new(store);
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&store), writer)));
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer goes on until it is killed");
    }
}

async fn write(store: Arc<Embedded>, writer: usize) {
    let entry = store.get(&left(writer)).await.expect("a read");
    let mut count = entry.map_or(0, |entry| number(&entry.value));
    loop {
        count += 1;
        let filler = "x".repeat((count as usize * 7919 + writer) % 3000);
        let value = format!("{count} {filler}");
        let transaction = Transaction::new()
            .put(left(writer), value.clone(), Expect::Any)
            .put(right(writer), value, Expect::Any);
        let revision = store.commit(transaction).await.expect("a commit");
        // One line, one write: lines of several writers do not mix, and a killed child leaves whole ones.
        let line = format!("{writer} {count} {revision}\n");
        std::io::stdout()
            .write_all(line.as_bytes())
            .expect("somebody listens");
    }
}
