//! Usage of resources whose objects are only counted (upstream: `objectCountEvaluator`).

use rhumb_meta::Quantity;
use rhumb_meta::quantity::QuantityFormat;

use crate::{ObjectUsage, ResourceName, ResourceQuantities};

pub(super) const ONE: Quantity = Quantity::new(1, QuantityFormat::DecimalSi);

/// Resources with a legacy name that predates `count/` and is still supported.
const LEGACY_NAMES: &[(&str, &str)] = &[
    ("configmaps", "count/configmaps"),
    ("replicationcontrollers", "count/replicationcontrollers"),
    ("resourcequotas", "count/resourcequotas"),
    ("secrets", "count/secrets"),
];

/// The resource names under which objects of a resource are counted.
pub(super) fn names(group: &str, plural: &str) -> Vec<ResourceName> {
    let legacy_name = LEGACY_NAMES.iter().find(|(old, _)| *old == plural);
    match legacy_name {
        Some((old, name)) if group.is_empty() => vec![(*name).into(), (*old).into()],
        _ if group.is_empty() => vec![format!("count/{plural}").into()],
        _ => vec![format!("count/{plural}.{group}").into()],
    }
}

pub(super) fn usage(names: &[ResourceName]) -> ObjectUsage {
    ObjectUsage {
        quantities: names.iter().map(|name| (name.clone(), ONE)).collect(),
        ..ObjectUsage::default()
    }
}

/// A usage of one.
pub(super) fn one(name: &'static str) -> ResourceQuantities {
    ResourceQuantities::from_iter([(name.into(), ONE)])
}
