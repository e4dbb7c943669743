//! StorageClass.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::{Kind, Request, Rules, Scope, View, checks};

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 * 1024;

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
    .rules(StorageClassRules)
}

#[derive(Debug)]
struct StorageClassRules;

impl Rules for StorageClassRules {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        let provisioner = object.field("provisioner");
        if provisioner.is_empty() {
            provisioner.required(errors, "");
        } else {
            let name = provisioner.str().to_lowercase();
            for problem in validation::qualified_name(&name) {
                errors.push(Error::invalid(provisioner.path(), name.as_str(), problem));
            }
        }
        validate_parameters(&object.field("parameters"), errors);
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
        validate_topologies(&object.field("allowedTopologies"), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
        checks::immutable(
            &object.field("parameters"),
            &old.field("parameters"),
            errors,
        );
        checks::immutable_text(
            &object.field("provisioner"),
            &old.field("provisioner"),
            errors,
        );
        for name in ["reclaimPolicy", "volumeBindingMode"] {
            checks::immutable(&object.field(name), &old.field(name), errors);
        }
    }
}

fn validate_parameters(parameters: &View<'_>, errors: &mut ErrorList) {
    if parameters.len() > PARAMETERS_MAX {
        errors.push(Error::too_long(parameters.path(), PARAMETERS_MAX));
        return;
    }
    let mut bytes = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            errors.push(Error::invalid(
                parameters.path(),
                key,
                "field can not be empty.",
            ));
        }
        bytes += key.len() + value.len();
    }
    if bytes > PARAMETERS_MAX_BYTES {
        errors.push(Error::too_long(parameters.path(), PARAMETERS_MAX_BYTES));
    }
}

/// What a term asks for: the values of each key.
type Term = BTreeMap<String, BTreeSet<String>>;

fn validate_topologies(terms: &View<'_>, errors: &mut ErrorList) {
    // Upstream begins with as many empty terms as it is given: one that asks for nothing is always a repeat.
    let mut seen = vec![Term::new(); terms.len()];
    for term in terms.items() {
        let read = validate_topology(&term, errors);
        for _ in seen.iter().filter(|known| **known == read) {
            let expressions = term.field("matchLabelExpressions");
            errors.push(Error::duplicate(expressions.path(), ""));
        }
        seen.push(read);
    }
}

fn validate_topology(term: &View<'_>, errors: &mut ErrorList) -> Term {
    let mut keys = Term::new();
    for expression in term.field("matchLabelExpressions").items() {
        let (key, values) = (expression.field("key"), expression.field("values"));
        if values.is_empty() {
            values.required(errors, "");
        }
        let mut seen = BTreeSet::new();
        for value in values.items() {
            if !seen.insert(value.str().to_owned()) {
                errors.push(Error::duplicate(value.path(), value.str()));
            }
        }
        checks::problems(&key, validation::qualified_name(key.str()), errors);
        if keys.insert(key.str().to_owned(), seen).is_some() {
            errors.push(Error::duplicate(key.path(), key.str()));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{check_create, check_update, kind};

    #[test]
    fn classes_have_a_provisioner_and_known_policies() {
        let class = kind("storage.k8s.io", "StorageClass");
        let good = json!({"provisioner": "Example.com/x", "volumeBindingMode": "Immediate"});
        check_create(&class, good.clone(), &[]);
        check_create(
            &class,
            json!({"reclaimPolicy": "Recycle", "volumeBindingMode": "Odd", "parameters": {"": "x"},
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": []}]}]}),
            &[
                "provisioner: Required value",
                "parameters: Invalid value: \"\": field can not be empty.",
                "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
                concat!(
                    "volumeBindingMode: Unsupported value: \"Odd\": supported values: \"Immediate\", ",
                    "\"WaitForFirstConsumer\""
                ),
                "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
            ],
        );
        let want = "provisioner: Invalid value: \"other\": field is immutable";
        check_update(&class, good, json!({"provisioner": "other"}), &[want]);
    }
}
