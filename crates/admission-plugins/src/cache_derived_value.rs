//! A value computed from all objects of a cache, such as the parsed webhooks of all configurations.

use parking_lot::Mutex;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rhumb_cache::{CacheContentsTag, CacheSnapshot, ResourceCache};

/// Recomputed on the first access after the cache has changed, so that a change applies to every request that starts
/// after the client received its response.
#[derive(Debug)]
pub(super) struct CacheDerivedValue<T> {
    value: ArcSwapOption<(CacheContentsTag, Arc<T>)>,
    /// Held while recomputing, so that only one task does it.
    rebuild_lock: Mutex<()>,
}

impl<T> Default for CacheDerivedValue<T> {
    fn default() -> Self {
        CacheDerivedValue {
            value: ArcSwapOption::empty(),
            rebuild_lock: Mutex::default(),
        }
    }
}

impl<T> CacheDerivedValue<T> {
    /// The current value. `make` computes it from a snapshot and the previous value.
    pub(super) fn get(
        &self,
        cache: &ResourceCache,
        make: impl FnOnce(&CacheSnapshot, Option<&T>) -> T,
    ) -> Arc<T> {
        let version = cache.version();
        if let Some(value) = self.value_at(version) {
            return value;
        }
        let _making = self.rebuild_lock.lock();
        let version = cache.version();
        if let Some(value) = self.value_at(version) {
            return value;
        }
        let previous = self.value.load_full();
        let previous = previous.as_ref().map(|previous| &*previous.1);
        let value = Arc::new(make(&cache.snapshot(), previous));
        self.value.store(Some(Arc::new((version, value.clone()))));
        value
    }

    /// The last computed value, current or not.
    pub(super) fn latest(&self) -> Option<Arc<T>> {
        let value = self.value.load();
        value.as_ref().map(|value| value.1.clone())
    }

    fn value_at(&self, version: CacheContentsTag) -> Option<Arc<T>> {
        let stored = self.value.load();
        let (value_version, stored) = &**stored.as_ref()?;
        (*value_version == version).then(|| stored.clone())
    }
}
