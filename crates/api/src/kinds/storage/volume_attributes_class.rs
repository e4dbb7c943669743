//! VolumeAttributesClass.

use rhumb_meta::field::ErrorList;

use super::names;
use crate::workloads::checks;
use crate::{Kind, Request, Rules, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        "io.k8s.api.storage.v1.VolumeAttributesClass",
    )
    .returns_deleted()
    .short(&["vac"])
    .rules(VolumeAttributesClass)
}

#[derive(Debug)]
struct VolumeAttributesClass;

impl Rules for VolumeAttributesClass {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        names::validate_provisioner(&object.field("driverName"), errors);
        let parameters = object.field("parameters");
        names::validate_parameters(&parameters, errors);
        if parameters.is_empty() {
            parameters.required(errors, "must contain at least one key/value pair");
        }
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        for name in ["driverName", "parameters"] {
            let field = object.field(name);
            if !checks::same(&field, &old.field(name)) {
                field.forbidden(errors, format!("updates to {name} are forbidden."));
            }
        }
        self.validate_create(object, request, errors);
    }
}
