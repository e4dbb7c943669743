//! Declares `IngressClass` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/networking/validation`.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::{
    FieldView, GenerationPolicy, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks,
};

const CONTROLLER_MAX_BYTES: usize = 250;

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "networking.k8s.io",
        "v1",
        "IngressClass",
        "ingressclasses",
        "io.k8s.api.networking.v1.IngressClass",
    )
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .strategy(IngressClassStrategy)
}

#[derive(Debug)]
struct IngressClassStrategy;

impl ResourceStrategy for IngressClassStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let spec = object.field("spec");
        validate_controller(&spec.field("controller"), errors);
        let parameters = spec.field("parameters");
        if parameters.exists() {
            validate_reference(&parameters, errors);
            validate_scope(&parameters, errors);
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        checks::immutable_text(&spec.field("controller"), &old.field("controller"), errors);
        self.validate_create(object, request, errors);
    }
}

/// Validates a domain-prefixed path.
fn validate_controller(controller: &FieldView<'_>, errors: &mut ErrorList) {
    if controller.len() > CONTROLLER_MAX_BYTES {
        errors.push(Error::too_long(controller.path(), CONTROLLER_MAX_BYTES));
    }
    if controller.is_empty() {
        return controller.required(errors, "");
    }
    let parts = controller.str().split_once('/');
    let Some((host, path)) = parts.filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return checks::invalid_text(controller, errors, detail);
    };
    for problem in validation::dns1123_subdomain(host) {
        errors.push(Error::invalid(controller.path(), host, problem));
    }
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !path.bytes().all(is_allowed) {
        let detail =
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(Error::invalid(controller.path(), path, detail));
    }
}

/// Validates a reference to an object of any kind.
pub(super) fn validate_reference(reference: &FieldView<'_>, errors: &mut ErrorList) {
    let group = reference.field("apiGroup");
    if group.exists() {
        checks::push_problems(&group, validation::dns1123_subdomain(group.str()), errors);
    }
    for name in ["kind", "name"] {
        let field = reference.field(name);
        if field.is_empty() {
            field.required(errors, "");
        } else {
            checks::push_problems(&field, validation::path_segment_name(field.str()), errors);
        }
    }
}

fn validate_scope(parameters: &FieldView<'_>, errors: &mut ErrorList) {
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.opt_str() {
        None => scope.required(errors, ""),
        Some("Namespace") if !namespace.exists() => {
            namespace.required(errors, "`parameters.scope` is set to 'Namespace'");
        }
        Some("Namespace") => {
            checks::push_problems(
                &namespace,
                validation::dns1123_label(namespace.str()),
                errors,
            );
        }
        Some("Cluster") if namespace.exists() => {
            namespace.forbidden(errors, "`parameters.scope` is set to 'Cluster'");
        }
        Some("Cluster") => {}
        Some(_) => checks::one_of_texts(&scope, &["Cluster", "Namespace"], errors),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{check_create, check_update, kind};

    #[test]
    fn controller_and_parameters_are_validated() {
        let class = kind("networking.k8s.io", "IngressClass");
        let good = json!({"spec": {"controller": "example.com/a"}});
        check_create(&class, good.clone(), &[]);
        check_create(
            &class,
            json!({"spec": {"controller": "example.com", "parameters": {"kind": "A", "scope": "Namespace"}}}),
            &[
                concat!(
                    "spec.controller: Invalid value: \"example.com\": must be a domain-prefixed path (such as ",
                    "\"acme.io/foo\")"
                ),
                "spec.parameters.name: Required value",
                "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
            ],
        );
        let want = "spec.controller: Invalid value: \"example.com/b\": field is immutable";
        check_update(
            &class,
            good,
            json!({"spec": {"controller": "example.com/b"}}),
            &[want],
        );
    }
}
