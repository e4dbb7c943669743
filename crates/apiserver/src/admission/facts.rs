//! A write as webhooks and policies see it.

use rhumb_admission::{Facts, Operation};
use rhumb_api::Object;
use rhumb_meta::Status;
use serde_json::{Value, json};

use super::Attributes;
use crate::objects::Metadata;
use crate::request::{DeleteOptions, Propagation};
use crate::resources::Asked;

impl Attributes<'_> {
    /// The names of what is asked for.
    pub(super) fn asked(&self) -> Result<&Asked, Status> {
        let call = self.call;
        let asked = call.resource.asked(call.version, self.subresource());
        asked.ok_or_else(|| Status::internal_error("what is asked for has no name"))
    }

    pub(super) fn facts<'a>(&'a self, object: Option<&'a Object>) -> Result<Facts<'a>, Status> {
        let Asked { names, equivalents } = self.asked()?;
        Ok(Facts {
            operation: self.operation,
            asked: names,
            equivalents,
            subresource: self.subresource(),
            name: self.known_name(object),
            namespace: self.own_namespace(object),
        })
    }

    /// The name in the path, or that of a new object. Unlike [`Attributes::name`] it is empty where there is none.
    fn known_name<'a>(&'a self, object: Option<&'a Object>) -> &'a str {
        match self.call.name() {
            "" if self.operation == Operation::Create => object.map_or("", Metadata::name),
            name => name,
        }
    }

    /// A namespace counts as being in itself, also a new one that has its name.
    pub(super) fn own_namespace<'a>(&'a self, object: Option<&'a Object>) -> &'a str {
        if self.is_below("", "namespaces") {
            return self.known_name(object);
        }
        self.call.namespace().unwrap_or_default()
    }

    /// The options of the write as an object of the API; nothing for a connection.
    pub(super) fn options(&self) -> Option<Object> {
        let options = match self.operation {
            Operation::Create => self.write_options("CreateOptions"),
            Operation::Update => self.write_options("UpdateOptions"),
            Operation::Delete => delete_options(self.deletion?),
            Operation::Connect => return None,
        };
        match options {
            Value::Object(options) => Some(options),
            _ => None,
        }
    }

    fn write_options(&self, kind: &str) -> Value {
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        for name in ["fieldManager", "fieldValidation"] {
            let text = self.call.query.text(name);
            if !text.is_empty() {
                options[name] = text.into();
            }
        }
        options
    }
}

fn delete_options(options: &DeleteOptions) -> Value {
    let mut value = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    if let Some(seconds) = options.grace_period_seconds {
        value["gracePeriodSeconds"] = seconds.into();
    }
    for (name, precondition) in [
        ("uid", &options.precondition_uid),
        ("resourceVersion", &options.precondition_resource_version),
    ] {
        if let Some(precondition) = precondition {
            value["preconditions"][name] = precondition.clone().into();
        }
    }
    if let Some(orphan) = options.orphan_dependents {
        value["orphanDependents"] = orphan.into();
    }
    if let Some(propagation) = options.propagation {
        value["propagationPolicy"] = match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        }
        .into();
    }
    if options.dry_run {
        value["dryRun"] = json!(["All"]);
    }
    value
}
