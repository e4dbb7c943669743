//! May they do that?

use std::collections::BTreeMap;

use rhumb_auth::{Attributes, Authorizer, Decision, User};
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, Status};
use serde_json::{Value, json};

use crate::resources::Call;

const GROUP: &str = "authorization.k8s.io";

pub(super) fn self_subject(call: &Call<'_>, review: &mut Value) -> Result<(), Status> {
    check_question(review, "SelfSubjectAccessReview")?;
    review["status"] = decide(call, call.user, &review["spec"]);
    Ok(())
}

pub(super) fn subject(call: &Call<'_>, review: &mut Value) -> Result<(), Status> {
    check_question(review, "SubjectAccessReview")?;
    let user = subject_of(review, "SubjectAccessReview")?;
    review["status"] = decide(call, &user, &review["spec"]);
    Ok(())
}

pub(super) fn local_subject(call: &Call<'_>, review: &mut Value) -> Result<(), Status> {
    let kind = "LocalSubjectAccessReview";
    check_question(review, kind)?;
    let namespace = call.namespace().unwrap_or_default();
    let asked = review["spec"]["resourceAttributes"]["namespace"]
        .as_str()
        .unwrap_or_default();
    if asked != namespace {
        let mut errors = ErrorList::new();
        errors.push(Error::invalid(
            &Path::new("spec.resourceAttributes.namespace"),
            asked,
            "must match metadata.namespace",
        ));
        return Err(Status::invalid(&GroupKind::new(GROUP, kind), "", &errors));
    }
    let user = subject_of(review, kind)?;
    review["metadata"]["namespace"] = namespace.into();
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
    Ok(())
}

/// A review asks about a resource or about a path, and only about one.
fn check_question(review: &Value, kind: &'static str) -> Result<(), Status> {
    let spec = &review["spec"];
    let has = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let (resource, path) = (has("resourceAttributes"), has("nonResourceAttributes"));
    let mut errors = ErrorList::new();
    if resource && path {
        errors.push(Error::invalid(
            &Path::new("spec.nonResourceAttributes"),
            rhumb_meta::field::BadValue::json(&spec["nonResourceAttributes"]),
            "cannot be specified in combination with resourceAttributes",
        ));
    }
    if !resource && !path {
        errors.push(Error::invalid(
            &Path::new("spec.resourceAttributes"),
            rhumb_meta::field::BadValue::json(&spec["resourceAttributes"]),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new(GROUP, kind), "", &errors))
}

/// Whom the review is about.
fn subject_of(review: &Value, kind: &'static str) -> Result<User, Status> {
    let spec = &review["spec"];
    let strings = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    let user = User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: strings(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), strings(values)))
            .collect::<BTreeMap<_, _>>(),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let mut errors = ErrorList::new();
        errors.push(Error::invalid(
            &Path::new("spec.user"),
            "",
            "at least one of user or group must be specified",
        ));
        return Err(Status::invalid(&GroupKind::new(GROUP, kind), "", &errors));
    }
    Ok(user)
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
