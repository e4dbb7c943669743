//! A watch that starts over when it falls out of the history, for tasks inside the server. Clients of the API do the
//! same after 410 Gone (upstream: client-go's `Reflector`). Entry point: [`ResourceCache::watch_with_restarts`].

use rhumb_meta::Revision;

use crate::{CacheWatcher, ResourceCache, WatchEnd, WatchEvent, WatchMessage, WatchRequest};

/// Yields the changes of a resource until the cache is closed or the resource removed.
#[derive(Debug)]
pub struct RestartingWatcher {
    cache: ResourceCache,
    request: WatchRequest,
    /// `None` once the watch has ended for good.
    watcher: Option<CacheWatcher>,
}

/// What a [`RestartingWatcher`] yields.
#[derive(Debug, Clone)]
pub enum RestartingWatchMessage {
    Event(WatchEvent),
    /// The initial list is complete. Sent after each start with [`crate::WatchStart::InitialList`].
    InitialEventsEnd(Revision),
    /// Changes were lost, and the watch has started over as it was requested: with an initial list, or with the next
    /// change. The cache shows the effect of all lost changes.
    Restarted,
}

impl ResourceCache {
    /// Starts a watch that starts over when it expires. The request must be repeatable: with
    /// [`crate::WatchStart::InitialList`] or [`crate::WatchStart::Latest`].
    pub fn watch_with_restarts(&self, request: WatchRequest) -> RestartingWatcher {
        RestartingWatcher {
            watcher: self.watch(request.clone()).ok(),
            cache: self.clone(),
            request,
        }
    }
}

impl RestartingWatcher {
    /// Waits for the next message; `None` when the cache is closing or the resource was removed. Cancel safe.
    pub async fn next(&mut self) -> Option<RestartingWatchMessage> {
        match self.watcher.as_mut()?.next().await {
            Ok(WatchMessage::Event(event)) => Some(RestartingWatchMessage::Event(event)),
            Ok(WatchMessage::InitialEventsEnd(revision)) => {
                Some(RestartingWatchMessage::InitialEventsEnd(revision))
            }
            Err(WatchEnd::Expired) => {
                // Fails only if the cache was closed in the meantime.
                self.watcher = self.cache.watch(self.request.clone()).ok();
                self.watcher
                    .is_some()
                    .then_some(RestartingWatchMessage::Restarted)
            }
            Err(WatchEnd::Closing | WatchEnd::Removed) => {
                self.watcher = None;
                None
            }
        }
    }
}
