//! Validation of environment variables and their sources (`env`, `envFrom`).

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::{Quantity, validation};

use super::checks;
use crate::FieldView;
use crate::selectors::push_problems;

const FIELD_PATHS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// All field paths of the downward API, for files or variables.
const READABLE_PATHS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const BYTE_DIVISORS: &[&str] = &[
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Validates variables. Returns whether any of them uses `fileKeyRef`.
pub(super) fn validate(variables: &FieldView<'_>, errors: &mut ErrorList) -> bool {
    let mut is_any_in_file = false;
    for variable in variables.items() {
        let name = variable.field("name");
        if name.is_empty() {
            name.required(errors, "");
        } else {
            checks::env_name(&name, errors);
        }
        let source = variable.field("valueFrom");
        if source.exists() {
            let has_value = !variable.text("value").is_empty();
            validate_source(&source, has_value, errors);
            is_any_in_file |= source.has("fileKeyRef");
        }
    }
    is_any_in_file
}

fn validate_source(source: &FieldView<'_>, has_value: bool, errors: &mut ErrorList) {
    let mut sources = 0;
    let mut check = |name: &str, check: &mut dyn FnMut(&FieldView<'_>)| {
        if source.has(name) {
            sources += 1;
            let path = source.path().child(name);
            check(&FieldView::at(source.get(name), path));
        }
    };
    check("fieldRef", &mut |view| {
        field_selector(view, FIELD_PATHS, errors);
    });
    check("resourceFieldRef", &mut |view| {
        resource_selector(view, false, errors);
    });
    check("configMapKeyRef", &mut |view| key_selector(view, errors));
    check("secretKeyRef", &mut |view| key_selector(view, errors));
    check("fileKeyRef", &mut |view| file_selector(view, errors));
    let detail = if sources == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if has_value {
        "may not be specified when `value` is not empty"
    } else if sources > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    errors.push(Error::invalid(source.path(), "", detail));
}

/// Validates a `fieldRef`, whose path must be one of `supported`.
pub(super) fn field_selector(selector: &FieldView<'_>, supported: &[&str], errors: &mut ErrorList) {
    let (version, path) = (selector.field("apiVersion"), selector.field("fieldPath"));
    if version.is_empty() {
        version.required(errors, "");
        return;
    }
    if path.is_empty() {
        path.required(errors, "");
        return;
    }
    if version.str() != "v1" {
        let detail = format!(
            "error converting fieldPath: unsupported pod version: {}",
            version.str()
        );
        checks::invalid_text(&path, errors, detail);
        return;
    }
    match split_subscript(path.str()) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            push_problems(
                errors,
                selector.path(),
                &key,
                validation::qualified_name(&key),
            );
        }
        Some(("metadata.labels", key)) => {
            push_problems(
                errors,
                selector.path(),
                key,
                validation::qualified_name(key),
            );
        }
        Some(_) => {
            let detail = format!(
                "error converting fieldPath: field label does not support subscript: {}",
                path.str()
            );
            checks::invalid_text(&path, errors, detail);
        }
        None => validate_plain_path(&path, supported, errors),
    }
}

fn validate_plain_path(path: &FieldView<'_>, supported: &[&str], errors: &mut ErrorList) {
    // Deprecated name of a field, which upstream still accepts.
    let name = match path.str() {
        "spec.host" => "spec.nodeName",
        name => name,
    };
    if !READABLE_PATHS.contains(&name) {
        let detail = format!("error converting fieldPath: field label not supported: {name}");
        checks::invalid_text(path, errors, detail);
    } else if !supported.contains(&name) {
        errors.push(Error::not_supported(path.path(), name, supported));
    }
}

/// Splits `metadata.labels['app']` into path and key.
fn split_subscript(path: &str) -> Option<(&str, &str)> {
    let parts = path.strip_suffix("']")?.split_once("['");
    parts.filter(|(path, _)| !path.is_empty())
}

/// Validates a `resourceFieldRef`. In a volume, the container name is required.
pub(super) fn resource_selector(selector: &FieldView<'_>, in_volume: bool, errors: &mut ErrorList) {
    let resource = selector.field("resource");
    let name = resource.str();
    let is_huge_page =
        name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if in_volume && selector.text("containerName").is_empty() {
        selector.field("containerName").required(errors, "");
    } else if name.is_empty() {
        resource.required(errors, "");
    } else if !is_huge_page {
        checks::one_of(&resource, RESOURCES, errors);
    }
    let divisor = selector.field("divisor");
    if let Some(quantity) = checks::quantity(&divisor, errors) {
        validate_divisor(name, &quantity, &divisor, errors);
    }
}

fn validate_divisor(name: &str, divisor: &Quantity, view: &FieldView<'_>, errors: &mut ErrorList) {
    if divisor.is_zero() {
        return;
    }
    let text = divisor.to_string();
    let kind = match name {
        "limits.cpu" | "requests.cpu" => {
            if !matches!(text.as_str(), "1m" | "1") {
                let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.push(Error::invalid(view.path(), name, detail));
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-") => {
            "hugepages"
        }
        _ => return,
    };
    if !BYTE_DIVISORS.contains(&text.as_str()) {
        let detail = format!(
            "only divisor's values {} are supported with the {kind} resource",
            BYTE_DIVISORS.join(", ")
        );
        errors.push(Error::invalid(view.path(), name, detail));
    }
}

/// Validates a `configMapKeyRef` or `secretKeyRef`.
fn key_selector(selector: &FieldView<'_>, errors: &mut ErrorList) {
    checks::dns_subdomain(&selector.field("name"), errors);
    let key = selector.field("key");
    if key.is_empty() {
        key.required(errors, "");
    } else {
        checks::config_key(&key, errors);
    }
}

fn file_selector(selector: &FieldView<'_>, errors: &mut ErrorList) {
    let (key, path) = (selector.field("key"), selector.field("path"));
    if key.is_empty() {
        key.required(errors, "");
    } else {
        checks::env_name(&key, errors);
    }
    checks::required_dns_label(&selector.field("volumeName"), errors);
    if path.is_empty() {
        path.required(errors, "");
    } else {
        checks::no_backsteps(&path, errors);
    }
}

/// Validates `envFrom`.
pub(super) fn validate_from(sources: &FieldView<'_>, errors: &mut ErrorList) {
    for source in sources.items() {
        let prefix = source.field("prefix");
        if !prefix.is_empty() {
            checks::env_name(&prefix, errors);
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.field(kind);
            if reference.exists() {
                count += 1;
                validate_reference_name(&reference.field("name"), errors);
            }
        }
        // As upstream, errors are reported at the list.
        let detail = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(Error::invalid(sources.path(), "", detail));
    }
}

/// Validates the name of a config map or secret. Upstream validates it as a name prefix, which may end in a dash.
fn validate_reference_name(view: &FieldView<'_>, errors: &mut ErrorList) {
    let name = view.str();
    if name.is_empty() {
        view.required(errors, "");
        return;
    }
    let masked = name.strip_suffix('-').and_then(|start| {
        let kept = start.len().checked_sub(1)?;
        Some(format!("{}a", start.get(..kept)?))
    });
    let checked = masked.as_deref().unwrap_or(name);
    push_problems(
        errors,
        view.path(),
        name,
        validation::dns1123_subdomain(checked),
    );
}
