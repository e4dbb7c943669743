//! The etcd backend: the same promises, kept by an etcd cluster.
//!
//! Reads and streams are etcd's own, asked again, and of another server, where the connection fails them. A
//! transaction whose answer is lost is asked again only when it is certain that it never happens: its fate
//! is found out first; `outcome.rs` shows how.
//!
//! Below `/rhumb/outcomes/` are the notes by which that is done. They never show up in ranges or streams.

mod backoff;
mod commit;
mod connect;
mod convert;
mod feed;
mod janitor;
mod link;
mod members;
mod opening;
mod options;
mod outcome;
mod queue;
mod read;
mod slots;
mod version;
mod watch;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use connect::ConnectError;
pub use options::{ClientCertificate, Credentials, Options, Tls};

use crate::{ChangeStream, Entry, Page, Range, Result, Revision, Store, Transaction};
use janitor::Janitor;
use link::Link;
use slots::Slots;

/// Where the notes on transactions under way are kept in etcd.
const OUTCOMES_PREFIX: &str = "/rhumb/outcomes/";

/// A store in an etcd cluster.
pub struct Etcd {
    link: Link,
    slots: Arc<Slots>,
    _janitor: Janitor,
}

impl Etcd {
    /// Connects, and makes sure that the cluster answers and lets us in.
    pub async fn connect(options: Options) -> Result<Etcd, ConnectError> {
        let abandoned_after = options.abandoned_after;
        let link = connect::connect(options).await?;
        Ok(Etcd {
            _janitor: Janitor::start(link.clone(), abandoned_after),
            link,
            slots: Arc::new(Slots::new()),
        })
    }

    /// Whether streams can be asked for their progress: older servers do not keep it in order.
    pub fn tells_progress(&self) -> bool {
        self.link.keeps_progress_in_order()
    }

    /// Lets transactions under way end, takes no more, and removes what this instance noted in etcd.
    ///
    /// What is left behind without it is removed by other instances after [`Options::abandoned_after`].
    pub async fn close(&self) {
        slots::close(&self.link, &self.slots).await;
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Etcd {
    fn is_shared(&self) -> bool {
        true
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        read::get(&self.link, key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Page> {
        read::range(&self.link, range).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Revision> {
        commit::commit(&self.link, &self.slots, transaction).await
    }

    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        watch::changes(&self.link, prefix, after).await
    }

    async fn revision(&self) -> Result<Revision> {
        read::revision(&self.link).await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        read::compact(&self.link, revision).await
    }
}
