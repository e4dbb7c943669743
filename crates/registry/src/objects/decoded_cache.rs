//! A cache of decoded objects, for objects that are read very often, such as the namespace of every write.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use rhumb_api::JsonObject;
use rhumb_cache::CacheEntry;
use rhumb_meta::{ObjectKey, Revision};

/// The maximum number of cached objects of a resource.
const OBJECTS_MAX: usize = 4096;

/// Objects with longer JSON are not cached, as a decoded object takes several times the memory of its JSON.
const CACHED_JSON_BYTES_MAX: usize = 8 * 1024;

/// Recently used objects of one resource, decoded.
#[derive(Debug, Default)]
pub struct DecodedObjectCache {
    objects: RwLock<HashMap<ObjectKey, DecodedObject>>,
}

/// A decoded object and the cache entry that it was decoded from.
#[derive(Debug)]
struct DecodedObject {
    revision: Revision,
    /// Upgradable while the entry is in use, in the cache or elsewhere; decides only what is evicted first.
    entry: Weak<CacheEntry>,
    object: Arc<JsonObject>,
}

impl DecodedObjectCache {
    /// The object of an entry, decoded if it is not cached.
    pub fn get_or_decode(&self, entry: &Arc<CacheEntry>) -> serde_json::Result<Arc<JsonObject>> {
        if let Some(cached) = self.cached(entry) {
            return Ok(cached);
        }
        let json = entry.json_slice();
        let object: Arc<JsonObject> = Arc::new(serde_json::from_slice(json)?);
        if json.len() <= CACHED_JSON_BYTES_MAX {
            self.insert(entry, &object);
        }
        Ok(object)
    }

    fn cached(&self, entry: &Arc<CacheEntry>) -> Option<Arc<JsonObject>> {
        let objects = self.objects.read();
        let decoded = objects.get(entry.key())?;
        (decoded.revision == entry.revision()).then(|| Arc::clone(&decoded.object))
    }

    fn insert(&self, entry: &Arc<CacheEntry>, object: &Arc<JsonObject>) {
        let mut objects = self.objects.write();
        if objects.len() >= OBJECTS_MAX {
            evict(&mut objects);
        }
        let decoded = DecodedObject {
            revision: entry.revision(),
            entry: Arc::downgrade(entry),
            object: Arc::clone(object),
        };
        objects.insert(entry.key().clone(), decoded);
    }
}

/// Removes objects that were deleted or changed, then every other one if needed; frequently used ones soon return.
fn evict(objects: &mut HashMap<ObjectKey, DecodedObject>) {
    objects.retain(|_, decoded| decoded.entry.strong_count() > 0);
    if objects.len() > OBJECTS_MAX / 2 {
        let mut keep = false;
        objects.retain(|_, _| {
            keep = !keep;
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::TestCaches;

    #[tokio::test]
    async fn an_object_is_decoded_once_until_it_changes() {
        let directory = tempfile::tempdir().expect("create temporary directory");
        let caches = TestCaches::open(directory.path()).await;
        let storage = caches
            .resources
            .find("", "namespaces")
            .and_then(|namespaces| namespaces.storage.clone())
            .expect("namespaces are stored");
        let decoded = DecodedObjectCache::default();
        let key = ObjectKey::cluster("default").expect("valid name");
        let decode = || {
            let entry = storage.cache.get(&key).expect("object is readable");
            decoded
                .get_or_decode(&entry.expect("object exists"))
                .expect("valid JSON")
        };
        let mut namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "default", "uid": "1"},
        });
        caches.put("namespaces/default", &namespace).await;
        let first = decode();
        assert!(Arc::ptr_eq(&first, &decode()));
        namespace["metadata"]["labels"] = json!({"team": "a"});
        caches.put("namespaces/default", &namespace).await;
        let second = decode();
        assert_eq!(second["metadata"]["labels"]["team"], "a");
        assert!(Arc::ptr_eq(&second, &decode()));
        caches.close().await;
    }

    #[test]
    fn dropped_entries_are_evicted_first() {
        let dropped = || DecodedObject {
            revision: Revision::ZERO,
            entry: Weak::new(),
            object: Arc::default(),
        };
        let key = |index: usize| ObjectKey::cluster(&format!("n{index}")).expect("valid name");
        let mut objects: HashMap<ObjectKey, DecodedObject> = (0..OBJECTS_MAX)
            .map(|index| (key(index), dropped()))
            .collect();
        evict(&mut objects);
        assert!(objects.is_empty());
    }
}
