//! The one task that reads the store: first everything, then every change.

mod load;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rhumb_meta::{ObjectKey, Revision, StoragePrefix};
use rhumb_store::{Change, ChangeEvent, ChangeSet, ChangeStream, Expect, Store, Transaction};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::cache::Inner;
use crate::hub::Shared;
use crate::snapshot::Version;
use crate::watch::WatchEnd;
use crate::{Cache, Error, Health, Resource, Texts};

/// Most of those who wait are told by the change they wait for. Only when none comes within this time is the
/// store asked how far the stream is.
const PROGRESS_DELAY: Duration = Duration::from_millis(2);

/// What is written below the root to push on a stream that cannot tell how far it is.
const MARKER: &str = "rhumb-progress";

/// How long a change is waited for before that is done: mostly one comes.
const MARKER_DELAY: Duration = Duration::from_millis(50);

/// How often it is asked again, for those who wait for a revision that the store has not reached.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// How often old history is given up where no changes come.
const TRIM_INTERVAL: Duration = Duration::from_secs(15);

/// How often everything is read anew when the store gives up the revision that is being read.
const START_ATTEMPTS: usize = 5;

const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// What the hub asks of the reader.
#[derive(Debug)]
pub(crate) enum Command {
    Add(Resource, oneshot::Sender<Result<Cache, Error>>),
    Remove(StoragePrefix, oneshot::Sender<()>),
}

#[derive(Debug)]
pub(crate) struct Reader {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    texts: Texts,
    /// Whether the store can tell how far a stream is; older etcd servers cannot.
    tells_progress: bool,
}

