//! Declares `ControllerRevision` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/apps/validation`.

use rhumb_meta::field::ErrorList;
use serde_json::Value;

use crate::validation_helpers::checks;
use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        "io.k8s.api.apps.v1.ControllerRevision",
    )
    .strategy(ControllerRevisionStrategy)
}

#[derive(Debug)]
struct ControllerRevisionStrategy;

impl ResourceStrategy for ControllerRevisionStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        checks::nonnegative(&object.field("revision"), errors);
        let data = object.field("data");
        match data.value() {
            None => data.required(errors, "data is mandatory"),
            Some(Value::Object(_)) => {}
            Some(_) => data.required(errors, "data must be a valid JSON object"),
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        checks::nonnegative(&object.field("revision"), errors);
        checks::immutable(&object.field("data"), &old.field("data"), errors);
    }
}
