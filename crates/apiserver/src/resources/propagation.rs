//! What becomes of the dependents of a deleted object. Finalizers tell the garbage collector.

use rhumb_api::Writes;

use crate::request::{DeleteOptions, Propagation};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The finalizers of an object once it is deleted. If they are the same, so is their order.
pub(super) fn finalizers(existing: &[&str], options: &DeleteOptions, kind: Writes) -> Vec<String> {
    let asked = match propagation(existing, options, kind) {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    let is_of_dependents = |finalizer: &&str| [ORPHAN, FOREGROUND].contains(finalizer);
    let of_dependents: Vec<&str> = existing.iter().copied().filter(is_of_dependents).collect();
    if of_dependents == asked.as_slice() {
        return existing.iter().map(|&own| own.to_owned()).collect();
    }
    let others = existing
        .iter()
        .copied()
        .filter(|own| !is_of_dependents(own));
    others.chain(asked).map(str::to_owned).collect()
}

/// What the client says, or else what the object says, or else what the kind has.
fn propagation(existing: &[&str], options: &DeleteOptions, kind: Writes) -> Propagation {
    if kind.ignores_dependents {
        return Propagation::Background;
    }
    match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => return Propagation::Orphan,
        (Some(false), _) => return Propagation::Background,
        (None, Some(policy)) => return policy,
        (None, None) => {}
    }
    let said = existing.iter().find_map(|&finalizer| match finalizer {
        ORPHAN => Some(Propagation::Orphan),
        FOREGROUND => Some(Propagation::Foreground),
        _ => None,
    });
    said.unwrap_or(if kind.orphans_dependents {
        Propagation::Orphan
    } else {
        Propagation::Background
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_decides_then_the_object_then_the_kind() {
        let check = |existing: &str, options: &DeleteOptions, kind: Writes, expected: &str| {
            let existing: Vec<&str> = existing.split_whitespace().collect();
            let got = finalizers(&existing, options, kind).join(" ");
            assert_eq!(got, expected, "{existing:?} {options:?} {kind:?}");
        };
        let policy = |policy| DeleteOptions {
            propagation: Some(policy),
            ..DeleteOptions::default()
        };
        let old_form = |orphan| DeleteOptions {
            orphan_dependents: Some(orphan),
            ..DeleteOptions::default()
        };
        let silent = DeleteOptions::default();
        let plain = Writes::default();
        let orphaning = Writes {
            orphans_dependents: true,
            ..plain
        };
        let ignoring = Writes {
            ignores_dependents: true,
            ..plain
        };
        let foreground = policy(Propagation::Foreground);
        let background = policy(Propagation::Background);
        check("", &silent, plain, "");
        check("", &silent, orphaning, "orphan");
        check("", &background, orphaning, "");
        check("x", &foreground, orphaning, "x foregroundDeletion");
        check("orphan x", &foreground, plain, "x foregroundDeletion");
        check("orphan x", &policy(Propagation::Orphan), plain, "orphan x");
        check("orphan x", &old_form(false), orphaning, "x");
        check("x", &old_form(true), plain, "x orphan");
        check(
            "x foregroundDeletion y",
            &silent,
            orphaning,
            "x foregroundDeletion y",
        );
        check(
            "foregroundDeletion orphan",
            &silent,
            plain,
            "foregroundDeletion",
        );
        check("orphan foregroundDeletion", &silent, plain, "orphan");
        // The garbage collector does not look at such kinds, so nothing may wait for it.
        check("x", &foreground, ignoring, "x");
        check("orphan", &silent, ignoring, "");
    }
}
