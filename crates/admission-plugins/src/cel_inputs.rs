//! The variables of CEL expressions (`object`, `oldObject`, `request`, `namespaceObject`, `authorizer`) for one
//! request.

use std::sync::Arc;

use rhumb_admission::ResourceAndKind;
use rhumb_admission::review::{AdmissionRequest, UserInfo};
use rhumb_api::JsonObject;
use rhumb_auth::{self as auth, ServiceAccountName, User};
use rhumb_expressions::{
    AuthorizationCheck, AuthorizationDecision, AuthorizationSubject, AuthorizationTarget,
    JsonInput, PermissionChecker, RequestInputs, ResourceCheck,
};
use rhumb_meta::{ObjectKey, Status};
use serde_json::Value;

use super::object_lookup;
use rhumb_registry::admission::AdmissionAttributes;

/// The values of all CEL variables, with objects in the version that matched.
#[derive(Debug)]
pub(super) struct CelInputs<'a> {
    object: Option<Value>,
    old_object: Option<Value>,
    request: Value,
    namespace: Option<Value>,
    resource: ResourceCheck,
    permissions: CelAuthorizer<'a>,
}

impl<'a> CelInputs<'a> {
    /// The inputs of a policy that matched as `names`.
    pub(super) fn new(
        attributes: &'a AdmissionAttributes<'_>,
        names: &ResourceAndKind,
        object: Option<&JsonObject>,
        namespace: Option<Value>,
    ) -> Result<CelInputs<'a>, Status> {
        CelInputs::with_request_names(attributes, names, names, object, namespace)
    }

    /// The inputs of the match conditions of a webhook that matched as `names`. As upstream, `request.resource` is the
    /// requested resource, and `request.kind` the kind that is sent.
    pub(super) fn for_webhook(
        attributes: &'a AdmissionAttributes<'_>,
        names: &ResourceAndKind,
        object: Option<&JsonObject>,
    ) -> Result<CelInputs<'a>, Status> {
        let requested = attributes.request_attributes(object)?.requested;
        let seen = ResourceAndKind {
            resource: requested.resource.clone(),
            kind: names.kind.clone(),
        };
        CelInputs::with_request_names(attributes, names, &seen, object, None)
    }

    /// `seen` is what `request.resource` and `request.kind` show.
    fn with_request_names(
        attributes: &'a AdmissionAttributes<'_>,
        names: &ResourceAndKind,
        seen: &ResourceAndKind,
        object: Option<&JsonObject>,
        namespace: Option<Value>,
    ) -> Result<CelInputs<'a>, Status> {
        let version = |object: &JsonObject| {
            let converted = attributes.converted(names, object)?;
            Ok(Value::Object(converted.into_owned()))
        };
        let request_attributes = attributes.request_attributes(object)?;
        let user = attributes.context.user;
        let request = AdmissionRequest {
            uid: "",
            matched: seen,
            requested: request_attributes.requested,
            subresource: request_attributes.subresource,
            name: request_attributes.name,
            namespace: request_attributes.namespace,
            operation: request_attributes.operation,
            user: user_info(user),
            object: None,
            old_object: None,
            dry_run: attributes.dry_run,
            options: attributes.options().as_ref(),
        }
        .to_value()
        .map_err(Status::internal_error)?;
        let requested = &request_attributes.requested.resource;
        Ok(CelInputs {
            object: object.map(version).transpose()?,
            old_object: attributes.old_object.map(version).transpose()?,
            request,
            namespace,
            resource: ResourceCheck {
                group: requested.group.to_string(),
                resource: requested.resource.to_string(),
                subresource: request_attributes.subresource.to_owned(),
                namespace: request_attributes.namespace.to_owned(),
                name: request_attributes.name.to_owned(),
                ..ResourceCheck::default()
            },
            permissions: CelAuthorizer {
                authorizer: &*attributes.context.registry.authorizer,
                user,
            },
        })
    }

    pub(super) fn inputs(&self) -> RequestInputs<'_> {
        RequestInputs {
            object: JsonInput::from(self.object.as_ref()),
            old_object: JsonInput::from(self.old_object.as_ref()),
            request: JsonInput::new(&self.request),
            namespace_object: JsonInput::from(self.namespace.as_ref()),
            authorizer: Some(&self.permissions),
            request_resource: self.resource.clone(),
        }
    }

    /// The object in the matched version.
    pub(super) fn object(&self) -> Option<&Value> {
        self.object.as_ref()
    }

    pub(super) fn set_object(&mut self, object: Value) {
        self.object = Some(object);
    }
}

pub(super) fn user_info(user: &User) -> UserInfo<'_> {
    UserInfo {
        username: &user.name,
        uid: &user.uid,
        groups: &user.groups,
        extra: &user.extra,
    }
}

/// The value of `namespaceObject`; `None` for cluster-scoped requests, including namespaces.
pub(super) async fn namespace_object(
    attributes: &AdmissionAttributes<'_>,
) -> Result<Option<Value>, Status> {
    let Some(name) = attributes.context.namespace() else {
        return Ok(None);
    };
    let key = ObjectKey::cluster(name).map_err(Status::internal_error)?;
    let namespace = object_lookup::find_object(attributes.context, "", "namespaces", &key).await?;
    let missing = || {
        let namespaces = rhumb_meta::GroupResource::new("", "namespaces");
        Status::not_found(&namespaces, name)
    };
    let object = namespace.ok_or_else(missing)?;
    Ok(Some(Value::Object(Arc::unwrap_or_clone(object))))
}

/// The `authorizer` variable: answers permission checks for the user of the request or a service account.
#[derive(Debug)]
struct CelAuthorizer<'a> {
    authorizer: &'a (dyn auth::Authorizer + Send + Sync),
    user: &'a User,
}

impl PermissionChecker for CelAuthorizer<'_> {
    fn check(&self, query: &AuthorizationCheck<'_>) -> AuthorizationDecision {
        let account;
        let user = match query.subject {
            AuthorizationSubject::RequestUser => self.user,
            AuthorizationSubject::ServiceAccount { namespace, name } => {
                let account_name = ServiceAccountName { namespace, name };
                account = User {
                    name: account_name.username(),
                    groups: account_name.groups(),
                    ..User::default()
                };
                &account
            }
        };
        let verb = query.verb;
        let attributes = match &query.target {
            AuthorizationTarget::Path(path) => auth::Attributes::path(user, verb, path),
            AuthorizationTarget::Resource(resource) => auth::Attributes {
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
                api_version: "*",
                ..auth::Attributes::resource(user, verb, &resource.group, &resource.resource)
            },
        };
        let decision = self.authorizer.authorize(&attributes);
        AuthorizationDecision {
            allowed: decision.is_allowed(),
            reason: decision.reason(),
            error: None,
        }
    }
}
