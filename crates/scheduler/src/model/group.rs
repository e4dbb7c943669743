//! What pods belong together by: services and controllers.

use rhumb_meta::labels::Selector;

/// A service or a controller, and which pods it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub key: GroupKey,
    pub selector: Selector,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    pub kind: GroupKind,
    pub namespace: Box<str>,
    pub name: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKind {
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
}

impl GroupKind {
    /// That of the controller of a pod, if it is one of these.
    pub fn of_controller(api_version: &str, kind: &str) -> Option<GroupKind> {
        match (api_version, kind) {
            ("v1", "ReplicationController") => Some(GroupKind::ReplicationController),
            ("apps/v1", "ReplicaSet") => Some(GroupKind::ReplicaSet),
            ("apps/v1", "StatefulSet") => Some(GroupKind::StatefulSet),
            _ => None,
        }
    }
}
