//! Declares `APIService` and its strategy: preparation, validation and warnings, as in
//! upstream's `kube-aggregator` `pkg/apis/apiregistration/validation`.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::{gotext, validation};
use serde_json::json;

use crate::validation_helpers::checks;
use crate::{
    FieldView, JsonObject, Kind, NameRule, ResourceScope, ResourceStrategy, StrategyContext,
    fields, object_edit,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    )
    .allow_any_finalizer()
    .category("api-extensions")
    .storage("apiregistration.k8s.io/apiservices")
    .status()
    .status_update_preserves(crate::kind::USER_METADATA_FIELDS)
    .names(NameRule::PathSegment)
    .requires_resource_version()
    .strategy(ApiServiceStrategy)
}

const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1000;

#[derive(Debug)]
struct ApiServiceStrategy;

impl ResourceStrategy for ApiServiceStrategy {
    /// Marks a local APIService (without a service reference) as available.
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        if fields::get(object, "spec.service").is_some() {
            return;
        }
        let condition = json!({
            "type": "Available",
            "status": "True",
            "lastTransitionTime": request.now.rfc3339().to_string(),
            "reason": "Local",
            "message": "Local APIServices are always available",
        });
        object_edit::edit_child(object, &["status"], |status| {
            status.insert("conditions".to_owned(), json!([condition]));
        });
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let status = object.field("status");
        for condition in status.field("conditions").items() {
            let field = condition.field("status");
            let supported = ["True", "False", "Unknown"];
            if !supported.contains(&field.str()) {
                checks::not_supported_text(&field, &supported, errors);
            }
        }
    }
}

fn validate(object: &FieldView<'_>, errors: &mut ErrorList) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let (name, group, version) = (
        metadata.field("name"),
        spec.field("group"),
        spec.field("version"),
    );
    let wanted = format!("{}.{}", version.str(), group.str());
    if name.str() != wanted && validation::path_segment_name(name.str()).is_empty() {
        let wanted = gotext::quote(&wanted).to_string();
        let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted}");
        checks::invalid_text(&name, errors, detail);
    }
    if group.is_empty() && version.str() != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        group.required(errors, detail);
    }
    if !group.is_empty() {
        checks::push_problems(&group, validation::dns1123_subdomain(group.str()), errors);
    }
    checks::push_problems(&version, validation::dns1035_label(version.str()), errors);
    let priorities = [
        ("groupPriorityMinimum", GROUP_PRIORITY_MAX),
        ("versionPriority", VERSION_PRIORITY_MAX),
    ];
    for (name, max) in priorities {
        let field = spec.field(name);
        let value = field.int().unwrap_or(0);
        if !(1..=max).contains(&value) {
            let detail = format!("must be positive and less than {max}");
            errors.push(Error::invalid(field.path(), value, detail));
        }
    }
    validate_service(&spec, errors);
}

fn validate_service(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let (service, bundle) = (spec.field("service"), spec.field("caBundle"));
    let insecure = spec.field("insecureSkipTLSVerify");
    if !service.exists() {
        if !bundle.is_empty() {
            let value = format!("{} bytes", fields::base64_decoded_len(bundle.str()));
            let detail = "local APIServices may not have a caBundle";
            errors.push(Error::invalid(bundle.path(), value, detail));
        }
        if insecure.is_true() {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            insecure.invalid(errors, detail);
        }
        return;
    }
    for name in ["namespace", "name"] {
        let field = service.field(name);
        if field.is_empty() {
            field.required(errors, "");
        }
    }
    let port = service.field("port");
    let number = port.int().unwrap_or(0);
    if !(1..=65535).contains(&number) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(port.path(), number, detail));
    }
    if insecure.is_true() && !bundle.is_empty() {
        insecure.invalid(errors, "may not be true if caBundle is present");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::kind;
    use crate::validation_helpers::testing::{check_create, created, with};

    fn service() -> Value {
        json!({
            "metadata": {"name": "v1.example.com"},
            "spec": {
                "group": "example.com",
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 10,
                "service": {"name": "a", "namespace": "b", "port": 443},
            },
        })
    }

    #[test]
    fn api_services_are_validated() {
        let check = |path: &str, value: Value, expect: &[&str]| {
            check_create(&kind(), &with(&service(), path, value), expect);
        };
        check("spec.caBundle", json!("AQID"), &[]);
        check(
            "metadata.name",
            json!("v2.example.com"),
            &[
                "metadata.name: Invalid value: \"v2.example.com\": must be `spec.version+\".\"+spec.group`: \"v1.example.com\"",
            ],
        );
        check(
            "spec.versionPriority",
            json!(1001),
            &["spec.versionPriority: Invalid value: 1001: must be positive and less than 1000"],
        );
        check(
            "spec.service",
            json!({"port": 0}),
            &[
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ],
        );
        let local = with(&service(), "spec.service", Value::Null);
        check_create(
            &kind(),
            &with(&local, "spec.caBundle", json!("AQID")),
            &[
                "spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle",
            ],
        );
    }

    #[test]
    fn local_api_service_is_available() {
        let local = with(&service(), "spec.service", Value::Null);
        let conditions = &created(&kind(), &local)["status"]["conditions"];
        assert_eq!(conditions[0]["reason"], "Local");
        assert_eq!(created(&kind(), &service()).get("status"), None);
    }
}
