//! Validation of projected volumes.

use rhumb_meta::field::{Error, ErrorList};
use serde_json::Value;

use super::{VolumeValidationContext, file_sources};
use crate::FieldView;
use crate::pods::checks;
use crate::small_map::SmallSet;

const TOKEN_SECONDS_MIN: i64 = 10 * 60;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const CONFLICT: &str = "conflicting duplicate paths";

const KINDS: &[&str] = &[
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
];

pub(super) fn validate(
    volume: &FieldView<'_>,
    context: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::file_mode(&volume.field("defaultMode"), errors);
    let mut paths = SmallSet::new();
    let sources = volume.field("sources");
    for item in sources.items() {
        let index = item.index();
        let source = item.with_index(&index);
        for kind in ["secret", "configMap"] {
            if source.has(kind) {
                keys(&source.field(kind), errors);
                claim_paths(volume, &item, kind, &mut paths, errors);
            }
        }
        if source.has("downwardAPI") {
            let downward = source.field("downwardAPI");
            for item in downward.field("items").items() {
                file_sources::downward_file(&FieldView::at(item.value(), *downward.path()), errors);
            }
            claim_paths(volume, &item, "downwardAPI", &mut paths, errors);
        }
        if source.has("serviceAccountToken") {
            let token = source.field("serviceAccountToken");
            service_account_token(volume, &token, context, errors);
        }
        if KINDS.iter().filter(|kind| source.has(kind)).count() > 1 {
            source.forbidden(errors, "may not specify more than 1 volume type per source");
        }
    }
}

fn keys(source: &FieldView<'_>, errors: &mut ErrorList) {
    checks::required(&source.field("name"), errors);
    for item in source.field("items").items() {
        file_sources::key_to_path(&item, errors);
    }
}

/// Rejects duplicate file paths across all sources.
fn claim_paths<'a>(
    volume: &FieldView<'_>,
    source: &FieldView<'a>,
    kind: &str,
    paths: &mut SmallSet<&'a str>,
    errors: &mut ErrorList,
) {
    let projection = source.get(kind).and_then(Value::as_object);
    let Some(projection) = projection else { return };
    let items = projection.get("items").and_then(Value::as_array);
    for item in items.into_iter().flatten() {
        let path = item.get("path").and_then(Value::as_str);
        let Some(path) = path.filter(|path| !path.is_empty()) else {
            continue;
        };
        if !paths.insert(path) {
            let name = projection.get("name").and_then(Value::as_str);
            let shown = if kind == "downwardAPI" {
                path
            } else {
                name.unwrap_or_default()
            };
            errors.push(Error::invalid(volume.path(), shown, CONFLICT));
        }
    }
}

fn service_account_token(
    volume: &FieldView<'_>,
    token: &FieldView<'_>,
    context: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let expiration = token.field("expirationSeconds");
    let seconds = token.number("expirationSeconds");
    if seconds < TOKEN_SECONDS_MIN {
        let detail = "may not specify a duration less than 10 minutes";
        checks::invalid_number(&expiration, errors, detail);
    }
    if seconds > TOKEN_SECONDS_MAX {
        let detail = "may not specify a duration larger than 2^32 seconds";
        checks::invalid_number(&expiration, errors, detail);
    }
    // As upstream, errors are reported at the volume.
    let path = FieldView::at(token.get("path"), volume.path().child("path"));
    if path.is_empty() {
        path.required(errors, "");
    } else if !context.options.allow_nonlocal_token_path {
        checks::local_non_reserved_path(&path, errors);
    }
}
