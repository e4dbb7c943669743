//! `authorizer.group('apps').resource('deployments').check('get').allowed()`.

use super::{Table, fail, no_overload};
use crate::authorizer::{Question, ResourceCheck, Subject, Target};
use crate::error::{Evaluated, EvaluationError};
use crate::library::opaque::Opaque;
use crate::run::Machine;
use crate::value::Value;
use rhumb_meta::validation;
use std::sync::Arc;

pub(super) const TABLE: Table = &[
    ("path", path),
    ("group", |_, args| match args {
        [
            Value::Opaque(Opaque::Authorizer(subject)),
            Value::String(group),
        ] => Ok(Value::Opaque(Opaque::GroupCheck(Arc::new((
            subject.clone(),
            group.to_string(),
        ))))),
        _ => no_overload(),
    }),
    ("serviceAccount", service_account),
    ("resource", resource),
    ("subresource", |_, args| {
        with(args, |check, text| check.subresource = text)
    }),
    ("namespace", |_, args| {
        with(args, |check, text| check.namespace = text)
    }),
    ("name", |_, args| {
        with(args, |check, text| check.name = text)
    }),
    ("fieldSelector", |_, args| {
        with(args, |check, text| check.field_selector = text)
    }),
    ("labelSelector", |_, args| {
        with(args, |check, text| check.label_selector = text)
    }),
    ("check", check),
    ("allowed", |_, args| match args {
        [Value::Opaque(Opaque::Decision(decision))] => Ok(Value::Bool(decision.allowed)),
        _ => no_overload(),
    }),
    ("reason", |_, args| match args {
        [Value::Opaque(Opaque::Decision(decision))] => Ok(Value::from(&*decision.reason)),
        _ => no_overload(),
    }),
    ("errored", |_, args| match args {
        [Value::Opaque(Opaque::Decision(decision))] => Ok(Value::Bool(decision.error.is_some())),
        _ => no_overload(),
    }),
    ("error", |_, args| match args {
        [Value::Opaque(Opaque::Decision(decision))] => {
            Ok(Value::from(decision.error.as_deref().unwrap_or_default()))
        }
        _ => no_overload(),
    }),
];

fn path(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::Opaque(Opaque::Authorizer(_)), Value::String(path)] if path.trim().is_empty() => {
            fail("path must not be empty")
        }
        [
            Value::Opaque(Opaque::Authorizer(subject)),
            Value::String(path),
        ] => Ok(Value::Opaque(Opaque::PathCheck(Arc::new((
            subject.clone(),
            path.to_string(),
        ))))),
        _ => no_overload(),
    }
}

fn service_account(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [
        Value::Opaque(Opaque::Authorizer(_)),
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
    Ok(Value::Opaque(Opaque::Authorizer(Arc::new(
        Subject::ServiceAccount {
            namespace: namespace.to_string(),
            name: name.to_string(),
        },
    ))))
}

fn resource(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [
            Value::Opaque(Opaque::GroupCheck(_)),
            Value::String(resource),
        ] if resource.trim().is_empty() => fail("resource must not be empty"),
        [
            Value::Opaque(Opaque::GroupCheck(group)),
            Value::String(resource),
        ] => {
            let check = ResourceCheck {
                group: group.1.clone(),
                resource: resource.to_string(),
                ..ResourceCheck::default()
            };
            Ok(Value::Opaque(Opaque::ResourceCheck(Arc::new((
                group.0.clone(),
                check,
            )))))
        }
        _ => no_overload(),
    }
}

fn with(args: &[Value], set: fn(&mut ResourceCheck, String)) -> Evaluated<Value> {
    match args {
        [
            Value::Opaque(Opaque::ResourceCheck(check)),
            Value::String(text),
        ] => {
            let (subject, mut check) = (check.0.clone(), check.1.clone());
            set(&mut check, text.to_string());
            Ok(Value::Opaque(Opaque::ResourceCheck(Arc::new((
                subject, check,
            )))))
        }
        _ => no_overload(),
    }
}

fn check(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let (subject, target, verb) = match args {
        [Value::Opaque(Opaque::PathCheck(check)), Value::String(verb)] => {
            (&check.0, Target::Path(&check.1), verb)
        }
        [
            Value::Opaque(Opaque::ResourceCheck(check)),
            Value::String(verb),
        ] => (&check.0, Target::Resource(&check.1), verb),
        _ => return no_overload(),
    };
    machine.budget.look_at_clock()?;
    let authorizer = machine
        .scope
        .inputs
        .authorizer
        .ok_or_else(|| EvaluationError::new("no such attribute(s): authorizer"))?;
    let decision = authorizer.check(&Question {
        subject,
        verb,
        target,
    });
    Ok(Value::Opaque(Opaque::Decision(Arc::new(decision))))
}
