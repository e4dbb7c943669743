//! CSIStorageCapacity.

use rhumb_meta::field::ErrorList;
use rhumb_meta::labels::ValidationOptions;
use rhumb_meta::validation;

use crate::resource_names;
use crate::workloads::checks;
use crate::{Kind, Request, Rules, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "storage.k8s.io",
        "v1",
        "CSIStorageCapacity",
        "csistoragecapacities",
        "io.k8s.api.storage.v1.CSIStorageCapacity",
    )
    .updates_need_version()
    .rules(CsiStorageCapacity)
}

#[derive(Debug)]
struct CsiStorageCapacity;

impl Rules for CsiStorageCapacity {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate(object, ValidationOptions::default(), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let selector = old.field("nodeTopology");
        validate(object, checks::selector_options(Some(&selector)), errors);
        for name in ["nodeTopology", "storageClassName"] {
            checks::immutable(&object.field(name), &old.field(name), errors);
        }
    }
}

fn validate(object: &View<'_>, options: ValidationOptions, errors: &mut ErrorList) {
    let topology = object.field("nodeTopology");
    checks::validate_selector(&topology, options, errors);
    let class = object.field("storageClassName");
    checks::problems(&class, validation::dns1123_subdomain(class.str()), errors);
    let capacity = object.field("capacity");
    if resource_names::quantity(&capacity).is_some_and(|quantity| quantity.is_negative()) {
        capacity.invalid(errors, "must be greater than or equal to 0");
    }
}
