//! CSINode.

use std::collections::HashSet;

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::validation;
use serde_json::Value;

use super::names;
use crate::workloads::checks;
use crate::{Kind, Object, Request, Rules, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "CSINode",
        "csinodes",
        "io.k8s.api.storage.v1.CSINode",
    )
    .returns_deleted()
    .updates_need_version()
    .rules(CsiNode)
}

const NODE_ID_MAX_BYTES: usize = 256;

#[derive(Debug)]
struct CsiNode;

impl Rules for CsiNode {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        let spec = object.field("spec");
        let mut names = HashSet::new();
        for driver in spec.field("drivers").items() {
            validate_driver(&driver, &mut names, errors);
        }
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
        let (spec, old) = (object.field("spec"), old.field("spec"));
        let drivers = spec.field("drivers");
        for before in old.field("drivers").items() {
            let same_name = |driver: &View<'_>| driver.field("name").same_as(&before.field("name"));
            for driver in drivers.items().filter(same_name) {
                let (driver, before) = (without_count(&driver), without_count(&before));
                if !checks::same_values(Some(&driver), Some(&before)) {
                    let value = BadValue::json(&driver);
                    let error = Error::invalid(drivers.path(), value, "field is immutable");
                    errors.push(error);
                }
            }
        }
    }
}

/// How many volumes fit may change while a node runs.
fn without_count(driver: &View<'_>) -> Value {
    let mut driver: Object = driver.object().cloned().unwrap_or_default();
    driver.remove("allocatable");
    Value::Object(driver)
}

fn validate_driver(driver: &View<'_>, names: &mut HashSet<String>, errors: &mut ErrorList) {
    let name = driver.field("name");
    names::validate_driver(&name, errors);
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
