//! Declares `VolumeAttributesClass` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/storage/validation`.

use rhumb_meta::field::ErrorList;

use super::driver_names;
use crate::validation_helpers::checks;
use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "storage.k8s.io",
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        "io.k8s.api.storage.v1.VolumeAttributesClass",
    )
    .returns_deleted()
    .short_names(&["vac"])
    .strategy(VolumeAttributesClassStrategy)
}

#[derive(Debug)]
struct VolumeAttributesClassStrategy;

impl ResourceStrategy for VolumeAttributesClassStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        driver_names::validate_provisioner(&object.field("driverName"), errors);
        let parameters = object.field("parameters");
        driver_names::validate_parameters(&parameters, errors);
        if parameters.is_empty() {
            parameters.required(errors, "must contain at least one key/value pair");
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        for name in ["driverName", "parameters"] {
            let field = object.field(name);
            if !checks::semantically_equal(&field, &old.field(name)) {
                field.forbidden(errors, format!("updates to {name} are forbidden."));
            }
        }
        self.validate_create(object, request, errors);
    }
}
