//! `RequestContext`: one request to one resource, with everything that a verb needs (upstream: `RequestScope` and the
//! context of the request).
//!
//! Entry point: `RequestContext::dispatch`, which runs the verb.

use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use rhumb_api::{StrategyContext, Subresource};
use rhumb_auth::User;
use rhumb_meta::{GroupResource, ObjectKey, Status, Timestamp};
use serde_json::json;

use super::prepare::ObjectPart;
use super::{
    Resource, ResourceStorage, ServedVersion, create, delete, get, list, patch, render, review,
    subresource, update, watch,
};
use crate::ServerState;
use crate::audit::{AuditAnnotations, AuditBodyRecorder};
use crate::http::{Reply, generic_status};
use crate::request::{
    MEDIA_TYPE_NAMES, QueryParameters, ResourcePath, STREAM_MEDIA_TYPE_NAMES,
    accepts_any_media_type,
};
use crate::server::InFlightPermit;

/// A parsed and authorized request to a resource, and the server state that its verb uses.
#[derive(Debug)]
pub struct RequestContext<'a> {
    pub state: &'a Arc<ServerState>,
    pub resource: &'a Arc<Resource>,
    pub version: &'a ServedVersion,
    pub subresource: Option<&'a Subresource>,
    pub resource_path: &'a ResourcePath,
    pub verb: &'static str,
    pub query: &'a QueryParameters,
    pub headers: &'a HeaderMap,
    pub body: Bytes,
    pub user: &'a User,
    pub now: Timestamp,
    pub warnings: Mutex<Vec<String>>,
    /// Audit annotations; `None` if the request is not audited.
    pub audit_annotations: Option<Mutex<AuditAnnotations>>,
    /// Whether the server itself makes the request. Webhooks are not called then.
    pub is_internal: bool,
    /// The permit of the max-in-flight limit, if the request is subject to it.
    pub in_flight_permit: Option<&'a InFlightPermit>,
    /// Records request and response bodies; `None` unless the audit policy asks for them.
    pub audit_recorder: Option<&'a AuditBodyRecorder>,
}

impl<'a> RequestContext<'a> {
    /// The same request on another resource, in its preferred version; `None` if that resource is not served.
    pub(super) fn for_resource(&self, group: &str, plural: &str) -> Option<RequestContext<'a>> {
        let resource = self.state.registry.find(group, plural)?;
        Some(RequestContext {
            state: self.state,
            resource,
            version: resource.versions.first()?,
            subresource: None,
            resource_path: self.resource_path,
            verb: self.verb,
            query: self.query,
            headers: self.headers,
            body: self.body.clone(),
            user: self.user,
            now: self.now,
            warnings: Mutex::default(),
            audit_annotations: self.audit_annotations.as_ref().map(|_| Mutex::default()),
            is_internal: self.is_internal,
            in_flight_permit: self.in_flight_permit,
            audit_recorder: self.audit_recorder,
        })
    }
}

impl RequestContext<'_> {
    /// The namespace in the path; `None` for cluster-scoped resources.
    pub fn namespace(&self) -> Option<&str> {
        if self.resource.kind.is_namespaced() {
            self.resource_path.namespace.as_deref()
        } else {
            None
        }
    }

    /// The name in the path; empty for collections.
    pub fn name(&self) -> &str {
        self.resource_path.name.as_deref().unwrap_or_default()
    }

    /// The key of the object that the path names.
    pub fn key(&self) -> Result<ObjectKey, Status> {
        ObjectKey::new(self.namespace(), self.name()).map_err(|_| self.not_found())
    }

    pub fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group_resource, self.name())
    }

    pub fn storage(&self) -> Result<&ResourceStorage, Status> {
        self.resource
            .storage
            .as_ref()
            .ok_or_else(|| Status::method_not_supported(&self.resource.group_resource, self.verb))
    }

    pub fn header(&self, name: http::header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Awaits an external call, such as a webhook, while lending the in-flight permit to other requests.
    pub async fn wait_without_permit<T>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, Status> {
        match self.in_flight_permit {
            Some(permit) => permit.yield_while(future).await,
            None => Ok(future.await),
        }
    }

    pub fn warn(&self, warning: impl Into<String>) {
        self.warnings.lock().push(warning.into());
    }

    pub(super) fn warn_all(&self, warnings: Vec<String>) {
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    /// Adds an audit annotation. The first value of a key is kept.
    pub fn annotate(&self, key: impl Into<String>, value: impl AsRef<str> + Into<String>) {
        if let Some(annotations) = &self.audit_annotations {
            let mut annotations = annotations.lock();
            annotations.add(key, value);
        }
    }

    pub fn take_annotations(&self) -> Vec<(String, String)> {
        let Some(annotations) = &self.audit_annotations else {
            return Vec::new();
        };
        let mut annotations = annotations.lock();
        std::mem::take(&mut *annotations).into_list()
    }

    pub(super) fn audits_response_body(&self) -> bool {
        self.audit_recorder
            .is_some_and(AuditBodyRecorder::records_response)
    }

    /// The part of the request that the rules of a kind may use.
    pub fn rules_request(&self) -> StrategyContext<'_> {
        StrategyContext {
            gates: &self.state.gates,
            now: self.now,
            user: &self.user.name,
            uid: &self.user.uid,
            groups: &self.user.groups,
            extra: Some(&self.user.extra),
        }
    }

    /// Whether the resource or subresource supports the verb.
    pub fn supports_verb(&self) -> bool {
        let verbs = self
            .subresource
            .map_or(self.resource.kind.verbs, |subresource| subresource.verbs);
        verbs.iter().any(|verb| verb.name() == self.verb)
    }

    /// Runs the verb; `None` if the resource does not support it at this path.
    pub async fn dispatch(&self) -> Result<Option<Reply>, Status> {
        if !self.supports_verb() || self.is_wrong_path_for_verb() {
            return Ok(None);
        }
        self.check_media_types()?;
        if let Some(warning) = self.resource.kind.deprecation {
            self.warn(warning);
        }
        if let Some(subresource) = self.subresource {
            return subresource::dispatch(self, subresource.kind)
                .await
                .map(Some);
        }
        if self.resource.storage.is_none() {
            return self.dispatch_unstored().await;
        }
        if matches!(self.verb, "get" | "list") {
            self.state.quota_enforcer.refresh_status(self).await;
        }
        let reply = match self.verb {
            "get" => get::get(self).await,
            "list" => list::list(self).await,
            "watch" => watch::watch(self).await,
            "create" => create::create(self).await,
            "update" => update::update(self, ObjectPart::Main).await,
            "patch" => patch::patch_object(self, ObjectPart::Main).await,
            "delete" => delete::delete(self).await,
            "deletecollection" => delete::delete_collection(self).await,
            _ => return Ok(None),
        };
        reply.map(Some)
    }

    /// Whether the resource supports the verb, but not at this path.
    fn is_wrong_path_for_verb(&self) -> bool {
        let has_name = self.resource_path.name.is_some();
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
                subresource.name,
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
