//! The etcd backend: the same promises, kept by an etcd cluster.
//!
//! Reads and streams are etcd's own, asked again where the connection fails them. A transaction is never
//! asked twice: when its answer is lost, its fate is found out; `outcome.rs` shows how.
//!
//! Below `/rhumb/outcomes/` are the notes by which that is done. They never show up in ranges or streams.

mod backoff;
mod commit;
mod connect;
mod convert;
mod feed;
mod link;
mod options;
mod outcome;
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
use link::Link;
use slots::Slots;
use version::Version;

/// Where the notes on transactions under way are kept in etcd.
const OUTCOMES_PREFIX: &str = "/rhumb/outcomes/";

/// A store in an etcd cluster.
pub struct Etcd {
    link: Link,
    slots: Arc<Slots>,
}

impl Etcd {
    /// Connects, and makes sure that the cluster answers and lets us in.
    pub async fn connect(options: Options) -> Result<Etcd, ConnectError> {
        let link = connect::connect(options).await?;
        slots::forget_dead_instances(link.clone());
        Ok(Etcd {
            link,
            slots: Arc::new(Slots::new()),
        })
    }

    /// Whether streams can be asked for their progress: older servers do not keep it in order.
    pub fn tells_progress(&self) -> bool {
        let version = self.link.version;
        version.is_some_and(Version::keeps_progress_in_order)
    }

    /// Lets transactions under way end, takes no more, and removes what this instance noted in etcd.
    ///
    /// What is left behind without it disappears when another instance connects a day later.
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
