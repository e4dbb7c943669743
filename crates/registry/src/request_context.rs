//! `RequestContext`: user, resource, options and time of a request, and the warnings and audit annotations that it
//! collects (upstream: the request context and `RequestScope`). The write path and admission work on it; it knows nothing of HTTP.

use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;

use rhumb_api::{StrategyContext, Subresource};
use rhumb_auth::{Attributes, User};
use rhumb_meta::{ObjectKey, Status, Timestamp};
use rhumb_schema::{ObjectDefaulter, SchemaRef};

use super::{InFlightPermit, Resource, ResourceStorage, ResourceTable, ServedVersion};
use crate::AuditAnnotations;
use crate::Registry;

/// A request to a resource, from a client or from the server itself.
#[derive(Debug)]
pub struct RequestContext<'a> {
    pub registry: &'a Arc<Registry>,
    /// The resources that were served when the request came.
    pub resources: &'a ResourceTable,
    pub resource: &'a Arc<Resource>,
    pub version: &'a ServedVersion,
    pub subresource: Option<&'a Subresource>,
    pub namespace: Option<&'a str>,
    /// Empty for collections.
    pub name: &'a str,
    pub verb: &'static str,
    pub options: RequestOptions<'a>,
    pub user: &'a User,
    pub now: Timestamp,
    pub origin: RequestOrigin,
    pub warnings: Mutex<Vec<String>>,
    /// Audit annotations; `None` if the request is not audited.
    pub audit_annotations: Option<Mutex<AuditAnnotations>>,
    /// Whether the audit log records request bodies, so that annotations may reveal objects.
    pub audits_bodies: bool,
    /// The permit of the max-in-flight limit, if the request is subject to it.
    pub in_flight_permit: Option<&'a InFlightPermit>,
}

/// The options of a write as the client sent them, which admission webhooks see.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestOptions<'a> {
    pub field_manager: &'a str,
    pub field_validation: &'a str,
}

/// Who makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOrigin {
    Client,
    /// The server itself. Webhooks and policies are not called then.
    Server,
}

impl<'a> RequestContext<'a> {
    /// A request of the server itself to a resource, in its preferred version; `None` if the resource has no versions.
    pub(crate) fn server(
        registry: &'a Arc<Registry>,
        resources: &'a ResourceTable,
        resource: &'a Arc<Resource>,
        user: &'a User,
        verb: &'static str,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> Option<RequestContext<'a>> {
        Some(RequestContext {
            registry,
            resources,
            resource,
            version: resource.versions.first()?,
            subresource: None,
            namespace,
            name,
            verb,
            options: RequestOptions::default(),
            user,
            now: registry.clock.wall(),
            origin: RequestOrigin::Server,
            warnings: Mutex::default(),
            audit_annotations: None,
            audits_bodies: false,
            in_flight_permit: None,
        })
    }

    /// The same request on another resource, in its preferred version; `None` if that resource is not served.
    pub fn for_resource(&self, group: &str, plural: &str) -> Option<RequestContext<'a>> {
        let resource = self.resources.find(group, plural)?;
        Some(RequestContext {
            resource,
            version: resource.versions.first()?,
            subresource: None,
            warnings: Mutex::default(),
            audit_annotations: self.audit_annotations.as_ref().map(|_| Mutex::default()),
            ..*self
        })
    }
}

impl RequestContext<'_> {
    /// The namespace in the path; `None` for cluster-scoped resources.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace
            .filter(|_| self.resource.kind.is_namespaced())
    }

    /// The name in the path; empty for collections.
    pub fn name(&self) -> &str {
        self.name
    }

    /// The key of the object that the path names.
    pub fn key(&self) -> Result<ObjectKey, Status> {
        ObjectKey::new(self.namespace(), self.name()).map_err(|_| self.not_found())
    }

    /// Authorizes the `create` verb for an update that turns out to create the object.
    pub fn authorize_create(&self) -> Result<(), Status> {
        let kind = &self.resource.kind;
        let attributes = Attributes {
            api_version: &self.version.served.version,
            namespace: self.namespace().unwrap_or_default(),
            name: self.name(),
            ..Attributes::resource(self.user, "create", &kind.group, &kind.plural)
        };
        let decision = self.registry.authorizer.authorize(&attributes);
        decision.require(&attributes).map(|_| ())
    }

    pub fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group_resource, self.name())
    }

    pub fn storage(&self) -> Result<&ResourceStorage, Status> {
        self.resource
            .storage
            .as_deref()
            .ok_or_else(|| Status::method_not_supported(&self.resource.group_resource, self.verb))
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

    pub fn warn_all(&self, warnings: Vec<String>) {
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }

    /// Removes the warnings for which `keep` is false.
    pub fn retain_warnings(&self, keep: impl Fn(&str) -> bool) {
        self.warnings.lock().retain(|warning| keep(warning));
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

    /// The part of the request that the rules of a kind may use.
    pub fn rules_request(&self) -> StrategyContext<'_> {
        StrategyContext {
            gates: &self.registry.gates,
            now: self.now,
            user: &self.user.name,
            uid: &self.user.uid,
            groups: &self.user.groups,
            extra: Some(&self.user.extra),
            is_patch: self.verb == "patch",
        }
    }

    /// The defaults of a type of this resource, or of a type that is not served as a resource of its own.
    pub fn defaults_of(&self, schema: &SchemaRef) -> &ObjectDefaulter {
        match self.resource.defaults.covers(schema) {
            true => &self.resource.defaults,
            false => &self.registry.defaults,
        }
    }

    /// Whether the resource or subresource supports the verb.
    pub fn supports_verb(&self) -> bool {
        let verbs = self
            .subresource
            .map_or(self.resource.kind.verbs, |subresource| subresource.verbs);
        verbs.iter().any(|verb| verb.name() == self.verb)
    }
}
