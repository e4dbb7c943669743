//! Declares `CSINode` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/storage/validation`.

use std::collections::HashSet;

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::validation;
use serde_json::Value;

use super::driver_names;
use crate::validation_helpers::checks;
use crate::{FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "storage.k8s.io",
        "v1",
        "CSINode",
        "csinodes",
        "io.k8s.api.storage.v1.CSINode",
    )
    .returns_deleted()
    .requires_resource_version()
    .strategy(CsiNodeStrategy)
}

const NODE_ID_MAX_BYTES: usize = 256;

#[derive(Debug)]
struct CsiNodeStrategy;

impl ResourceStrategy for CsiNodeStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let spec = object.field("spec");
        let mut names = HashSet::new();
        for driver in spec.field("drivers").items() {
            validate_driver(&driver, &mut names, errors);
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
        let (spec, old) = (object.field("spec"), old.field("spec"));
        let drivers = spec.field("drivers");
        for before in old.field("drivers").items() {
            let same_name =
                |driver: &FieldView<'_>| driver.field("name").same_as(&before.field("name"));
            for driver in drivers.items().filter(same_name) {
                let (driver, before) = (without_allocatable(&driver), without_allocatable(&before));
                if !checks::semantically_equal_values(Some(&driver), Some(&before)) {
                    let value = BadValue::json(&driver);
                    let error = Error::invalid(drivers.path(), value, "field is immutable");
                    errors.push(error);
                }
            }
        }
    }
}

/// Returns the driver without `allocatable`, which may be updated.
fn without_allocatable(driver: &FieldView<'_>) -> Value {
    let mut driver: JsonObject = driver.object().cloned().unwrap_or_default();
    driver.remove("allocatable");
    Value::Object(driver)
}

fn validate_driver(driver: &FieldView<'_>, names: &mut HashSet<String>, errors: &mut ErrorList) {
    let name = driver.field("name");
    driver_names::validate_driver(&name, errors);
    let id = driver.field("nodeID");
    if id.is_empty() {
        id.required(errors, "");
    }
    if id.len() > NODE_ID_MAX_BYTES {
        let detail = format!("must be {NODE_ID_MAX_BYTES} characters or less");
        checks::invalid_text(&id, errors, detail);
    }
    checks::nonnegative(&driver.field("allocatable").field("count"), errors);
    if !names.insert(name.str().to_owned()) {
        errors.push(Error::duplicate(name.path(), name.str()));
    }
    let mut keys = HashSet::new();
    for key in driver.field("topologyKeys").items() {
        let key = key.str();
        if key.is_empty() {
            driver.required(errors, "");
        }
        if !keys.insert(key.to_owned()) {
            errors.push(Error::duplicate(driver.path(), key));
        }
        for problem in validation::qualified_name(key) {
            errors.push(Error::invalid(driver.path(), key, problem));
        }
    }
}
