//! StorageClass.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::names;
use crate::workloads::checks;
use crate::{Kind, Request, Rules, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "StorageClass",
        "storageclasses",
        "io.k8s.api.storage.v1.StorageClass",
    )
    .returns_deleted()
    .short(&["sc"])
    .rules(StorageClass)
}

#[derive(Debug)]
struct StorageClass;

impl Rules for StorageClass {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        names::validate_provisioner(&object.field("provisioner"), errors);
        names::validate_parameters(&object.field("parameters"), errors);
        let reclaim = object.field("reclaimPolicy");
        if !reclaim.is_empty() {
            checks::one_of(&reclaim, &["Delete", "Retain"], errors);
        }
        let binding = object.field("volumeBindingMode");
        if binding.exists() {
            checks::one_of(&binding, &["Immediate", "WaitForFirstConsumer"], errors);
        } else {
            binding.required(errors, "");
        }
        for term in object.field("allowedTopologies").items() {
            validate_topology(&term.field("matchLabelExpressions"), errors);
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
        for name in [
            "parameters",
            "provisioner",
            "reclaimPolicy",
            "volumeBindingMode",
        ] {
            checks::immutable(&object.field(name), &old.field(name), errors);
        }
    }
}

fn validate_topology(expressions: &View<'_>, errors: &mut ErrorList) {
    let mut keys = HashSet::new();
    for expression in expressions.items() {
        let values = expression.field("values");
        if values.is_empty() {
            values.required(errors, "");
        }
        let mut seen = HashSet::new();
        for value in values.items() {
            if !seen.insert(value.str().to_owned()) {
                errors.push(Error::duplicate(value.path(), value.str()));
            }
        }
        let key = expression.field("key");
        checks::problems(&key, validation::qualified_name(key.str()), errors);
        if !keys.insert(key.str().to_owned()) {
            errors.push(Error::duplicate(key.path(), key.str()));
        }
    }
}
