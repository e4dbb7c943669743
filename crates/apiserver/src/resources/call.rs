//! One request to one resource, as its verb sees it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use rhumb_api::{Request, Subresource};
use rhumb_auth::User;
use rhumb_meta::{ObjectKey, Status, Timestamp};

use super::{Resource, Storage, Version};
use crate::Api;
use crate::request::{Query, Target};

/// What a verb needs to know of its request.
#[derive(Debug)]
pub struct Call<'a> {
    pub api: &'a Arc<Api>,
    pub resource: &'a Arc<Resource>,
    pub version: &'a Version,
    pub subresource: Option<&'a Subresource>,
    pub target: &'a Target,
    pub verb: &'static str,
    pub query: &'a Query,
    pub headers: &'a HeaderMap,
    pub body: Bytes,
    pub user: &'a User,
    pub now: Timestamp,
    pub warnings: Mutex<Vec<String>>,
}

impl Call<'_> {
    /// The namespace of a namespaced resource's path.
    pub fn namespace(&self) -> Option<&str> {
        if self.resource.kind.is_namespaced() {
            self.target.namespace.as_deref()
        } else {
            None
        }
    }

    /// The name in the path; empty for collections.
    pub fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    /// The key of the object that the path names.
    pub fn key(&self) -> Result<ObjectKey, Status> {
        ObjectKey::new(self.namespace(), self.name()).map_err(|_| self.not_found())
    }

    pub fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group_resource, self.name())
    }

    pub fn storage(&self) -> Result<&Storage, Status> {
        self.resource
            .storage
            .as_ref()
            .ok_or_else(|| Status::method_not_supported(&self.resource.group_resource, self.verb))
    }

    pub fn header(&self, name: http::header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn warn(&self, warning: impl Into<String>) {
        self.warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(warning.into());
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the rules of the kind may know.
    pub fn rules_request(&self) -> Request<'_> {
        Request {
            gates: &self.api.gates,
            now: self.now,
            user: &self.user.name,
        }
    }
}
