//! Deletion propagation: sets the `orphan` or `foregroundDeletion` finalizer, which tells the garbage collector how to
//! treat the dependents of a deleted object (upstream: `deletionFinalizersForGarbageCollection`).

use rhumb_api::WriteBehavior;

use rhumb_registry::{DeleteOptions, DeletionPropagation};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The finalizers of an object when its deletion begins. Their order is kept if they do not change.
pub(super) fn deletion_finalizers(
    existing: &[&str],
    options: &DeleteOptions,
    kind: WriteBehavior,
) -> Vec<String> {
    let gc_finalizer = match effective_propagation(existing, options, kind) {
        DeletionPropagation::Orphan => Some(ORPHAN),
        DeletionPropagation::Foreground => Some(FOREGROUND),
        DeletionPropagation::Background => None,
    };
    let is_gc_finalizer = |finalizer: &&str| [ORPHAN, FOREGROUND].contains(finalizer);
    let existing_gc: Vec<&str> = existing.iter().copied().filter(is_gc_finalizer).collect();
    if existing_gc == gc_finalizer.as_slice() {
        return existing
            .iter()
            .map(|&finalizer| finalizer.to_owned())
            .collect();
    }
    let others = existing
        .iter()
        .copied()
        .filter(|finalizer| !is_gc_finalizer(finalizer));
    others.chain(gc_finalizer).map(str::to_owned).collect()
}

/// The policy of the delete options, else that of an existing finalizer, else the default of the kind.
fn effective_propagation(
    existing: &[&str],
    options: &DeleteOptions,
    kind: WriteBehavior,
) -> DeletionPropagation {
    if kind.ignores_dependents {
        return DeletionPropagation::Background;
    }
    match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => return DeletionPropagation::Orphan,
        (Some(false), _) => return DeletionPropagation::Background,
        (None, Some(policy)) => return policy,
        (None, None) => {}
    }
    let from_finalizer = existing.iter().find_map(|&finalizer| match finalizer {
        ORPHAN => Some(DeletionPropagation::Orphan),
        FOREGROUND => Some(DeletionPropagation::Foreground),
        _ => None,
    });
    from_finalizer.unwrap_or(if kind.orphans_dependents {
        DeletionPropagation::Orphan
    } else {
        DeletionPropagation::Background
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_override_finalizers_which_override_the_kind_default() {
        let check =
            |existing: &str, options: &DeleteOptions, kind: WriteBehavior, expected: &str| {
                let existing: Vec<&str> = existing.split_whitespace().collect();
                let got = deletion_finalizers(&existing, options, kind).join(" ");
                assert_eq!(got, expected, "{existing:?} {options:?} {kind:?}");
            };
        let policy = |policy| DeleteOptions {
            propagation: Some(policy),
            ..DeleteOptions::default()
        };
        let orphan_dependents = |orphan| DeleteOptions {
            orphan_dependents: Some(orphan),
            ..DeleteOptions::default()
        };
        let unspecified = DeleteOptions::default();
        let default_behavior = WriteBehavior::default();
        let orphaning = WriteBehavior {
            orphans_dependents: true,
            ..default_behavior
        };
        let ignoring = WriteBehavior {
            ignores_dependents: true,
            ..default_behavior
        };
        let foreground = policy(DeletionPropagation::Foreground);
        let background = policy(DeletionPropagation::Background);
        check("", &unspecified, default_behavior, "");
        check("", &unspecified, orphaning, "orphan");
        check("", &background, orphaning, "");
        check("x", &foreground, orphaning, "x foregroundDeletion");
        check(
            "orphan x",
            &foreground,
            default_behavior,
            "x foregroundDeletion",
        );
        check(
            "orphan x",
            &policy(DeletionPropagation::Orphan),
            default_behavior,
            "orphan x",
        );
        check("orphan x", &orphan_dependents(false), orphaning, "x");
        check("x", &orphan_dependents(true), default_behavior, "x orphan");
        check(
            "x foregroundDeletion y",
            &unspecified,
            orphaning,
            "x foregroundDeletion y",
        );
        check(
            "foregroundDeletion orphan",
            &unspecified,
            default_behavior,
            "foregroundDeletion",
        );
        check(
            "orphan foregroundDeletion",
            &unspecified,
            default_behavior,
            "orphan",
        );
        // The garbage collector ignores these kinds, so their deletion must not wait for it.
        check("x", &foreground, ignoring, "x");
        check("orphan", &unspecified, ignoring, "");
    }
}
