//! The authorizer library: `authorizer.group('apps').resource('deployments').check('get').allowed()` (upstream:
//! `library.Authz`).

use super::{FunctionTable, fail, no_overload};
use crate::authorizer::{
    AuthorizationCheck, AuthorizationSubject, AuthorizationTarget, ResourceCheck,
};
use crate::error::{EvaluationError, EvaluationResult};
use crate::interpreter::Interpreter;
use crate::library::opaque_value::OpaqueValue;
use crate::value::Value;
use rhumb_meta::validation;
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("path", path),
    ("group", |_, args| match args {
        [
            Value::Opaque(OpaqueValue::Authorizer(subject)),
            Value::String(group),
        ] => Ok(Value::Opaque(OpaqueValue::GroupCheck(Arc::new((
            subject.clone(),
            group.to_string(),
        ))))),
        _ => no_overload(),
    }),
    ("serviceAccount", service_account),
    ("resource", resource),
    ("subresource", |_, args| {
        with_attribute(args, |check, text| check.subresource = text)
    }),
    ("namespace", |_, args| {
        with_attribute(args, |check, text| check.namespace = text)
    }),
    ("name", |_, args| {
        with_attribute(args, |check, text| check.name = text)
    }),
    ("fieldSelector", |_, args| {
        with_attribute(args, |check, text| check.field_selector = text)
    }),
    ("labelSelector", |_, args| {
        with_attribute(args, |check, text| check.label_selector = text)
    }),
    ("check", check),
    ("allowed", |_, args| match args {
        [Value::Opaque(OpaqueValue::Decision(decision))] => Ok(Value::Bool(decision.allowed)),
        _ => no_overload(),
    }),
    ("reason", |_, args| match args {
        [Value::Opaque(OpaqueValue::Decision(decision))] => Ok(Value::from(&*decision.reason)),
        _ => no_overload(),
    }),
    ("errored", |_, args| match args {
        [Value::Opaque(OpaqueValue::Decision(decision))] => {
            Ok(Value::Bool(decision.error.is_some()))
        }
        _ => no_overload(),
    }),
    ("error", |_, args| match args {
        [Value::Opaque(OpaqueValue::Decision(decision))] => {
            Ok(Value::from(decision.error.as_deref().unwrap_or_default()))
        }
        _ => no_overload(),
    }),
];

fn path(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [
            Value::Opaque(OpaqueValue::Authorizer(_)),
            Value::String(path),
        ] if path.trim().is_empty() => fail("path must not be empty"),
        [
            Value::Opaque(OpaqueValue::Authorizer(subject)),
            Value::String(path),
        ] => Ok(Value::Opaque(OpaqueValue::PathCheck(Arc::new((
            subject.clone(),
            path.to_string(),
        ))))),
        _ => no_overload(),
    }
}

fn service_account(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [
        Value::Opaque(OpaqueValue::Authorizer(_)),
        Value::String(namespace),
        Value::String(name),
    ] = args
    else {
        return no_overload();
    };
    if !validation::dns1123_subdomain(name).is_empty() {
        return fail("Invalid service account name");
    }
    if !validation::dns1123_label(namespace).is_empty() {
        return fail("Invalid service account namespace");
    }
    Ok(Value::Opaque(OpaqueValue::Authorizer(Arc::new(
        AuthorizationSubject::ServiceAccount {
            namespace: namespace.to_string(),
            name: name.to_string(),
        },
    ))))
}

fn resource(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [
            Value::Opaque(OpaqueValue::GroupCheck(_)),
            Value::String(resource),
        ] if resource.trim().is_empty() => fail("resource must not be empty"),
        [
            Value::Opaque(OpaqueValue::GroupCheck(group)),
            Value::String(resource),
        ] => {
            let check = ResourceCheck {
                group: group.1.clone(),
                resource: resource.to_string(),
                ..ResourceCheck::default()
            };
            Ok(Value::Opaque(OpaqueValue::ResourceCheck(Arc::new((
                group.0.clone(),
                check,
            )))))
        }
        _ => no_overload(),
    }
}

fn with_attribute(args: &[Value], set: fn(&mut ResourceCheck, String)) -> EvaluationResult<Value> {
    match args {
        [
            Value::Opaque(OpaqueValue::ResourceCheck(check)),
            Value::String(text),
        ] => {
            let (subject, mut check) = (check.0.clone(), check.1.clone());
            set(&mut check, text.to_string());
            Ok(Value::Opaque(OpaqueValue::ResourceCheck(Arc::new((
                subject, check,
            )))))
        }
        _ => no_overload(),
    }
}

fn check(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let (subject, target, verb) = match args {
        [
            Value::Opaque(OpaqueValue::PathCheck(check)),
            Value::String(verb),
        ] => (&check.0, AuthorizationTarget::Path(&check.1), verb),
        [
            Value::Opaque(OpaqueValue::ResourceCheck(check)),
            Value::String(verb),
        ] => (&check.0, AuthorizationTarget::Resource(&check.1), verb),
        _ => return no_overload(),
    };
    interpreter.budget.check_deadline()?;
    let authorizer = interpreter
        .activation
        .inputs
        .authorizer
        .ok_or_else(|| EvaluationError::new("no such attribute(s): authorizer"))?;
    let decision = authorizer.check(&AuthorizationCheck {
        subject,
        verb,
        target,
    });
    Ok(Value::Opaque(OpaqueValue::Decision(Arc::new(decision))))
}
