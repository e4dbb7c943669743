//! One request to one resource, as its verb sees it.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use rhumb_api::{Request, Subresource};
use rhumb_auth::User;
use rhumb_meta::{GroupResource, ObjectKey, Status, Timestamp};
use serde_json::json;

use super::prepare::Part;
use super::{
    Resource, Storage, Version, create, delete, get, list, patch, render, review, subresource,
    update, watch,
};
use crate::Api;
use crate::audit::{Notes, Recorder};
use crate::http::{Reply, generic};
use crate::request::{MEDIA_NAMES, Query, STREAM_NAMES, Target, is_acceptable};
use crate::server::Place;

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
    /// For the audit log; `None` where nobody reads it.
    pub annotations: Option<Mutex<Notes>>,
    /// Whether it is the server's own: nobody outside is asked about it.
    pub is_own: bool,
    /// Where the number of requests is limited.
    pub place: Option<&'a Place>,
    /// Only where the audit log has the body.
    pub recorder: Option<&'a Recorder>,
}

impl<'a> Call<'a> {
    /// The same request, about another resource in its first version; `None` if that is not served.
    pub(super) fn on(&self, group: &str, plural: &str) -> Option<Call<'a>> {
        let resource = self.api.registry.find(group, plural)?;
        Some(Call {
            api: self.api,
            resource,
            version: resource.versions.first()?,
            subresource: None,
            target: self.target,
            verb: self.verb,
            query: self.query,
            headers: self.headers,
            body: self.body.clone(),
            user: self.user,
            now: self.now,
            warnings: Mutex::default(),
            annotations: self.annotations.as_ref().map(|_| Mutex::default()),
            is_own: self.is_own,
            place: self.place,
            recorder: self.recorder,
        })
    }
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

    /// Waits for somebody outside, without holding up other requests.
    pub async fn wait<T>(&self, waits: impl Future<Output = T>) -> Result<T, Status> {
        match self.place {
            Some(place) => place.lend(waits).await,
            None => Ok(waits.await),
        }
    }

    pub fn warn(&self, warning: impl Into<String>) {
        self.warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(warning.into());
    }

    pub(super) fn tell(&self, warnings: Vec<String>) {
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells the audit log something. The first value of a key stays.
    pub fn annotate(&self, key: impl Into<String>, value: impl AsRef<str> + Into<String>) {
        if let Some(annotations) = &self.annotations {
            let mut annotations = annotations.lock().unwrap_or_else(PoisonError::into_inner);
            annotations.add(key, value);
        }
    }

    pub fn take_annotations(&self) -> Vec<(String, String)> {
        let Some(annotations) = &self.annotations else {
            return Vec::new();
        };
        let mut annotations = annotations.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *annotations).into_list()
    }

    pub(super) fn is_answer_logged(&self) -> bool {
        self.recorder.is_some_and(Recorder::wants_answer)
    }

    /// What the rules of the kind may know.
    pub fn rules_request(&self) -> Request<'_> {
        Request {
            gates: &self.api.gates,
            now: self.now,
            user: &self.user.name,
            uid: &self.user.uid,
            groups: &self.user.groups,
            extra: Some(&self.user.extra),
        }
    }

    /// Whether the resource knows the verb.
    pub fn is_known(&self) -> bool {
        let verbs = self
            .subresource
            .map_or(self.resource.kind.verbs, |subresource| subresource.verbs);
        verbs.iter().any(|verb| verb.name() == self.verb)
    }

    /// The answer; `None` if the resource does not know the verb.
    pub async fn answer(&self) -> Result<Option<Reply>, Status> {
        if !self.is_known() || self.is_misplaced() {
            return Ok(None);
        }
        self.check_media()?;
        if let Some(warning) = self.resource.kind.deprecation {
            self.warn(warning);
        }
        if let Some(subresource) = self.subresource {
            return subresource::answer(self, subresource.kind).await.map(Some);
        }
        if self.resource.storage.is_none() {
            return self.answer_unstored().await;
        }
        if matches!(self.verb, "get" | "list") {
            self.api.tills.settle(self).await;
        }
        let reply = match self.verb {
            "get" => get::get(self).await,
            "list" => list::list(self).await,
            "watch" => watch::watch(self).await,
            "create" => create::create(self).await,
            "update" => update::update(self, Part::Main).await,
            "patch" => patch::patch_object(self, Part::Main).await,
            "delete" => delete::delete(self).await,
            "deletecollection" => delete::delete_collection(self).await,
            _ => return Ok(None),
        };
        reply.map(Some)
    }

    /// Whether the verb is one of the resource, but not at this path.
    fn is_misplaced(&self) -> bool {
        let named = self.target.name.is_some();
        let everywhere = self.resource.kind.is_namespaced() && self.namespace().is_none();
        match self.verb {
            "list" | "watch" => false,
            // A new object has its name in itself. What is in a namespace is made in one.
            "create" => everywhere || (named && self.subresource.is_none()),
            "update" | "patch" => !named,
            _ => everywhere,
        }
    }

    /// Whether the request is written, and the answer wanted, in a way that there is for the verb.
    fn check_media(&self) -> Result<(), Status> {
        if self.verb == "patch" && !patch::is_known(self.header(CONTENT_TYPE)) {
            return Err(generic::generic(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "415: Unsupported Media Type",
            ));
        }
        let speaks_itself = self.subresource.is_some_and(|subresource| {
            matches!(
                subresource.name,
                "log" | "proxy" | "exec" | "attach" | "portforward"
            )
        });
        if speaks_itself || is_acceptable(self.header(ACCEPT)) {
            return Ok(());
        }
        let mut representations = MEDIA_NAMES.to_vec();
        if matches!(self.verb, "list" | "watch") {
            representations.extend(STREAM_NAMES);
        }
        Err(generic::not_acceptable(&representations))
    }

    /// Kinds that are asked and not kept.
    async fn answer_unstored(&self) -> Result<Option<Reply>, Status> {
        if let Some(reply) = review::answer(self).await {
            return reply.map(Some);
        }
        match (&*self.resource.kind.name, self.verb) {
            ("Binding", _) => subresource::bind_collection(self).await.map(Some),
            // The components are this server; its own health tells how they are.
            ("ComponentStatus", "list") => render::value(
                self,
                StatusCode::OK,
                &json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}),
            )
            .map(Some),
            // Upstream's error has the singular.
            ("ComponentStatus", _) => {
                let resource = GroupResource::new("", "componentstatus");
                Err(Status::not_found(&resource, self.name()))
            }
            _ => Ok(None),
        }
    }
}
