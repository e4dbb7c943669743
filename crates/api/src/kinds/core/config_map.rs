//! Declares `ConfigMap` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::{Error, ErrorList, Path};

use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks, fields};

/// Limit on the total size of the data. Secrets have the same limit.
pub(super) const DATA_MAX_BYTES: usize = 1024 * 1024;

pub(super) const IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "ConfigMap",
        "configmaps",
        "io.k8s.api.core.v1.ConfigMap",
    )
    .short_names(&["cm"])
    .strategy(ConfigMapStrategy)
}

#[derive(Debug)]
struct ConfigMapStrategy;

impl ResourceStrategy for ConfigMapStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (data, binary) = (object.field("data"), object.field("binaryData"));
        let mut bytes = 0;
        for (key, value) in data.entries() {
            validate_key(key, &value, errors);
            if binary.key(key).exists() {
                let detail = "duplicate of key present in binaryData";
                errors.push(Error::invalid(value.path(), key, detail));
            }
            bytes += value.len();
        }
        for (key, value) in binary.entries() {
            validate_key(key, &value, errors);
            bytes += fields::base64_decoded_len(value.str());
        }
        if bytes > DATA_MAX_BYTES {
            // The empty path denotes the whole object.
            errors.push(Error::too_long(&Path::new(""), DATA_MAX_BYTES));
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_immutable(object, old, &["data", "binaryData"], errors);
        self.validate_create(object, request, errors);
    }
}

pub(super) fn validate_key(key: &str, value: &FieldView<'_>, errors: &mut ErrorList) {
    for problem in checks::data_key_problems(key) {
        errors.push(Error::invalid(value.path(), key, problem));
    }
}

/// Rejects changes of the data or of `immutable` once `immutable` is set.
pub(super) fn validate_immutable(
    object: &FieldView<'_>,
    old: &FieldView<'_>,
    names: &[&str],
    errors: &mut ErrorList,
) {
    if !old.field("immutable").is_true() {
        return;
    }
    let immutable = object.field("immutable");
    if !immutable.is_true() {
        immutable.forbidden(errors, IMMUTABLE);
    }
    for name in names {
        let field = object.field(name);
        if !field.same_as(&old.field(name)) {
            field.forbidden(errors, IMMUTABLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{check_create, check_update, kind};

    #[test]
    fn keys_and_size_are_validated() {
        let config_map = kind("", "ConfigMap");
        let good = json!({"data": {"a.b-C_1": ""}, "binaryData": {"d": "AAAA"}});
        check_create(&config_map, good, &[]);
        check_create(
            &config_map,
            json!({"data": {"..a": "", "b": ""}, "binaryData": {"b": "", "c d": ""}}),
            &[
                "data[..a]: Invalid value: \"..a\": must not start with '..'",
                "data[b]: Invalid value: \"b\": duplicate of key present in binaryData",
                concat!(
                    "binaryData[c d]: Invalid value: \"c d\": a valid config key must consist of alphanumeric ",
                    "characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for ",
                    "validation is '[-._a-zA-Z0-9]+')"
                ),
            ],
        );
        let big = "x".repeat(super::DATA_MAX_BYTES + 1);
        let want = "[]: Too long: may not be more than 1048576 bytes";
        check_create(&config_map, json!({"data": {"a": big}}), &[want]);
        let binary = "A".repeat(super::DATA_MAX_BYTES + 1024);
        check_create(&config_map, json!({"binaryData": {"a": binary}}), &[]);
    }

    #[test]
    fn immutable_config_map_cannot_change() {
        let config_map = kind("", "ConfigMap");
        let old = json!({"data": {"a": "b"}, "immutable": true});
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        check_update(&config_map, old.clone(), labels, &[]);
        check_update(
            &config_map,
            old,
            json!({"data": {"a": "c"}, "binaryData": {"x": "AA=="}, "immutable": false}),
            &[
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
                "binaryData: Forbidden: field is immutable when `immutable` is set",
            ],
        );
    }
}
