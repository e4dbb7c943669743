//! Validation of the pod annotations that Kubernetes interprets: tolerations, deletion cost, seccomp and AppArmor
//! profiles, mirror pods.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::gotext;
use serde_json::Value;

use super::{PodValidationOptions, checks, for_each_container, scheduling};
use crate::{FieldView, JsonObject};

pub(super) const MIRROR_POD_ANNOTATION: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub(super) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(super) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";

pub(super) fn validate(
    annotations: &FieldView<'_>,
    spec: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    if annotations.is_empty() {
        return;
    }
    if annotations.has(MIRROR_POD_ANNOTATION) && spec.text("nodeName").is_empty() {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        checks::invalid_text(&annotations.key(MIRROR_POD_ANNOTATION), errors, detail);
    }
    tolerations(annotations, options, errors);
    if !options.allow_invalid_deletion_cost && !has_valid_deletion_cost(annotations) {
        let cost = annotations.key(DELETION_COST);
        checks::invalid_text(&cost, errors, "must be a 32bit integer");
    }
    seccomp_profiles(annotations, errors);
    app_armor_profiles(annotations, spec, errors);
}

/// Returns whether any annotation refers to a single container. Few pods have one; for all others, containers need
/// not be looked up.
pub(super) fn has_container_annotations(annotations: &FieldView<'_>) -> bool {
    let mut keys = annotations.object().into_iter().flat_map(JsonObject::keys);
    keys.any(|key| key.starts_with(SECCOMP_CONTAINER) || key.starts_with(APP_ARMOR))
}

fn tolerations(
    annotations: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let text = annotations.text(TOLERATIONS);
    if text.is_empty() {
        return;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(tolerations) => {
            let path = annotations.path().child(TOLERATIONS);
            let view = FieldView::at(Some(&tolerations), path);
            scheduling::validate_tolerations(&view, options, errors);
        }
        Err(error) => {
            let error = Error::invalid(annotations.path(), TOLERATIONS, error.to_string());
            errors.push(error);
        }
    }
}

pub(super) fn has_valid_deletion_cost(annotations: &FieldView<'_>) -> bool {
    let Some(cost) = annotations.get(DELETION_COST) else {
        return true;
    };
    let cost = cost.as_str().unwrap_or_default();
    let begins_well = cost == "0" || cost.starts_with(|c| matches!(c, '-' | '1'..='9'));
    begins_well && cost.parse::<i32>().is_ok()
}

fn seccomp_profiles(annotations: &FieldView<'_>, errors: &mut ErrorList) {
    for (key, value) in annotations.object().into_iter().flatten() {
        if key != SECCOMP_POD && !key.starts_with(SECCOMP_CONTAINER) {
            continue;
        }
        let view = FieldView::at(Some(value), annotations.path().child(key));
        match view.str() {
            "runtime/default" | "docker/default" | "unconfined" => {}
            profile => match profile.strip_prefix(LOCALHOST) {
                Some(path) => {
                    let path = Value::from(path);
                    checks::local_descending_path(
                        &FieldView::at(Some(&path), *view.path()),
                        errors,
                    );
                }
                None => checks::invalid_text(&view, errors, "must be a valid seccomp profile"),
            },
        }
    }
}

fn app_armor_profiles(annotations: &FieldView<'_>, spec: &FieldView<'_>, errors: &mut ErrorList) {
    let mut names = HashSet::new();
    let has_profiles = annotations
        .entries()
        .any(|(key, _)| key.starts_with(APP_ARMOR));
    if has_profiles {
        for_each_container(spec, |container| {
            names.insert(container.text("name").to_owned());
        });
    }
    for (key, value) in annotations.entries() {
        let Some(name) = key.strip_prefix(APP_ARMOR) else {
            continue;
        };
        if !names.contains(name) {
            errors.push(Error::invalid(value.path(), name, "container not found"));
        }
        let profile = value.str();
        let is_valid = matches!(profile, "" | "runtime/default" | "unconfined")
            || profile.starts_with(LOCALHOST);
        if !is_valid {
            let detail = format!("invalid AppArmor profile name: {}", gotext::quote(profile));
            checks::invalid_text(&value, errors, detail);
        }
    }
}

/// Validates that annotations agree with the fields that replaced them.
pub(super) fn validate_profiles_match_fields(
    annotations: &FieldView<'_>,
    spec: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    if annotations.is_empty() {
        return;
    }
    let context = spec.field("securityContext");
    let of_pod = context.field("seccompProfile");
    validate_profile_matches(annotations, SECCOMP_POD, &of_pod, "seccomp", errors);
    if !has_container_annotations(annotations) {
        return;
    }
    for_each_container(spec, |container| {
        let key = format!("{SECCOMP_CONTAINER}{}", container.text("name"));
        let context = container.field("securityContext");
        let profile = context.field("seccompProfile");
        validate_profile_matches(annotations, &key, &profile, "seccomp", errors);
    });
    let os = spec.field("os");
    if os.text("name") == "windows" {
        return;
    }
    for_each_container(spec, |container| {
        let key = format!("{APP_ARMOR}{}", container.text("name"));
        let own = container.field("securityContext");
        let profile = own
            .get("appArmorProfile")
            .or_else(|| context.get("appArmorProfile"));
        let profile = FieldView::at(profile, own.path().child("appArmorProfile"));
        validate_profile_matches(annotations, &key, &profile, "apparmor", errors);
    });
}

fn validate_profile_matches(
    annotations: &FieldView<'_>,
    key: &str,
    profile: &FieldView<'_>,
    kind: &str,
    errors: &mut ErrorList,
) {
    let annotation = annotations.get(key).and_then(Value::as_str);
    let (Some(annotation), true) = (annotation, profile.exists()) else {
        return;
    };
    let is_same_type = match profile.text("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || (kind == "seccomp" && annotation == "docker/default")
        }
        "Localhost" => annotation.starts_with(LOCALHOST),
        _ => true,
    };
    if !is_same_type {
        let detail = format!("{kind} type in annotation and field must match");
        profile.field("type").forbidden(errors, detail);
    } else if profile.text("type") == "Localhost" {
        let local = profile.get("localhostProfile").and_then(Value::as_str);
        if local != annotation.strip_prefix(LOCALHOST) {
            let detail = format!("{kind} profile in annotation and field must match");
            profile.field("localhostProfile").forbidden(errors, detail);
        }
    }
}

/// Validates annotations that are immutable after creation.
pub(super) fn validate_update(
    annotations: &FieldView<'_>,
    old: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let mut refuse = |key: &str, app_armor: &str, mirror: &str| {
        let path = annotations.path().key(key);
        if key.starts_with(APP_ARMOR) {
            errors.push(Error::forbidden(&path, app_armor));
        } else if key == MIRROR_POD_ANNOTATION {
            errors.push(Error::forbidden(&path, mirror));
        }
    };
    for (key, value) in old.object().into_iter().flatten() {
        if annotations.get(key) != Some(value) {
            refuse(
                key,
                "may not remove or update AppArmor annotations",
                "may not remove or update mirror pod annotation",
            );
        }
    }
    for (key, _) in annotations.object().into_iter().flatten() {
        if !old.has(key) {
            refuse(
                key,
                "may not add AppArmor annotations",
                "may not add mirror pod annotation",
            );
        }
    }
}
