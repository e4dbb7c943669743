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

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::testing::{Server, Setup};

    #[tokio::test]
    async fn an_object_is_read_once_until_it_changes() {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::open(directory.path(), Setup::default()).await;
        let path = "/api/v1/namespaces/default";
        let storage = server.api.registry.find("", "namespaces");
        let storage = storage.and_then(|namespaces| namespaces.storage.as_ref());
        let (storage, trees) = (storage.expect("they are stored"), Trees::default());
        let key = ObjectKey::cluster("default").expect("a name");
        let read = || {
            let entry = storage.cache.get(&key).expect("an object");
            trees.of(&entry.expect("it is there")).expect("JSON")
        };
        let first = read();
        assert!(Arc::ptr_eq(&first, &read()));
        let (_, mut namespace) = server.get(path).await;
        namespace["metadata"]["labels"]["team"] = json!("a");
        let (code, _) = server.ask(Method::PUT, path, namespace).await;
        assert_eq!(code, 200);
        let second = read();
        assert_eq!(second["metadata"]["labels"]["team"], "a");
        assert!(Arc::ptr_eq(&second, &read()));
        server.close().await;
    }

    #[test]
    fn those_that_are_gone_leave_first() {
        let gone = || Tree {
            entry: Weak::new(),
            object: Arc::default(),
        };
        let key = |at: usize| ObjectKey::cluster(&format!("n{at}")).expect("a name");
        let mut read: HashMap<ObjectKey, Tree> =
            (0..TREES_MAX).map(|at| (key(at), gone())).collect();
        make_room(&mut read);
        assert!(read.is_empty());
    }
}
