//! Objects as trees, for those who ask about the same few again and again, such as the namespace of every write.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rhumb_api::Object;
use rhumb_cache::Entry;
use rhumb_meta::{ObjectKey, Revision};

/// How many are kept of one resource. When there are more, all begin anew.
const TREES_MAX: usize = 1024;

/// Longer ones are read each time: a tree takes several times the memory of its text.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// The trees of objects that somebody asked for, each of the revision that was asked for last.
#[derive(Debug, Default)]
pub struct Trees {
    read: RwLock<HashMap<ObjectKey, (Revision, Arc<Object>)>>,
}

impl Trees {
    /// The object of an entry.
    pub fn of(&self, entry: &Entry) -> serde_json::Result<Arc<Object>> {
        if let Some(known) = self.known(entry) {
            return Ok(known);
        }
        let text = entry.json_slice();
        let object: Arc<Object> = Arc::new(serde_json::from_slice(text)?);
        if text.len() <= TEXT_BYTES_MAX {
            self.keep(entry, &object);
        }
        Ok(object)
    }

    fn known(&self, entry: &Entry) -> Option<Arc<Object>> {
        let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
        let (revision, object) = read.get(entry.key())?;
        (*revision == entry.revision()).then(|| Arc::clone(object))
    }

    fn keep(&self, entry: &Entry, object: &Arc<Object>) {
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= TREES_MAX {
            read.clear();
        }
        let kept = (entry.revision(), Arc::clone(object));
        read.insert(entry.key().clone(), kept);
    }
}
