//! Declares `Ingress` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/networking/validation`.

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::validation::{self, ValidationProblems};

use super::ingress_class::validate_reference;
use crate::feature_gates::Feature;
use crate::{
    FieldView, GenerationPolicy, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks,
    ip_addresses,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "networking.k8s.io",
        "v1",
        "Ingress",
        "ingresses",
        "io.k8s.api.networking.v1.Ingress",
    )
    .short_names(&["ing"])
    .storage("ingress")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .status()
    .strategy(IngressStrategy)
}

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

#[derive(Debug)]
struct IngressStrategy;

impl ResourceStrategy for IngressStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(
            &object.field("spec"),
            &IngressValidationOptions::default(),
            request,
            errors,
        );
        let metadata = object.field("metadata");
        let annotations = metadata.field("annotations");
        let annotation = annotations.key(CLASS_ANNOTATION);
        let spec = object.field("spec");
        let class = spec.field("ingressClassName");
        if annotation.exists() && class.exists() && annotation.str() != class.str() {
            // Upstream leaves `metadata` out of this path.
            let path = Path::new("annotations");
            let detail = "must match `ingressClassName` when both are specified";
            errors.push(Error::invalid(
                &path.child(CLASS_ANNOTATION),
                annotation.str(),
                detail,
            ));
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let options = IngressValidationOptions::for_update_of(&old.field("spec"), request);
        validate_spec(&object.field("spec"), &options, request, errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (status, old_status) = (object.field("status"), old.field("status"));
        let (balancer, old_balancer) = (
            status.field("loadBalancer"),
            old_status.field("loadBalancer"),
        );
        let old_points = old_balancer.field("ingress");
        let known: Vec<String> = old_points
            .items()
            .map(|point| point.field("ip").str().to_owned())
            .collect();
        let is_strict = request.gates.enabled(Feature::StrictIPCIDRValidation);
        for point in balancer.field("ingress").items() {
            let (ip, hostname) = (point.field("ip"), point.field("hostname"));
            if !ip.is_empty() && !known.iter().any(|known| known == ip.str()) {
                ip_addresses::validate(&ip, is_strict, errors);
            }
            if !hostname.is_empty() {
                checks::push_problems(
                    &hostname,
                    validation::dns1123_subdomain(hostname.str()),
                    errors,
                );
                reject_ip_host(&hostname, errors);
            }
        }
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        let metadata = object.field("metadata");
        let has_annotation = metadata.field("annotations").key(CLASS_ANNOTATION).exists();
        let has_class = object.field("spec").field("ingressClassName").exists();
        if old.is_none() && has_annotation && !has_class {
            warnings.push(format!(
                "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
            ));
        }
    }
}

/// Ratcheting: invalid values that an update may keep because the old ingress has them.
#[derive(Default)]
struct IngressValidationOptions {
    allow_invalid_secret_names: bool,
    allow_invalid_wildcard_rules: bool,
}

impl IngressValidationOptions {
    fn for_update_of(
        spec: &FieldView<'_>,
        request: &StrategyContext<'_>,
    ) -> IngressValidationOptions {
        let mut options = IngressValidationOptions::default();
        for tls in spec.field("tls").items() {
            options.allow_invalid_secret_names |=
                !secret_problems(tls.field("secretName").str()).is_empty();
        }
        for rule in spec.field("rules").items() {
            let mut wrong = ErrorList::new();
            validate_http(&rule.field("http"), request, &mut wrong);
            options.allow_invalid_wildcard_rules |=
                rule.field("host").str().contains('*') && !wrong.is_empty();
        }
        options
    }
}

fn secret_problems(name: &str) -> ValidationProblems {
    if name.is_empty() {
        return ValidationProblems::new();
    }
    validation::dns1123_subdomain(name)
}

fn validate_spec(
    spec: &FieldView<'_>,
    options: &IngressValidationOptions,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let (rules, backend) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.is_empty() && !backend.exists() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(spec.path(), rules.bad_value(), detail));
    }
    if backend.exists() {
        validate_backend(&backend, request, errors);
    }
    for rule in rules.items() {
        let host = rule.field("host");
        if !host.is_empty() {
            reject_ip_host(&host, errors);
            checks::push_problems(&host, host_problems(host.str()), errors);
        }
        if !(host.str().contains('*') && options.allow_invalid_wildcard_rules) {
            validate_http(&rule.field("http"), request, errors);
        }
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            checks::push_problems(&host, host_problems(host.str()), errors);
        }
        let secret = tls.field("secretName");
        if !options.allow_invalid_secret_names {
            checks::push_problems(&secret, secret_problems(secret.str()), errors);
        }
    }
    let class = spec.field("ingressClassName");
    if class.exists() {
        checks::push_problems(&class, validation::dns1123_subdomain(class.str()), errors);
    }
}

const WILDCARD_TEXT: &str = concat!(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of ",
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', ",
    "regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
);

fn host_problems(host: &str) -> ValidationProblems {
    if !host.contains('*') {
        return validation::dns1123_subdomain(host);
    }
    let mut found = ValidationProblems::new();
    if host.len() > validation::DNS1123_SUBDOMAIN_MAX_BYTES {
        found.push("must be no more than 253 characters");
    }
    let is_wildcard = host.strip_prefix("*.").is_some_and(|rest| {
        let shortened = &rest[..rest.len().min(validation::DNS1123_SUBDOMAIN_MAX_BYTES)];
        rest.is_ascii() && validation::dns1123_subdomain(shortened).is_empty()
    });
    if !is_wildcard {
        found.push(WILDCARD_TEXT);
    }
    found
}

