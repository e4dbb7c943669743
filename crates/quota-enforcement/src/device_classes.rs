//! The extended resources of device classes, read from the cache when they have changed.

use std::sync::Arc;

use parking_lot::Mutex;
use rhumb_cache::{CacheContentsTag, ResourceCache};
use rhumb_quota::DeviceClassMapping;
use rhumb_registry::ResourceTable;

#[derive(Debug)]
pub(crate) struct DeviceClasses {
    cache: Option<ResourceCache>,
    current: Mutex<CurrentMapping>,
}

#[derive(Debug, Default)]
struct CurrentMapping {
    mapping: Arc<DeviceClassMapping>,
    /// Version of the cache that it was read from.
    version: Option<CacheContentsTag>,
}

impl DeviceClasses {
    pub(crate) fn new(resources: &ResourceTable) -> DeviceClasses {
        let classes = resources.find("resource.k8s.io", "deviceclasses");
        let storage = classes.and_then(|classes| classes.storage.as_ref());
        DeviceClasses {
            cache: storage.map(|storage| storage.cache.clone()),
            current: Mutex::default(),
        }
    }

    pub(crate) fn mapping(&self) -> Arc<DeviceClassMapping> {
        let mut current = self.current.lock();
        if let Some(cache) = &self.cache {
            let version = Some(cache.version());
            if current.version != version {
                current.mapping = Arc::new(read_mapping(cache));
                current.version = version;
            }
        }
        Arc::clone(&current.mapping)
    }
}

fn read_mapping(cache: &ResourceCache) -> DeviceClassMapping {
    let mut mapping = DeviceClassMapping::default();
    for entry in cache.snapshot().range(None, None) {
        if let Ok(class) = serde_json::from_slice(entry.json_slice()) {
            mapping.add(&class);
        }
    }
    mapping
}
