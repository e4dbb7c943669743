//! Declares `Secret` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_meta::field::{Error, ErrorList};
use serde_json::Value;

use super::config_map::{DATA_MAX_BYTES, validate_immutable, validate_key};
use crate::{
    FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, SelectableField, StrategyContext,
    checks, fields,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "Secret",
        "secrets",
        "io.k8s.api.core.v1.Secret",
    )
    .selectable(&[SelectableField::string("type", "type")])
    .strategy(SecretStrategy)
}

const SERVICE_ACCOUNT_NAME_ANNOTATION: &str = "kubernetes.io/service-account.name";

#[derive(Debug)]
struct SecretStrategy;

impl ResourceStrategy for SecretStrategy {
    fn prepare_update(&self, object: &mut JsonObject, old: &JsonObject, _: &StrategyContext<'_>) {
        if fields::text(object, "type").is_empty() {
            fields::restore_from(object, old, "type");
        }
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let data = object.field("data");
        let mut bytes = 0;
        for (key, value) in data.entries() {
            validate_key(key, &value, errors);
            bytes += fields::base64_decoded_len(value.str());
        }
        if bytes > DATA_MAX_BYTES {
            errors.push(Error::too_long(data.path(), DATA_MAX_BYTES));
        }
        validate_contents(object, &data, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        checks::immutable_text(&object.field("type"), &old.field("type"), errors);
        validate_immutable(object, old, &["data"], errors);
        self.validate_create(object, request, errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        _: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        if object.field("type").str() != "kubernetes.io/tls" {
            return;
        }
        let data = object.field("data");
        for (key, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
            if !holds_pem(data.key(key).str()) {
                warnings.push(format!("tls: failed to find any PEM data in {what} input"));
                return;
            }
        }
    }
}

fn holds_pem(encoded: &str) -> bool {
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    let marker = b"-----BEGIN ";
    decoded.windows(marker.len()).any(|part| part == marker)
}

/// Validates the data that each known type requires.
fn validate_contents(object: &FieldView<'_>, data: &FieldView<'_>, errors: &mut ErrorList) {
    match object.field("type").str() {
        "kubernetes.io/service-account-token" => {
            let metadata = object.field("metadata");
            let annotations = metadata.field("annotations");
            let name = annotations.key(SERVICE_ACCOUNT_NAME_ANNOTATION);
            if name.is_empty() {
                name.required(errors, "");
            }
        }
        "kubernetes.io/dockercfg" => validate_json(&data.key(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => validate_json(&data.key(".dockerconfigjson"), errors),
        "kubernetes.io/basic-auth" => {
            let fields = [data.key("username"), data.key("password")];
            if !fields.iter().any(FieldView::exists) {
                fields.iter().for_each(|field| field.required(errors, ""));
            }
        }
        "kubernetes.io/ssh-auth" => {
            let key = data.key("ssh-privatekey");
            if key.is_empty() {
                key.required(errors, "");
            }
        }
        "kubernetes.io/tls" => {
            for field in [data.key("tls.crt"), data.key("tls.key")] {
                if !field.exists() {
                    field.required(errors, "");
                }
            }
        }
        _ => {}
    }
}

fn validate_json(value: &FieldView<'_>, errors: &mut ErrorList) {
    if !value.exists() {
        return value.required(errors, "");
    }
    let decoded = STANDARD.decode(value.str()).unwrap_or_default();
    if let Some(problem) = json_object_error(&decoded) {
        let shown = "<secret contents redacted>";
        errors.push(Error::invalid(value.path(), shown, problem));
    }
}

/// Returns Go's error text for bytes that are not a JSON object.
fn json_object_error(bytes: &[u8]) -> Option<String> {
    let kind = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(Value::Array(_)) => "array",
        Ok(Value::String(_)) => "string",
        Ok(Value::Number(_)) => "number",
        Ok(Value::Bool(_)) => "bool",
        Err(error) if error.is_eof() => return Some("unexpected end of JSON input".to_owned()),
        Err(error) => return Some(go_syntax_error(bytes, &error)),
    };
    Some(format!(
        "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    ))
}

/// Names the unexpected character as Go does; Go's context phrase is reproduced only for the beginning of a value.
fn go_syntax_error(bytes: &[u8], error: &serde_json::Error) -> String {
    let line = bytes
        .split(|&b| b == b'\n')
        .nth(error.line().saturating_sub(1));
    let byte = line.and_then(|line| line.get(error.column().saturating_sub(1)));
    let character = char::from(*byte.unwrap_or(&b' '));
    format!("invalid character '{character}' looking for beginning of value")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{check_create, check_update, kind, warnings};

    #[test]
    fn known_secret_types_require_their_keys() {
        let table: [(&str, serde_json::Value, &[&str]); 10] = [
            ("Opaque", json!({}), &[]),
            ("any", json!({"a": "AAAA"}), &[]),
            (
                "kubernetes.io/service-account-token",
                json!({}),
                &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
            (
                "kubernetes.io/dockercfg",
                json!({}),
                &["data[.dockercfg]: Required value"],
            ),
            (
                "kubernetes.io/dockerconfigjson",
                json!({".dockerconfigjson": "e30="}),
                &[],
            ),
            (
                "kubernetes.io/dockerconfigjson",
                json!({".dockerconfigjson": "W10="}),
                &[concat!(
                    "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": json: cannot unmarshal ",
                    "array into Go value of type map[string]interface {}"
                )],
            ),
            (
                "kubernetes.io/dockerconfigjson",
                json!({".dockerconfigjson": "ewo="}),
                &[concat!(
                    "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON ",
                    "input"
                )],
            ),
            (
                "kubernetes.io/basic-auth",
                json!({}),
                &[
                    "data[username]: Required value",
                    "data[password]: Required value",
                ],
            ),
            (
                "kubernetes.io/ssh-auth",
                json!({"ssh-privatekey": ""}),
                &["data[ssh-privatekey]: Required value"],
            ),
            (
                "kubernetes.io/tls",
                json!({"tls.crt": ""}),
                &["data[tls.key]: Required value"],
            ),
        ];
        for (name, data, want) in table {
            check_create(
                &kind("", "Secret"),
                json!({"type": name, "data": data}),
                want,
            );
        }
    }

    #[test]
    fn secret_type_is_immutable() {
        let secret = kind("", "Secret");
        let old = json!({"type": "Opaque", "data": {"a": "AAAA"}});
        check_update(&secret, old.clone(), json!({"type": null}), &[]);
        let want = "type: Invalid value: \"b\": field is immutable";
        check_update(&secret, old.clone(), json!({"type": "b"}), &[want]);
        let mut fixed = old;
        fixed["immutable"] = json!(true);
        let want = "data: Forbidden: field is immutable when `immutable` is set";
        check_update(&secret, fixed, json!({"data": {"a": "AAAB"}}), &[want]);
    }

    #[test]
    fn secret_size_is_limited() {
        let big = "AAAA".repeat(350_000);
        let want = "data: Too long: may not be more than 1048576 bytes";
        check_create(&kind("", "Secret"), json!({"data": {"a": big}}), &[want]);
    }

    #[test]
    fn invalid_tls_certificates_cause_a_warning() {
        let secret =
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "AAAA", "tls.key": "AAAA"}});
        assert_eq!(
            warnings(&kind("", "Secret"), secret),
            ["tls: failed to find any PEM data in certificate input"]
        );
    }
}
