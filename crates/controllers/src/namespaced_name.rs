//! Keys of objects in informers and work queues, as `cache.ObjectName` in client-go.

use kube::ResourceExt;

/// Namespace and name of an object; the namespace of cluster-scoped ones is empty.
pub(crate) type NamespacedName = (String, String);

pub(crate) fn namespaced_name(object: &impl ResourceExt) -> NamespacedName {
    (object.namespace().unwrap_or_default(), object.name_any())
}