fn reject_ip_host(host: &FieldView<'_>, errors: &mut ErrorList) {
    if ip_addresses::parse_lax(host.str()).is_some() {
        checks::invalid_text(host, errors, "must be a DNS name, not an IP address");
    }
}

fn validate_http(http: &FieldView<'_>, request: &StrategyContext<'_>, errors: &mut ErrorList) {
    if !http.exists() {
        return;
    }
    let paths = http.field("paths");
    if paths.is_empty() {
        paths.required(errors, "");
    }
    for item in paths.items() {
        let (path, kind) = (item.field("path"), item.field("pathType"));
        if !kind.exists() {
            kind.required(errors, "pathType must be specified");
            continue;
        }
        match kind.str() {
            "Exact" | "Prefix" => validate_path(&path, errors),
            "ImplementationSpecific" if path.is_empty() => {}
            "ImplementationSpecific" => validate_absolute_path(&path, errors),
            _ => checks::one_of(
                &kind,
                &["Exact", "ImplementationSpecific", "Prefix"],
                errors,
            ),
        }
        validate_backend(&item.field("backend"), request, errors);
    }
}

fn validate_absolute_path(path: &FieldView<'_>, errors: &mut ErrorList) {
    if !path.str().starts_with('/') {
        checks::invalid_text(path, errors, "must be an absolute path");
    }
}

fn validate_path(path: &FieldView<'_>, errors: &mut ErrorList) {
    validate_absolute_path(path, errors);
    for part in ["//", "/./", "/../", "%2f", "%2F"] {
        if path.str().contains(part) {
            checks::invalid_text(path, errors, format!("must not contain '{part}'"));
        }
    }
    for end in ["/..", "/."] {
        if path.str().ends_with(end) {
            checks::invalid_text(path, errors, format!("cannot end with '{end}'"));
        }
    }
}

fn validate_backend(
    backend: &FieldView<'_>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    let mut refuse = |detail: &str| errors.push(Error::invalid(backend.path(), "", detail));
    match (resource.exists(), service.exists()) {
        (true, true) => refuse("cannot set both resource and service backends"),
        (false, false) => refuse("resource or service backend is required"),
        (true, false) => validate_reference(&resource, errors),
        (false, true) => {
            validate_service(&service, request, errors);
            validate_port(backend, &service.field("port"), errors);
        }
    }
}

fn validate_service(
    service: &FieldView<'_>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let name = service.field("name");
    if name.is_empty() {
        return name.required(errors, "");
    }
    let is_relaxed = request.gates.enabled(Feature::RelaxedServiceNameValidation);
    let found = if is_relaxed {
        validation::dns1123_label(name.str())
    } else {
        validation::dns1035_label(name.str())
    };
    checks::push_problems(&name, found, errors);
}

fn validate_port(backend: &FieldView<'_>, port: &FieldView<'_>, errors: &mut ErrorList) {
    let (name, number) = (port.field("name"), port.field("number"));
    match (name.is_empty(), number.is_empty()) {
        (false, false) => {
            let detail = "cannot set both port name & port number";
            errors.push(Error::invalid(backend.path(), "", detail));
        }
        (false, true) => {
            checks::push_problems(&name, checks::port_name_problems(name.str()), errors);
        }
        (true, false) => checks::port_number(&number, errors),
        (true, true) => backend.required(errors, "port name or number is required"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, kind};

    fn check(spec: Value, want: &[&str]) {
        let ingress = kind("networking.k8s.io", "Ingress");
        check_create(&ingress, json!({"spec": spec}), want);
    }

    fn backend() -> Value {
        json!({"service": {"name": "a", "port": {"number": 80}}})
    }

    #[test]
    fn ingress_requires_a_default_backend_or_rules() {
        check(json!({"defaultBackend": backend()}), &[]);
        check(
            json!({}),
            &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
        );
        check(
            json!({"defaultBackend": {"service": {"name": "a"}}}),
            &["spec.defaultBackend: Required value: port name or number is required"],
        );
        check(
            json!({"defaultBackend": {}}),
            &["spec.defaultBackend: Invalid value: \"\": resource or service backend is required"],
        );
    }

    #[test]
    fn hosts_and_paths_are_checked() {
        let rule =
            |host: &str, path: Value| json!({"rules": [{"host": host, "http": {"paths": [path]}}]});
        let path =
            |kind: &str, path: &str| json!({"pathType": kind, "path": path, "backend": backend()});
        check(rule("*.example.com", path("Prefix", "/a")), &[]);
        check(rule("example.com", path("ImplementationSpecific", "")), &[]);
        check(
            rule("1.2.3.4", path("Exact", "a//b/.")),
            &[
                "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
                "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/.\": must be an absolute path",
                "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/.\": must not contain '//'",
                "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/.\": cannot end with '/.'",
            ],
        );
        check(
            rule("a*", json!({})),
            &[
                &format!(
                    "spec.rules[0].host: Invalid value: \"a*\": {}",
                    super::WILDCARD_TEXT
                ),
                "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
            ],
        );
    }
}