impl Reader {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        Reader {
            store,
            shared,
            commands,
            texts: Texts::new(),
            tells_progress: true,
        }
    }

    /// Fills the caches, from as far back as is wanted and possible, up to now.
    pub(crate) async fn start(
        &mut self,
        resources: Vec<Resource>,
    ) -> Result<Box<dyn ChangeStream>, Error> {
        for resource in resources {
            self.check_new(&resource.prefix)?;
            self.shared
                .insert(self.cache_of(resource, Version::default()));
        }
        let current = self.store.revision().await?;
        if let Some(stream) = self.start_in_the_past(current).await {
            return Ok(stream);
        }
        let mut attempts_left = START_ATTEMPTS;
        loop {
            attempts_left -= 1;
            let current = self.store.revision().await?;
            match self.read_all(current).await {
                // What was being read was given up meanwhile.
                Err(rhumb_store::Error::Compacted { .. }) if attempts_left > 0 => {}
                read => return Ok(read?),
            }
        }
    }

    /// Reads what there was some time ago and follows the changes since then, so that they are in the history.
    /// `None` if the store no longer has that past, or cannot tell when all of it has been told. Whatever else is
    /// wrong with the store shows when the present is read.
    async fn start_in_the_past(&mut self, current: Revision) -> Option<Box<dyn ChangeStream>> {
        let wanted = current
            .get()
            .saturating_sub(self.shared.options.warm_revisions);
        let wanted = Revision::new(wanted.max(1));
        if wanted >= current {
            return None;
        }
        let read = match self.read_all(wanted).await {
            Err(rhumb_store::Error::Compacted { oldest, .. }) if oldest < current => {
                self.read_all(oldest).await
            }
            other => other,
        };
        let Ok(mut stream) = read else {
            return None;
        };
        self.ask_progress(&mut *stream).await;
        if !self.tells_progress {
            return None;
        }
        while self.applied() < current {
            match stream.next().await {
                Ok(event) => self.take(event),
                Err(error) => {
                    tracing::info!(%error, "the past cannot be told, only the present");
                    return None;
                }
            }
        }
        Some(stream)
    }

    /// Keeps the caches as the store is, until the hub ends.
    pub(crate) async fn run(mut self, mut stream: Box<dyn ChangeStream>) {
        while let Some(error) = self.follow(&mut *stream).await {
            stream = self.recover(error).await;
        }
    }

    /// Applies changes until the stream breaks. `None` when the hub is gone.
    async fn follow(&mut self, stream: &mut dyn ChangeStream) -> Option<rhumb_store::Error> {
        let shared = Arc::clone(&self.shared);
        let mut ask_at: Option<Instant> = None;
        let mut trim = interval(TRIM_INTERVAL);
        trim.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // A stream that always has more would otherwise never let others run.
            tokio::task::coop::consume_budget().await;
            let ask_time = ask_at.unwrap_or_else(Instant::now);
            tokio::select! {
                event = stream.next() => match event {
                    Ok(event) => self.take(event),
                    Err(error) => return Some(error),
                },
                command = self.commands.recv() => self.obey(command?).await,
                () = shared.progress.wanted.notified(), if ask_at.is_none() => {
                    let delay = if self.tells_progress { PROGRESS_DELAY } else { MARKER_DELAY };
                    ask_at = Some(Instant::now() + delay);
                }
                () = sleep_until(ask_time), if ask_at.is_some() => {
                    ask_at = None;
                    if shared.progress.is_wanted() {
                        if self.tells_progress {
                            self.ask_progress(stream).await;
                        } else {
                            self.push_on();
                        }
                        ask_at = Some(Instant::now() + PROGRESS_INTERVAL);
                    }
                }
                _ = trim.tick() => shared.all().iter().for_each(|cache| cache.inner().trim()),
            }
        }
    }

    /// Writes something below the root. A store that cannot tell how far the stream is tells of changes, and with
    /// this one the stream is past everything that was written before, by whomever.
    fn push_on(&self) {
        let store = Arc::clone(&self.store);
        let key = format!("{}/{MARKER}", self.shared.root.trim_end_matches('/'));
        let value = Bytes::from(self.applied().to_string());
        tokio::spawn(async move {
            let put = Transaction::new().put(key, value, Expect::Any);
            if let Err(error) = store.commit(put).await {
                tracing::debug!(%error, "the stream of changes cannot be pushed on");
            }
        });
    }

    async fn ask_progress(&mut self, stream: &mut dyn ChangeStream) {
        match stream.request_progress().await {
            Ok(()) => {}
            Err(rhumb_store::Error::Unsupported { reason }) => {
                tracing::warn!(
                    reason,
                    "consistent reads write to the store to know that they are"
                );
                self.tells_progress = false;
            }
            // The stream says so itself if it is broken; else it is asked again.
            Err(error) => tracing::debug!(%error, "the store does not say how far the stream is"),
        }
    }

    fn take(&mut self, event: ChangeEvent) {
        match event {
            ChangeEvent::Changes(set) => {
                self.apply(&set);
                self.shared.progress.advance(set.revision);
            }
            ChangeEvent::Progress(revision) => {
                if revision > self.applied() {
                    self.shared.progress.advance(revision);
                }
            }
        }
    }

    /// Gives each cache its part of a transaction. What belongs to no cache is passed over.
    fn apply(&mut self, set: &ChangeSet) {
        let mut parts: Vec<(Cache, Vec<Changed>)> = Vec::with_capacity(1);
        for change in set.changes.iter() {
            let Some((cache, key)) = self
                .shared
                .route(change.key())
                .and_then(parse(change.key()))
            else {
                continue;
            };
            let stored = match change {
                Change::Put { value, .. } => Some(value.clone()),
                Change::Delete { .. } => None,
            };
            let known = parts.iter_mut().find(|(other, _)| other.is(&cache));
            match known {
                Some((_, part)) => part.push((key, stored)),
                None => parts.push((cache, vec![(key, stored)])),
            }
        }
        for (cache, part) in parts {
            cache.inner().apply(set.revision, &part, &mut self.texts);
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Add(resource, reply) => {
                // Whoever asked may be gone; the cache is there all the same.
                let _ = reply.send(self.add(resource).await);
            }
            Command::Remove(prefix, reply) => {
                if let Some(cache) = self.shared.remove(prefix.as_str()) {
                    cache.inner().end(WatchEnd::Removed);
                }
                let _ = reply.send(());
            }
        }
    }

    async fn add(&mut self, resource: Resource) -> Result<Cache, Error> {
        self.check_new(&resource.prefix)?;
        let revision = self.store.revision().await?;
        let cache = self.cache_of(resource, Version::default());
        let contents = self.read_one(&cache, revision).await?;
        cache.inner().reset(contents);
        self.shared.insert(cache.clone());
        Ok(cache)
    }

    /// A new stream, after the last one broke: from where it was if the store still has that, else after
    /// everything has been read again. Takes as long as it takes.
    async fn recover(&mut self, error: rhumb_store::Error) -> Box<dyn ChangeStream> {
        tracing::warn!(%error, "the caches lost the stream of changes");
        let mut error = error;
        let mut pause = BACKOFF_MIN;
        loop {
            self.shared.health.send_replace(Health::Recovering {
                reason: error.to_string(),
            });
            let again = match error {
                rhumb_store::Error::Unavailable { .. } => self.resume().await,
                _ => self.read_again().await,
            };
            match again {
                Ok(stream) => {
                    self.shared.health.send_replace(Health::Following);
                    tracing::info!(revision = %self.applied(), "the caches follow the store again");
                    return stream;
                }
                Err(failure) => error = failure,
            }
            sleep(pause).await;
            pause = (pause * 2).min(self.shared.options.backoff_max);
        }
    }

    async fn resume(&self) -> rhumb_store::Result<Box<dyn ChangeStream>> {
        self.store.lead(&self.shared.root, self.applied()).await
    }

    async fn read_again(&mut self) -> rhumb_store::Result<Box<dyn ChangeStream>> {
        let revision = self.store.revision().await?;
        if revision < self.applied() {
            let applied = self.applied();
            tracing::error!(%revision, %applied, "the store is older than what was cached of it");
        }
        self.read_all(revision).await
    }

    fn check_new(&self, prefix: &StoragePrefix) -> Result<(), Error> {
        let prefix = prefix.as_str();
        if !prefix.starts_with(&self.shared.root) {
            return Err(Error::Foreign {
                prefix: prefix.to_owned(),
                root: self.shared.root.clone(),
            });
        }
        match self.shared.cache(prefix) {
            None => Ok(()),
            Some(_) => Err(Error::Duplicate {
                prefix: prefix.to_owned(),
            }),
        }
    }

    fn cache_of(&self, resource: Resource, contents: Version) -> Cache {
        Cache::new(Arc::new(Inner::new(resource, &self.shared, contents)))
    }

    fn applied(&self) -> Revision {
        self.shared.progress.applied()
    }
}

/// An object, and what is stored of it after a change.
type Changed = (ObjectKey, Option<Bytes>);

/// Which object of the cache a storage key stands for. A key that can be no object is passed over.
fn parse(storage_key: &str) -> impl Fn(Cache) -> Option<(Cache, ObjectKey)> {
    move |cache| match cache.prefix().parse(storage_key) {
        Ok(key) => Some((cache, key)),
        Err(error) => {
            tracing::error!(%error, "what is stored there cannot be an object");
            None
        }
    }
}
