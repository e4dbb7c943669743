//! Namespaces: the last word on what must go before they do.

use async_trait::async_trait;
use http::StatusCode;
use rhumb_api::Object;
use rhumb_meta::Status;
use serde_json::Value;

use crate::http::Reply;
use crate::objects::Metadata;
use crate::request::WriteOptions;
use crate::resources::update::{check_preconditions, is_finished};
use crate::resources::write::{Change, Current, Edit};
use crate::resources::{Call, render};

/// Sets `spec.finalizers`, and nothing else. A namespace that is going goes when none is left.
pub(super) async fn finalize(call: &Call<'_>) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, "UpdateOptions")?;
    let object = call.decode(call.expected(), options.field_validation)?;
    if object.name() != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            object.name(),
            call.name()
        )));
    }
    let key = call.key()?;
    let written = call
        .change(&key, options.dry_run, &Finalize { call, object })
        .await?;
    render::object(call, StatusCode::OK, written.object)
}

struct Finalize<'a> {
    call: &'a Call<'a>,
    object: Object,
}

#[async_trait]
impl Edit for Finalize<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        check_preconditions(self.call, current, &self.object)?;
        let mut object = current.object.clone();
        let finalizers = self
            .object
            .get("spec")
            .and_then(|spec| spec.get("finalizers"))
            .cloned();
        let spec = object
            .entry("spec")
            .or_insert_with(|| Value::Object(Object::new()));
        if let Value::Object(spec) = spec {
            match finalizers {
                Some(finalizers) => spec.insert("finalizers".into(), finalizers),
                None => spec.remove("finalizers"),
            };
        }
        Ok(if is_finished(self.call, &object) {
            Change::Delete(object)
        } else {
            Change::Put(object)
        })
    }

    fn is_conditional(&self) -> bool {
        !self.object.resource_version().is_empty()
    }
}
