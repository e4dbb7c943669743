//! Declares `StorageClass` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/storage/validation`.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks};

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 * 1024;

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "storage.k8s.io",
        "v1",
        "StorageClass",
        "storageclasses",
        "io.k8s.api.storage.v1.StorageClass",
    )
    .returns_deleted()
    .short_names(&["sc"])
    .strategy(StorageClassStrategy)
}

#[derive(Debug)]
struct StorageClassStrategy;

impl ResourceStrategy for StorageClassStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
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
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
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

fn validate_parameters(parameters: &FieldView<'_>, errors: &mut ErrorList) {
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

/// Values by key of one topology selector term.
type TopologyTermValues = BTreeMap<String, BTreeSet<String>>;

fn validate_topologies(terms: &FieldView<'_>, errors: &mut ErrorList) {
    // Upstream starts with as many empty terms as there are items, so an empty term is always a duplicate.
    let mut seen = vec![TopologyTermValues::new(); terms.len()];
    for term in terms.items() {
        let read = validate_topology(&term, errors);
        for _ in seen.iter().filter(|known| **known == read) {
            let expressions = term.field("matchLabelExpressions");
            errors.push(Error::duplicate(expressions.path(), ""));
        }
        seen.push(read);
    }
}

fn validate_topology(term: &FieldView<'_>, errors: &mut ErrorList) -> TopologyTermValues {
    let mut keys = TopologyTermValues::new();
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
        checks::push_problems(&key, validation::qualified_name(key.str()), errors);
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
    fn provisioner_and_policies_are_validated() {
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
