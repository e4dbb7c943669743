//! What is made of all objects of a resource, such as the webhooks of all configurations.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use rhumb_cache::{Cache, CacheVersion, Snapshot};

/// Made anew by the first who asks after a change: whoever was told of a change is subject to it from then on.
#[derive(Debug)]
pub(super) struct Derived<T> {
    made: ArcSwapOption<(CacheVersion, Arc<T>)>,
    /// Held by the one who makes it.
    making: Mutex<()>,
}

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Derived {
            made: ArcSwapOption::empty(),
            making: Mutex::default(),
        }
    }
}

impl<T> Derived<T> {
    /// `make` is given what was made before, if anything was.
    pub(super) fn get(
        &self,
        cache: &Cache,
        make: impl FnOnce(&Snapshot, Option<&T>) -> T,
    ) -> Arc<T> {
        let version = cache.version();
        if let Some(made) = self.made_of(version) {
            return made;
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let version = cache.version();
        if let Some(made) = self.made_of(version) {
            return made;
        }
        let before = self.made.load_full();
        let before = before.as_ref().map(|before| &*before.1);
        let made = Arc::new(make(&cache.snapshot(), before));
        self.made.store(Some(Arc::new((version, made.clone()))));
        made
    }

    /// What was made last, up to date or not.
    pub(super) fn latest(&self) -> Option<Arc<T>> {
        let made = self.made.load();
        made.as_ref().map(|made| made.1.clone())
    }

    fn made_of(&self, version: CacheVersion) -> Option<Arc<T>> {
        let made = self.made.load();
        let (of, made) = &**made.as_ref()?;
        (*of == version).then(|| made.clone())
    }
}
