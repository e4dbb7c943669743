//! Declares `CSIStorageCapacity` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/storage/validation`.

use rhumb_meta::field::ErrorList;
use rhumb_meta::labels::LabelSelectorValidationOptions;
use rhumb_meta::validation;

use crate::resource_names;
use crate::validation_helpers::checks;
use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "storage.k8s.io",
        "v1",
        "CSIStorageCapacity",
        "csistoragecapacities",
        "io.k8s.api.storage.v1.CSIStorageCapacity",
    )
    .requires_resource_version()
    .strategy(CsiStorageCapacityStrategy)
}

#[derive(Debug)]
struct CsiStorageCapacityStrategy;

impl ResourceStrategy for CsiStorageCapacityStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, LabelSelectorValidationOptions::default(), errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let selector = old.field("nodeTopology");
        validate(object, checks::selector_options(Some(&selector)), errors);
        for name in ["nodeTopology", "storageClassName"] {
            checks::immutable(&object.field(name), &old.field(name), errors);
        }
    }
}

fn validate(
    object: &FieldView<'_>,
    options: LabelSelectorValidationOptions,
    errors: &mut ErrorList,
) {
    let topology = object.field("nodeTopology");
    checks::validate_selector(&topology, options, errors);
    let class = object.field("storageClassName");
    checks::push_problems(&class, validation::dns1123_subdomain(class.str()), errors);
    let capacity = object.field("capacity");
    if resource_names::quantity(&capacity).is_some_and(|quantity| quantity.is_negative()) {
        capacity.invalid(errors, "must be greater than or equal to 0");
    }
}
