//! Derives [`MatchAttributes`] for matching webhooks and policies, and the options object of a review.

use rhumb_admission::{MatchAttributes, Operation};
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use serde_json::{Value, json};

use super::AdmissionAttributes;
use crate::objects::ObjectMetadata;
use crate::{DeleteOptions, DeletionPropagation};
use crate::{EquivalentResources, RequestOptions};

impl AdmissionAttributes<'_> {
    /// The requested resource and kind, and their equivalents.
    pub fn equivalent_resources(&self) -> Result<&EquivalentResources, Status> {
        let context = self.context;
        let equivalents = context
            .resource
            .equivalent_resources(context.version, self.subresource());
        equivalents
            .ok_or_else(|| Status::internal_error("the requested resource has no registered names"))
    }

    pub fn request_attributes<'a>(
        &'a self,
        object: Option<&'a JsonObject>,
    ) -> Result<MatchAttributes<'a>, Status> {
        let EquivalentResources { names, equivalents } = self.equivalent_resources()?;
        Ok(MatchAttributes {
            operation: self.operation,
            requested: names,
            equivalents,
            subresource: self.subresource(),
            name: self.name_or_empty(object),
            namespace: self.request_namespace(object),
        })
    }

    /// The name in the path, else that of a new object. Unlike [`AdmissionAttributes::name`] it is empty if there is
    /// none.
    fn name_or_empty<'a>(&'a self, object: Option<&'a JsonObject>) -> &'a str {
        match self.context.name() {
            "" if self.operation == Operation::Create => object.map_or("", ObjectMetadata::name),
            name => name,
        }
    }

    /// The namespace of the request; for namespaces, also new ones, their own name.
    pub fn request_namespace<'a>(&'a self, object: Option<&'a JsonObject>) -> &'a str {
        if self.is_resource_or_subresource("", "namespaces") {
            return self.name_or_empty(object);
        }
        self.context.namespace().unwrap_or_default()
    }

    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions` of the request; `None` for CONNECT.
    pub fn options(&self) -> Option<JsonObject> {
        let options = match self.operation {
            Operation::Create => self.write_options("CreateOptions"),
            Operation::Update => self.write_options("UpdateOptions"),
            Operation::Delete => delete_options(self.delete_options?),
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
        let RequestOptions {
            field_manager,
            field_validation,
        } = self.context.options;
        for (name, text) in [
            ("fieldManager", field_manager),
            ("fieldValidation", field_validation),
        ] {
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
            DeletionPropagation::Orphan => "Orphan",
            DeletionPropagation::Background => "Background",
            DeletionPropagation::Foreground => "Foreground",
        }
        .into();
    }
    if options.dry_run {
        value["dryRun"] = json!(["All"]);
    }
    value
}
