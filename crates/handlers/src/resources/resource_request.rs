//! `ResourceRequest`: an HTTP request to a resource (upstream: `http.Request` with its `RequestScope`).
//!
//! Entry point: `ResourceRequest::dispatch`, which runs the verb.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use rhumb_meta::{GroupResource, Status};
use serde_json::json;

use super::{create, delete, get, list, patch, render, review, subresource, update, watch};
use crate::audit_body::AuditRequestRecorder;
use crate::http::{Reply, generic_status};
use crate::request::{
    MEDIA_TYPE_NAMES, QueryParameters, ResourcePath, STREAM_MEDIA_TYPE_NAMES,
    accepts_any_media_type,
};
use crate::server_state::ServerState;
use rhumb_registry::RequestContext;
use rhumb_registry::write::UpdateScope;

/// A parsed and authorized HTTP request to a resource. Only the verbs see it; the write path and admission see its
/// context.
#[derive(Debug)]
pub struct ResourceRequest<'a> {
    pub state: &'a Arc<ServerState>,
    pub context: RequestContext<'a>,
    pub path: &'a ResourcePath,
    pub query: &'a QueryParameters,
    pub headers: &'a HeaderMap,
    pub body: Bytes,
    /// Records request and response bodies; `None` unless the audit policy asks for them.
    pub audit_recorder: Option<&'a AuditRequestRecorder>,
}

impl<'a> Deref for ResourceRequest<'a> {
    type Target = RequestContext<'a>;

    fn deref(&self) -> &RequestContext<'a> {
        &self.context
    }
}

impl ResourceRequest<'_> {
    pub fn header(&self, name: http::header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn audits_response_body(&self) -> bool {
        self.audit_recorder
            .is_some_and(AuditRequestRecorder::records_response)
    }

    /// Runs the verb; `None` if the resource does not support it at this path.
    pub async fn dispatch(&self) -> Result<Option<Reply>, Status> {
        if !self.supports_verb() || self.is_wrong_path_for_verb() {
            return Ok(None);
        }
        self.check_media_types()?;
        if let Some(warning) = &self.resource.kind.deprecation {
            self.warn(&**warning);
        }
        if let Some(subresource) = self.subresource {
            return subresource::dispatch(self, &subresource.kind)
                .await
                .map(Some);
        }
        if self.resource.storage.is_none() {
            return self.dispatch_unstored().await;
        }
        if matches!(self.verb, "get" | "list") {
            self.run_read_hook().await;
        }
        let reply = match self.verb {
            "get" => get::get(self).await,
            "list" => list::list(self).await,
            "watch" => watch::watch(self).await,
            "create" => create::create(self).await,
            "update" => update::update(self, UpdateScope::Main).await,
            "patch" => patch::patch_object(self, UpdateScope::Main).await,
            "delete" => delete::delete(self).await,
            "deletecollection" => delete::delete_collection(self).await,
            _ => return Ok(None),
        };
        reply.map(Some)
    }

    async fn run_read_hook(&self) {
        if let Some(hook) = self.registry.read_hooks.for_resource(self.resource) {
            hook.before_read(self).await;
        }
    }

    /// Whether the resource supports the verb, but not at this path.
    fn is_wrong_path_for_verb(&self) -> bool {
        let has_name = self.path.name.is_some();
        let all_namespaces = self.resource.kind.is_namespaced() && self.namespace().is_none();
        match self.verb {
            "list" | "watch" => false,
            // The name of a new object is in its body, and a namespaced object is created in a namespace.
            "create" => all_namespaces || (has_name && self.subresource.is_none()),
            "update" | "patch" => !has_name,
            _ => all_namespaces,
        }
    }

    /// Rejects a Content-Type or Accept header that the verb does not support, with 415 or 406.
    fn check_media_types(&self) -> Result<(), Status> {
        if self.verb == "patch" && !patch::is_patch_media_type(self.header(CONTENT_TYPE)) {
            return Err(generic_status::generic_status(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "415: Unsupported Media Type",
            ));
        }
        let has_own_protocol = self.subresource.is_some_and(|subresource| {
            matches!(
                &*subresource.name,
                "log" | "proxy" | "exec" | "attach" | "portforward"
            )
        });
        if has_own_protocol || accepts_any_media_type(self.header(ACCEPT)) {
            return Ok(());
        }
        let mut representations = MEDIA_TYPE_NAMES.to_vec();
        if matches!(self.verb, "list" | "watch") {
            representations.extend(STREAM_MEDIA_TYPE_NAMES);
        }
        Err(generic_status::not_acceptable(&representations))
    }

    /// Runs the verb on a virtual resource, which has no storage.
    async fn dispatch_unstored(&self) -> Result<Option<Reply>, Status> {
        if let Some(reply) = review::dispatch(self).await {
            return reply.map(Some);
        }
        match (&*self.resource.kind.name, self.verb) {
            ("Binding", _) => subresource::bind_collection(self).await.map(Some),
            // All components run in this server, whose health endpoints report their state.
            ("ComponentStatus", "list") => render::value_response(
                self,
                StatusCode::OK,
                &json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}),
            )
            .map(Some),
            // Upstream's error names the singular.
            ("ComponentStatus", _) => {
                let resource = GroupResource::new("", "componentstatus");
                Err(Status::not_found(&resource, self.name()))
            }
            _ => Ok(None),
        }
    }
}
