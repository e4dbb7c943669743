//! Objects as trees, for those who ask about the same few again and again, such as the namespace of every write.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use rhumb_api::Object;
use rhumb_cache::Entry;
use rhumb_meta::ObjectKey;

/// How many are kept of one resource.
const TREES_MAX: usize = 4096;

/// Longer ones are read each time: a tree takes several times the memory of its text.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// The trees of objects that somebody asked for, as they were when they were last asked for.
#[derive(Debug, Default)]
pub struct Trees {
    read: RwLock<HashMap<ObjectKey, Tree>>,
}

#[derive(Debug)]
struct Tree {
    /// What it was made of. No other entry can be where this one was as long as it is remembered.
    entry: Weak<Entry>,
    object: Arc<Object>,
}

impl Trees {
    /// The object of an entry.
    pub fn of(&self, entry: &Arc<Entry>) -> serde_json::Result<Arc<Object>> {
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

    fn known(&self, entry: &Arc<Entry>) -> Option<Arc<Object>> {
        let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
        let tree = read.get(entry.key())?;
        let is_same = std::ptr::eq(tree.entry.as_ptr(), Arc::as_ptr(entry));
        is_same.then(|| Arc::clone(&tree.object))
    }

    fn keep(&self, entry: &Arc<Entry>, object: &Arc<Object>) {
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= TREES_MAX {
            make_room(&mut read);
        }
        let tree = Tree {
            entry: Arc::downgrade(entry),
            object: Arc::clone(object),
        };
        read.insert(entry.key().clone(), tree);
    }
}

/// Those that are gone or have changed leave first, then about every other one: whoever is asked for often is soon back.
fn make_room(read: &mut HashMap<ObjectKey, Tree>) {
    read.retain(|_, tree| tree.entry.strong_count() > 0);
    if read.len() > TREES_MAX / 2 {
        let mut stays = false;
        read.retain(|_, _| {
            stays = !stays;
            stays
        });
    }
}
