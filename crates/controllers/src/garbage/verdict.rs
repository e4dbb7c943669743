//! What is to become of an object, once it is known which of its owners are there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::Item;
use super::objects::Meta;

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The references of an object, by what their owners are.
#[derive(Debug, Default)]
pub(super) struct Classified {
    /// The owner is there and stays.
    pub(super) solid: Vec<OwnerReference>,
    /// There is no such owner.
    pub(super) dangling: Vec<OwnerReference>,
    /// The owner is deleted, and waits until its dependents are.
    pub(super) waiting: Vec<OwnerReference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    /// It has an owner; references to the others, with these uids, are taken out.
    Release(Vec<String>),
    Delete {
        policy: Policy,
        /// Before that, its references are made such that they block no owner: there may be a cycle.
        unblock: bool,
    },
}

pub(super) fn verdict(item: &Item, latest: &Meta, owners: &Classified) -> Verdict {
    if !owners.solid.is_empty() {
        let leaving = owners.dangling.iter().chain(&owners.waiting);
        let uids: Vec<String> = leaving.map(|reference| reference.uid.clone()).collect();
        return if uids.is_empty() {
            Verdict::Keep
        } else {
            Verdict::Release(uids)
        };
    }
    if !owners.waiting.is_empty() && item.has_dependents {
        return Verdict::Delete {
            policy: Policy::Foreground,
            unblock: item.dependent_awaits,
        };
    }
    let policy = if latest.has_finalizer(ORPHAN) {
        Policy::Orphan
    } else if latest.has_finalizer(FOREGROUND) {
        Policy::Foreground
    } else {
        Policy::Background
    };
    Verdict::Delete {
        policy,
        unblock: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::graph::{Identity, KindName, Uid};
    use super::*;

    /// Owners are letters: `s` is solid, `d` dangling, `w` waits. Dependents: `-` none, `d` some, `w` one that waits.
    fn check(owners: &str, dependents: char, finalizers: &[&str], expect: Verdict) {
        let named = |letter: char| -> Vec<OwnerReference> {
            let places = owners.char_indices().filter(|&(_, own)| own == letter);
            places
                .map(|(place, letter)| OwnerReference {
                    uid: format!("{letter}{place}"),
                    ..OwnerReference::default()
                })
                .collect()
        };
        let classified = Classified {
            solid: named('s'),
            dangling: named('d'),
            waiting: named('w'),
        };
        let item = Item {
            identity: Identity {
                kind: KindName::new("v1", "Pod").into(),
                namespace: "default".into(),
                name: "a".into(),
                uid: Uid::new("a"),
            },
            is_confirmed: true,
            is_deleting: false,
            awaits_dependents: false,
            has_owners: true,
            has_dependents: dependents != '-',
            dependent_awaits: dependents == 'w',
        };
        let latest: Meta =
            serde_json::from_value(json!({"metadata": {"finalizers": finalizers}})).unwrap();
        let got = verdict(&item, &latest, &classified);
        assert_eq!(got, expect, "{owners} {dependents} {finalizers:?}");
    }

    #[test]
    fn owners_and_dependents_decide() {
        let delete = |policy, unblock| Verdict::Delete { policy, unblock };
        let release =
            |uids: &[&str]| Verdict::Release(uids.iter().map(|&uid| uid.to_owned()).collect());
        check("s", '-', &[], Verdict::Keep);
        check("ss", 'w', &[FOREGROUND], Verdict::Keep);
        check("sd", '-', &[], release(&["d1"]));
        check("wsd", 'd', &[], release(&["d2", "w0"]));
        check("d", '-', &[], delete(Policy::Background, false));
        check("dd", 'w', &[], delete(Policy::Background, false));
        check(
            "d",
            'd',
            &["x", FOREGROUND],
            delete(Policy::Foreground, false),
        );
        check(
            "d",
            'd',
            &[FOREGROUND, ORPHAN],
            delete(Policy::Orphan, false),
        );
        check("w", '-', &[], delete(Policy::Background, false));
        check("w", '-', &[ORPHAN], delete(Policy::Orphan, false));
        check("w", 'd', &[ORPHAN], delete(Policy::Foreground, false));
        check("dw", 'w', &[], delete(Policy::Foreground, true));
    }
}
