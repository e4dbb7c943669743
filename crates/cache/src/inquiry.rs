//! Asks the store for its revision once for many who want to know.

use std::sync::atomic::{AtomicU64, Ordering};

use rhumb_store::{Result, Revision, Store};
use tokio::sync::Mutex;

/// On etcd each question is a round trip to a majority. An answer holds for all who came before the question was
/// asked, so under load one question serves a crowd: while one is under way, the others gather for the next.
#[derive(Debug, Default)]
pub(crate) struct Inquiry {
    /// The number of the next one who comes.
    arrivals: AtomicU64,
    answer: Mutex<Answer>,
}

#[derive(Debug, Default)]
struct Answer {
    /// It holds for all with a lower number.
    asked_at: u64,
    revision: Revision,
}

impl Inquiry {
    /// A revision no older than this call.
    pub(crate) async fn revision(&self, store: &dyn Store) -> Result<Revision> {
        let number = self.arrivals.fetch_add(1, Ordering::SeqCst);
        let mut answer = self.answer.lock().await;
        if answer.asked_at <= number {
            let asked_at = self.arrivals.load(Ordering::SeqCst);
            let revision = store.revision().await?;
            *answer = Answer { asked_at, revision };
        }
        Ok(answer.revision)
    }
}
