//! Decides what to do with an object, given which of its owners exist.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::GraphNodeSnapshot;
use super::objects::PartialMetadata;

pub(super) const ORPHAN_FINALIZER: &str = "orphan";
pub(super) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// The owner references of an object, by the state of the owner (upstream's `classifyReferences`).
#[derive(Debug, Default)]
pub(super) struct ClassifiedOwners {
    /// The owner exists and is not waiting for its dependents' deletion.
    pub(super) solid: Vec<OwnerReference>,
    /// The owner does not exist.
    pub(super) dangling: Vec<OwnerReference>,
    /// The owner is being deleted in the foreground and waits for its dependents.
    pub(super) waiting: Vec<OwnerReference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletionPropagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum GarbageVerdict {
    Keep,
    /// It has a solid owner; remove the references to the other owners, which have these uids.
    Release(Vec<String>),
    Delete {
        policy: DeletionPropagation,
        /// First unset `blockOwnerDeletion` in its references, because there may be a cycle.
        unblock: bool,
    },
}

pub(super) fn verdict(
    item: &GraphNodeSnapshot,
    latest: &PartialMetadata,
    owners: &ClassifiedOwners,
) -> GarbageVerdict {
    if !owners.solid.is_empty() {
        let leaving = owners.dangling.iter().chain(&owners.waiting);
        let uids: Vec<String> = leaving.map(|reference| reference.uid.clone()).collect();
        return if uids.is_empty() {
            GarbageVerdict::Keep
        } else {
            GarbageVerdict::Release(uids)
        };
    }
    if !owners.waiting.is_empty() && item.has_dependents {
        return GarbageVerdict::Delete {
            policy: DeletionPropagation::Foreground,
            unblock: item.dependent_awaits,
        };
    }
    let policy = if latest.has_finalizer(ORPHAN_FINALIZER) {
        DeletionPropagation::Orphan
    } else if latest.has_finalizer(FOREGROUND_FINALIZER) {
        DeletionPropagation::Foreground
    } else {
        DeletionPropagation::Background
    };
    GarbageVerdict::Delete {
        policy,
        unblock: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::graph::{ApiVersionKind, ObjectIdentity, ObjectUid};
    use super::*;

    /// Owners are letters: `s` solid, `d` dangling, `w` waiting. Dependents: `-` none, `d` some, `w` a waiting one.
    fn check(owners: &str, dependents: char, finalizers: &[&str], expect: GarbageVerdict) {
        let named = |letter: char| -> Vec<OwnerReference> {
            let places = owners.char_indices().filter(|&(_, own)| own == letter);
            places
                .map(|(place, letter)| OwnerReference {
                    uid: format!("{letter}{place}"),
                    ..OwnerReference::default()
                })
                .collect()
        };
        let classified = ClassifiedOwners {
            solid: named('s'),
            dangling: named('d'),
            waiting: named('w'),
        };
        let item = GraphNodeSnapshot {
            identity: ObjectIdentity {
                kind: ApiVersionKind::new("v1", "Pod").into(),
                namespace: "default".into(),
                name: "a".into(),
                uid: ObjectUid::new("a"),
            },
            is_confirmed: true,
            is_deleting: false,
            awaits_dependents: false,
            has_owners: true,
            has_dependents: dependents != '-',
            dependent_awaits: dependents == 'w',
        };
        let latest: PartialMetadata =
            serde_json::from_value(json!({"metadata": {"finalizers": finalizers}})).unwrap();
        let got = verdict(&item, &latest, &classified);
        assert_eq!(got, expect, "{owners} {dependents} {finalizers:?}");
    }

    #[test]
    fn verdicts_follow_from_owners_and_dependents() {
        let delete = |policy, unblock| GarbageVerdict::Delete { policy, unblock };
        let release = |uids: &[&str]| {
            GarbageVerdict::Release(uids.iter().map(|&uid| uid.to_owned()).collect())
        };
        check("s", '-', &[], GarbageVerdict::Keep);
        check("ss", 'w', &[FOREGROUND_FINALIZER], GarbageVerdict::Keep);
        check("sd", '-', &[], release(&["d1"]));
        check("wsd", 'd', &[], release(&["d2", "w0"]));
        check(
            "d",
            '-',
            &[],
            delete(DeletionPropagation::Background, false),
        );
        check(
            "dd",
            'w',
            &[],
            delete(DeletionPropagation::Background, false),
        );
        check(
            "d",
            'd',
            &["x", FOREGROUND_FINALIZER],
            delete(DeletionPropagation::Foreground, false),
        );
        check(
            "d",
            'd',
            &[FOREGROUND_FINALIZER, ORPHAN_FINALIZER],
            delete(DeletionPropagation::Orphan, false),
        );
        check(
            "w",
            '-',
            &[],
            delete(DeletionPropagation::Background, false),
        );
        check(
            "w",
            '-',
            &[ORPHAN_FINALIZER],
            delete(DeletionPropagation::Orphan, false),
        );
        check(
            "w",
            'd',
            &[ORPHAN_FINALIZER],
            delete(DeletionPropagation::Foreground, false),
        );
        check(
            "dw",
            'w',
            &[],
            delete(DeletionPropagation::Foreground, true),
        );
    }
}
