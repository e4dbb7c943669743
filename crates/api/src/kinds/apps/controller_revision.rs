//! ControllerRevision.

use rhumb_meta::field::ErrorList;
use serde_json::Value;

use crate::workloads::checks;
use crate::{Kind, Request, Rules, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        "io.k8s.api.apps.v1.ControllerRevision",
    )
    .rules(ControllerRevision)
}

#[derive(Debug)]
struct ControllerRevision;

impl Rules for ControllerRevision {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
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
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        checks::nonnegative(&object.field("revision"), errors);
        checks::immutable(&object.field("data"), &old.field("data"), errors);
    }
}
