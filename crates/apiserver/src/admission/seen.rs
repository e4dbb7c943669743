//! A write as expressions see it.

use std::sync::Arc;

use rhumb_admission::Names;
use rhumb_admission::review::{Request, UserInfo};
use rhumb_api::Object;
use rhumb_auth::{self as auth, Authorizer as _, ServiceAccountName, User};
use rhumb_expressions::{
    Authorizer, Decision, Input, Inputs, Question, ResourceCheck, Subject, Target,
};
use rhumb_meta::{ObjectKey, Status};
use serde_json::Value;

use super::{Attributes, lookup};
use crate::Api;

/// All that expressions may ask for, under the names that somebody wants to see.
#[derive(Debug)]
pub(super) struct Sight<'a> {
    object: Option<Value>,
    old: Option<Value>,
    request: Value,
    namespace: Option<Value>,
    resource: ResourceCheck,
    permissions: Permissions<'a>,
}

impl<'a> Sight<'a> {
    pub(super) fn new(
        attributes: &'a Attributes<'_>,
        names: &Names,
        object: Option<&Object>,
        namespace: Option<Value>,
    ) -> Result<Sight<'a>, Status> {
        let version = |object: &Object| {
            let shown = attributes.shown(names, object)?;
            Ok(Value::Object(shown.into_owned()))
        };
        let facts = attributes.facts(object)?;
        let user = attributes.call.user;
        let request = Request {
            uid: "",
            seen: names,
            asked: facts.asked,
            subresource: facts.subresource,
            name: facts.name,
            namespace: facts.namespace,
            operation: facts.operation,
            user: user_info(user),
            object: None,
            old: None,
            dry_run: attributes.dry_run,
            options: attributes.options().as_ref(),
        }
        .to_value()
        .map_err(Status::internal_error)?;
        let asked = &facts.asked.resource;
        Ok(Sight {
            object: object.map(version).transpose()?,
            old: attributes.old.map(version).transpose()?,
            request,
            namespace,
            resource: ResourceCheck {
                group: asked.group.to_string(),
                resource: asked.resource.to_string(),
                subresource: facts.subresource.to_owned(),
                namespace: facts.namespace.to_owned(),
                name: facts.name.to_owned(),
                ..ResourceCheck::default()
            },
            permissions: Permissions {
                api: attributes.call.api,
                user,
            },
        })
    }

    pub(super) fn inputs(&self) -> Inputs<'_> {
        Inputs {
            object: Input::from(self.object.as_ref()),
            old_object: Input::from(self.old.as_ref()),
            request: Input::new(&self.request),
            namespace_object: Input::from(self.namespace.as_ref()),
            authorizer: Some(&self.permissions),
            request_resource: self.resource.clone(),
        }
    }

    /// The object in the version that is seen.
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

impl Attributes<'_> {
    /// The namespace of the write, as expressions see it; a namespace is in none.
    pub(super) async fn namespace_object(&self) -> Result<Option<Value>, Status> {
        let Some(name) = self.call.namespace() else {
            return Ok(None);
        };
        let key = ObjectKey::cluster(name).map_err(Status::internal_error)?;
        let found = lookup::anywhere(self.call, "", "namespaces", &key).await?;
        let missing = || {
            let namespaces = rhumb_meta::GroupResource::new("", "namespaces");
            Status::not_found(&namespaces, name)
        };
        let object = found.ok_or_else(missing)?;
        Ok(Some(Value::Object(Arc::unwrap_or_clone(object))))
    }
}

/// Answers what the user of a request may do.
#[derive(Debug)]
struct Permissions<'a> {
    api: &'a Api,
    user: &'a User,
}

impl Authorizer for Permissions<'_> {
    fn check(&self, question: &Question<'_>) -> Decision {
        let account;
        let user = match question.subject {
            Subject::Requester => self.user,
            Subject::ServiceAccount { namespace, name } => {
                let named = ServiceAccountName { namespace, name };
                account = User {
                    name: named.username(),
                    groups: named.groups(),
                    ..User::default()
                };
                &account
            }
        };
        let verb = question.verb;
        let attributes = match &question.target {
            Target::Path(path) => auth::Attributes::path(user, verb, path),
            Target::Resource(check) => auth::Attributes {
                subresource: &check.subresource,
                namespace: &check.namespace,
                name: &check.name,
                api_version: "*",
                ..auth::Attributes::resource(user, verb, &check.group, &check.resource)
            },
        };
        let decision = self.api.policy.policy().authorize(&attributes);
        Decision {
            allowed: decision.is_allowed(),
            reason: decision.reason(),
            error: None,
        }
    }
}
