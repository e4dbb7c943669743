//! May they do that?

use std::collections::BTreeMap;

use rhumb_auth::{Attributes, Authorizer, Decision, User};
use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::{GroupKind, Status};
use serde_json::{Value, json};

use crate::resources::Call;

const GROUP: &str = "authorization.k8s.io";

pub(super) fn self_subject(call: &Call<'_>, review: &mut Value) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    check_question(review, &mut errors);
    check_metadata(review, &[], "must be empty", &mut errors);
    invalid_unless_empty(&errors)?;
    review["status"] = decide(call, call.user, &review["spec"]);
    Ok(())
}

pub(super) fn subject(call: &Call<'_>, review: &mut Value) -> Result<(), Status> {
    let user = subject_of(review);
    let mut errors = ErrorList::new();
    check_question(review, &mut errors);
    check_subject(&user, &mut errors);
    check_metadata(review, &[], "must be empty", &mut errors);
    invalid_unless_empty(&errors)?;
    review["status"] = decide(call, &user, &review["spec"]);
    Ok(())
}

pub(super) fn local_subject(call: &Call<'_>, review: &mut Value) -> Result<(), Status> {
    let user = subject_of(review);
    let mut errors = ErrorList::new();
    check_question(review, &mut errors);
    check_subject(&user, &mut errors);
    let detail = "must be empty except for namespace";
    check_metadata(review, &["namespace"], detail, &mut errors);
    check_is_local(call, &review["spec"], &mut errors);
    invalid_unless_empty(&errors)?;
    review["status"] = decide(call, &user, &review["spec"]);
    Ok(())
}

pub(super) fn self_rules(call: &Call<'_>, review: &mut Value) -> Result<(), Status> {
    let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let status = call.api.policy.policy().rules_status(call.user, namespace);
    review["status"] = serde_json::to_value(status).map_err(Status::internal_error)?;
    // As upstream has it, the answer does not repeat the question.
    review["spec"] = json!({});
    Ok(())
}

/// A review asks about a resource or about a path, and only about one.
fn check_question(review: &Value, errors: &mut ErrorList) {
    let spec = &review["spec"];
    let has = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let (resource, path) = (has("resourceAttributes"), has("nonResourceAttributes"));
    if resource && path {
        errors.push(Error::invalid(
            &Path::new("spec.nonResourceAttributes"),
            path_as_shown(spec),
            "cannot be specified in combination with resourceAttributes",
        ));
    }
    if !resource && !path {
        errors.push(Error::invalid(
            &Path::new("spec.resourceAttributes"),
            BadValue::json(&spec["resourceAttributes"]),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ));
    }
}

/// A path that is asked about, as upstream shows it: by the names of its own fields.
fn path_as_shown(spec: &Value) -> BadValue {
    let text = |field: &str| {
        spec["nonResourceAttributes"][field]
            .as_str()
            .unwrap_or_default()
    };
    BadValue::json(&json!({"Path": text("path"), "Verb": text("verb")}))
}

fn check_subject(user: &User, errors: &mut ErrorList) {
    if user.name.is_empty() && user.groups.is_empty() {
        errors.push(Error::invalid(
            &Path::new("spec.user"),
            "",
            "at least one of user or group must be specified",
        ));
    }
}

/// A review is never stored, so that metadata would mean nothing.
fn check_metadata(review: &Value, allowed: &[&str], detail: &str, errors: &mut ErrorList) {
    let metadata = &review["metadata"];
    let mut given = metadata.as_object().into_iter().flatten();
    if given.any(|(field, _)| field != "managedFields" && !allowed.contains(&field.as_str())) {
        errors.push(Error::invalid(
            &Path::new("metadata"),
            BadValue::json(metadata),
            detail,
        ));
    }
}

/// A local review is about its own namespace.
fn check_is_local(call: &Call<'_>, spec: &Value, errors: &mut ErrorList) {
    let resource = &spec["resourceAttributes"];
    let asked = resource["namespace"].as_str().unwrap_or_default();
    if resource.is_object() && asked != call.namespace().unwrap_or_default() {
        errors.push(Error::invalid(
            &Path::new("spec.resourceAttributes.namespace"),
            asked,
            "must match metadata.namespace",
        ));
    }
    if spec["nonResourceAttributes"].is_object() {
        errors.push(Error::invalid(
            &Path::new("spec.nonResourceAttributes"),
            path_as_shown(spec),
            "disallowed on this kind of request",
        ));
    }
}

/// Upstream does not say which kind of review it is.
fn invalid_unless_empty(errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new(GROUP, ""), "", errors))
}

/// Whom the review is about.
fn subject_of(review: &Value) -> User {
    let spec = &review["spec"];
    let strings = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: strings(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), strings(values)))
            .collect::<BTreeMap<_, _>>(),
    }
}

fn decide(call: &Call<'_>, user: &User, spec: &Value) -> Value {
    let resource = &spec["resourceAttributes"];
    let text = |value: &'_ Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let policy = call.api.policy.policy();
    let decision = if resource.is_object() {
        let [verb, group, version, plural, subresource, namespace, name] = [
            "verb",
            "group",
            "version",
            "resource",
            "subresource",
            "namespace",
            "name",
        ]
        .map(|field| text(resource, field));
        policy.authorize(&Attributes {
            api_version: &version,
            subresource: &subresource,
            namespace: &namespace,
            name: &name,
            ..Attributes::resource(user, &verb, &group, &plural)
        })
    } else {
        let path = &spec["nonResourceAttributes"];
        policy.authorize(&Attributes::path(
            user,
            &text(path, "verb"),
            &text(path, "path"),
        ))
    };
    answer(&decision)
}

fn answer(decision: &Decision) -> Value {
    let mut status = json!({"allowed": decision.is_allowed()});
    let reason = decision.reason();
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}
