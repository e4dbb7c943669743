//! Validation of a webhook's `clientConfig`, in admission configurations and custom resource definitions.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::go_url::GoUrl;
use rhumb_meta::validation;

use super::checks;
use crate::FieldView;

/// Requires exactly one of `url` and `service`.
pub(crate) fn validate_client_config(config: &FieldView<'_>, errors: &mut ErrorList) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.exists(), service.exists()) {
        (true, false) => validate_url(&url, errors),
        (false, true) => validate_service(&service, errors),
        _ => config.required(errors, "exactly one of url or service is required"),
    }
}

fn validate_url(field: &FieldView<'_>, errors: &mut ErrorList) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match GoUrl::parse(field.str()) {
        Ok(url) => url,
        Err(error) => {
            field.required(errors, format!("url must be a valid URL: {error}{FORM}"));
            return;
        }
    };
    let mut refuse = |value: &str, detail: String| {
        errors.push(Error::invalid(field.path(), value, detail));
    };
    if url.scheme != "https" {
        refuse(
            &url.scheme,
            format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    if url.host.is_empty() {
        refuse("", format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        let detail = "user information is not permitted in the URL";
        refuse(user, detail.to_owned());
    }
    if !url.fragment.is_empty() {
        refuse(
            url.fragment,
            "fragments are not permitted in the URL".to_owned(),
        );
    }
    if !url.query.is_empty() {
        let detail = "query parameters are not permitted in the URL";
        refuse(url.query, detail.to_owned());
    }
}

pub(crate) fn validate_service(service: &FieldView<'_>, errors: &mut ErrorList) {
    for name in ["name", "namespace"] {
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
    validate_path(&service.field("path"), errors);
}

fn validate_path(field: &FieldView<'_>, errors: &mut ErrorList) {
    let path = field.str();
    if matches!(path, "" | "/") {
        return;
    }
    if path == "//" {
        checks::invalid_text(field, errors, "segment[0] may not be empty");
        return;
    }
    if !path.starts_with('/') {
        checks::invalid_text(field, errors, "must start with a '/'");
    }
    let mut characters = path.chars();
    characters.next();
    let segments = characters.as_str();
    let segments = segments.strip_suffix('/').unwrap_or(segments);
    for (index, segment) in segments.split('/').enumerate() {
        if segment.is_empty() {
            checks::invalid_text(field, errors, format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in validation::dns1123_subdomain(segment) {
            checks::invalid_text(field, errors, format!("segment[{index}]: {problem}"));
        }
    }
}
