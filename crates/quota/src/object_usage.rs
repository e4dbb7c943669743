//! The usage of one object: quantities and the attributes that scopes match.

use rhumb_meta::quantity::QuantityFormat;
use rhumb_meta::{Quantity, Timestamp};

use crate::{ExtendedResourceLink, ResourceQuantities};

/// Upstream's largest quantity. Sums of millions of these with nano units are still exact.
const QUANTITY_MAX: Quantity = Quantity::new(i64::MAX, QuantityFormat::DecimalSi);

/// The usage of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectUsage {
    pub quantities: ResourceQuantities,
    pub scope_attributes: ScopeAttributes,
    /// From then on the usage is `after_lapse`, without a change of the object: a deleted pod after its grace period.
    pub lapses_at: Option<Timestamp>,
    pub after_lapse: ResourceQuantities,
    /// Names that quotas may require of every container and that some container does not specify.
    pub unspecified: Vec<&'static str>,
    pub extended_resources: ExtendedResourceLink,
}

impl ObjectUsage {
    /// Clamps immense quantities to the largest one that sums stay exact with, so that subtracting undoes adding.
    pub(crate) fn clamped(mut self) -> ObjectUsage {
        self.quantities.clamp(&QUANTITY_MAX);
        self.after_lapse.clamp(&QUANTITY_MAX);
        self
    }
}

/// Attributes of an object that quota scopes match. Other kinds match no scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ScopeAttributes {
    #[default]
    None,
    Pod {
        is_terminating: bool,
        is_best_effort: bool,
        /// Empty if the pod has none.
        priority_class: Box<str>,
        has_cross_namespace_affinity: bool,
    },
    /// VolumeAttributesClass names of a PersistentVolumeClaim: desired, current and target.
    VolumeClaim { attributes_classes: Box<[Box<str>]> },
}
