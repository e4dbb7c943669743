//! Services and controllers, whose selectors define which pods the default spread constraints count.

use rhumb_meta::labels::Selector;

/// A service or controller with its pod selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadOwner {
    pub key: SpreadOwnerKey,
    pub selector: Selector,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpreadOwnerKey {
    pub kind: SpreadOwnerKind,
    pub namespace: Box<str>,
    pub name: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpreadOwnerKind {
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
}

impl SpreadOwnerKind {
    /// The kind of a pod's controller, if default spreading supports it.
    pub fn of_controller(api_version: &str, kind: &str) -> Option<SpreadOwnerKind> {
        match (api_version, kind) {
            ("v1", "ReplicationController") => Some(SpreadOwnerKind::ReplicationController),
            ("apps/v1", "ReplicaSet") => Some(SpreadOwnerKind::ReplicaSet),
            ("apps/v1", "StatefulSet") => Some(SpreadOwnerKind::StatefulSet),
            _ => None,
        }
    }
}
