//! Validation of `ephemeral` volumes (generic ephemeral volumes with a `volumeClaimTemplate`).

use rhumb_meta::field::{BadValue, Error, ErrorList};

use super::VolumeValidationContext;
use crate::FieldView;
use crate::pods::{checks, template};
use crate::selectors::{self, validate_label_selector};

const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

pub(super) fn ephemeral(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let template = source.field("volumeClaimTemplate");
    if !template.exists() {
        template.required(errors, "");
        return;
    }
    template::validate_only_labels_and_annotations(&template.field("metadata"), errors);
    claim_spec(&template.field("spec"), errors);
}

fn claim_spec(spec: &FieldView<'_>, errors: &mut ErrorList) {
    access_modes(&spec.field("accessModes"), errors);
    let selector = spec.field("selector");
    validate_label_selector(&selector, selectors::Options::default(), errors);
    storage_request(spec, errors);
    checks::optional_dns_subdomain(&spec.field("storageClassName"), errors);
    let modes = ["Block", "Filesystem"];
    checks::optional_one_of(&spec.field("volumeMode"), &modes, errors);
    data_source(&spec.field("dataSource"), errors);
    let reference = spec.field("dataSourceRef");
    data_source(&reference, errors);
    let namespace = reference.field("namespace");
    if !namespace.is_empty() {
        checks::dns_label(&namespace, errors);
    }
    same_data_source(spec, errors);
    checks::optional_dns_subdomain(&spec.field("volumeAttributesClassName"), errors);
}

fn access_modes(modes: &FieldView<'_>, errors: &mut ErrorList) {
    if modes.is_empty() {
        modes.required(errors, "at least 1 access mode is required");
    }
    let (mut alone, mut others) = (false, false);
    for mode in modes.items() {
        let is_known = ACCESS_MODES.contains(&mode.str());
        if !is_known {
            errors.push(Error::not_supported(modes.path(), mode.str(), ACCESS_MODES));
        }
        alone |= mode.str() == "ReadWriteOncePod";
        others |= is_known && mode.str() != "ReadWriteOncePod";
    }
    if alone && others {
        modes.forbidden(
            errors,
            "may not use ReadWriteOncePod with other access modes",
        );
    }
}

fn storage_request(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let resources = spec.field("resources");
    let requests = resources.field("requests");
    let storage = FieldView::at(requests.get("storage"), resources.path().key("storage"));
    if !storage.exists() {
        storage.required(errors, "");
        return;
    }
    let Some(quantity) = checks::quantity(&storage, errors) else {
        return;
    };
    if quantity.sign() <= 0 {
        let detail = "must be greater than zero";
        errors.push(Error::invalid(storage.path(), quantity.to_string(), detail));
    }
}

fn data_source(source: &FieldView<'_>, errors: &mut ErrorList) {
    if !source.exists() {
        return;
    }
    checks::required(&source.field("name"), errors);
    checks::required(&source.field("kind"), errors);
    let group = source.field("apiGroup");
    if !group.is_empty() {
        checks::dns_subdomain(&group, errors);
    } else if source.text("kind") != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(Error::invalid(source.path(), source.text("kind"), detail));
    }
}

/// Requires `dataSource` and `dataSourceRef` to be equal.
fn same_data_source(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    if !source.exists() || !reference.exists() {
        return;
    }
    let is_same = |name| source.get(name) == reference.get(name);
    let detail = if !reference.text("namespace").is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if !["apiGroup", "kind", "name"].into_iter().all(is_same) {
        "must match dataSourceRef"
    } else {
        return;
    };
    // Upstream formats the path as a Go struct, which shows no fields.
    let shown = BadValue::Rendered("{}".to_owned());
    errors.push(Error::invalid(spec.path(), shown, detail));
}
