//! SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectAccessReview and SelfSubjectRulesReview.

use std::collections::BTreeMap;

use rhumb_auth::{Attributes, Authorizer, Decision, User};
use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::{GroupKind, Status};
use serde_json::{Value, json};

use crate::resources::ResourceRequest;

const GROUP: &str = "authorization.k8s.io";

pub(super) fn self_subject(
    request: &ResourceRequest<'_>,
    review: &mut Value,
) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    check_attributes(review, &mut errors);
    check_metadata(review, &[], "must be empty", &mut errors);
    invalid_unless_empty(&errors)?;
    review["status"] = authorize(request, request.user, &review["spec"]);
    Ok(())
}

pub(super) fn subject(request: &ResourceRequest<'_>, review: &mut Value) -> Result<(), Status> {
    let user = subject_user(review);
    let mut errors = ErrorList::new();
    check_attributes(review, &mut errors);
    check_subject(&user, &mut errors);
    check_metadata(review, &[], "must be empty", &mut errors);
    invalid_unless_empty(&errors)?;
    review["status"] = authorize(request, &user, &review["spec"]);
    Ok(())
}

pub(super) fn local_subject(
    request: &ResourceRequest<'_>,
    review: &mut Value,
) -> Result<(), Status> {
    let user = subject_user(review);
    let mut errors = ErrorList::new();
    check_attributes(review, &mut errors);
    check_subject(&user, &mut errors);
    let detail = "must be empty except for namespace";
    check_metadata(review, &["namespace"], detail, &mut errors);
    check_local_namespace(request, &review["spec"], &mut errors);
    invalid_unless_empty(&errors)?;
    review["status"] = authorize(request, &user, &review["spec"]);
    Ok(())
}

pub(super) fn self_rules(request: &ResourceRequest<'_>, review: &mut Value) -> Result<(), Status> {
    let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let status = request
        .state
        .policy
        .policy()
        .rules_status(request.user, namespace);
    review["status"] = serde_json::to_value(status).map_err(Status::internal_error)?;
    // As upstream does, the response has an empty spec.
    review["spec"] = json!({});
    Ok(())
}

/// Exactly one of `resourceAttributes` and `nonResourceAttributes` must be set.
fn check_attributes(review: &Value, errors: &mut ErrorList) {
    let spec = &review["spec"];
    let has_field = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let (resource, path) = (
        has_field("resourceAttributes"),
        has_field("nonResourceAttributes"),
    );
    if resource && path {
        errors.push(Error::invalid(
            &Path::new("spec.nonResourceAttributes"),
            non_resource_attributes(spec),
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

/// `nonResourceAttributes` as upstream prints it in errors: with Go field names.
fn non_resource_attributes(spec: &Value) -> BadValue {
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

/// Reviews are never stored, so metadata is rejected.
fn check_metadata(review: &Value, allowed: &[&str], detail: &str, errors: &mut ErrorList) {
    let metadata = &review["metadata"];
    let mut set_fields = metadata.as_object().into_iter().flatten();
    if set_fields.any(|(field, _)| field != "managedFields" && !allowed.contains(&field.as_str())) {
        errors.push(Error::invalid(
            &Path::new("metadata"),
            BadValue::json(metadata),
            detail,
        ));
    }
}

/// A LocalSubjectAccessReview may only ask about its own namespace.
fn check_local_namespace(request: &ResourceRequest<'_>, spec: &Value, errors: &mut ErrorList) {
    let resource = &spec["resourceAttributes"];
    let requested = resource["namespace"].as_str().unwrap_or_default();
    if resource.is_object() && requested != request.namespace().unwrap_or_default() {
        errors.push(Error::invalid(
            &Path::new("spec.resourceAttributes.namespace"),
            requested,
            "must match metadata.namespace",
        ));
    }
    if spec["nonResourceAttributes"].is_object() {
        errors.push(Error::invalid(
            &Path::new("spec.nonResourceAttributes"),
            non_resource_attributes(spec),
            "disallowed on this kind of request",
        ));
    }
}

/// Upstream leaves the kind empty in these errors.
fn invalid_unless_empty(errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new(GROUP, ""), "", errors))
}

/// The user that the review asks about.
fn subject_user(review: &Value) -> User {
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

fn authorize(request: &ResourceRequest<'_>, user: &User, spec: &Value) -> Value {
    let resource = &spec["resourceAttributes"];
    let text = |value: &'_ Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let policy = request.state.policy.policy();
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
    review_status(&decision)
}

fn review_status(decision: &Decision) -> Value {
    let mut status = json!({"allowed": decision.is_allowed()});
    let reason = decision.reason();
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}
