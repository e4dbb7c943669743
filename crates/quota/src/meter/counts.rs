//! Objects that are only counted.

use rhumb_meta::Quantity;
use rhumb_meta::quantity::Format;

use crate::{Amounts, Charge, Name};

pub(super) const ONE: Quantity = Quantity::new(1, Format::DecimalSi);

/// Those that were counted before `count/` was there, by names that go on.
const OLD_NAMES: &[(&str, &str)] = &[
    ("configmaps", "count/configmaps"),
    ("replicationcontrollers", "count/replicationcontrollers"),
    ("resourcequotas", "count/resourcequotas"),
    ("secrets", "count/secrets"),
];

/// The names that each object of a resource counts for.
pub(super) fn names(group: &str, plural: &str) -> Vec<Name> {
    let known = OLD_NAMES.iter().find(|(old, _)| *old == plural);
    match known {
        Some((old, name)) if group.is_empty() => vec![(*name).into(), (*old).into()],
        _ if group.is_empty() => vec![format!("count/{plural}").into()],
        _ => vec![format!("count/{plural}.{group}").into()],
    }
}

pub(super) fn measure(names: &[Name]) -> Charge {
    Charge {
        amounts: names.iter().map(|name| (name.clone(), ONE)).collect(),
        ..Charge::default()
    }
}

/// One of a thing.
pub(super) fn one(name: &'static str) -> Amounts {
    Amounts::from_iter([(name.into(), ONE)])
}
