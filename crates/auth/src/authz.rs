//! What is asked for, and the answer.

use std::fmt;

use rhumb_meta::gotext::quote;
use rhumb_meta::{GroupResource, Status, fields, labels};

use crate::rbac::BindingGrant;
use crate::user::User;

/// One request, as authorization sees it.
///
/// A request for a resource has `is_resource`, and the fields from `api_group` to `name`; any other has `path`.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    pub user: &'a User,
    pub verb: &'a str,
    pub is_resource: bool,
    pub api_group: &'a str,
    pub api_version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub path: &'a str,
    /// What the request's selectors ask for. RBAC does not look at it; other authorizers may.
    pub field_selector: &'a [fields::Requirement],
    pub label_selector: &'a [labels::Requirement],
}

impl<'a> Attributes<'a> {
    /// A request for a resource; the rest is set with struct update syntax.
    pub fn resource(user: &'a User, verb: &'a str, api_group: &'a str, resource: &'a str) -> Self {
        Attributes {
            is_resource: true,
            api_group,
            resource,
            ..Self::path(user, verb, "")
        }
    }

    /// A request for a path that is no resource.
    pub fn path(user: &'a User, verb: &'a str, path: &'a str) -> Self {
        Attributes {
            user,
            verb,
            is_resource: false,
            api_group: "",
            api_version: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path,
            field_selector: &[],
            label_selector: &[],
        }
    }
}

/// Says whether a request may go on.
pub trait Authorizer {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub enum Decision {
    Allow(Grant),
    /// No rule allows it; the text says what else went wrong, and is mostly empty.
    Deny(String),
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow(_))
    }

    /// The reason as SubjectAccessReview and the audit log show it.
    pub fn reason(&self) -> String {
        match self {
            Decision::Allow(grant) => grant.to_string(),
            Decision::Deny(reason) => reason.clone(),
        }
    }

    /// The decision as the end of a request that is not allowed.
    pub fn require(self, attributes: &Attributes<'_>) -> Result<Grant, Status> {
        match self {
            Decision::Allow(grant) => Ok(grant),
            Decision::Deny(reason) => Err(forbidden(attributes, &reason)),
        }
    }
}

/// Why a request is allowed; its text is made only when somebody reads it.
#[derive(Debug, Clone)]
pub enum Grant {
    /// The user is in `system:masters`.
    Masters,
    Binding(BindingGrant),
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grant::Masters => Ok(()),
            Grant::Binding(binding) => write!(f, "RBAC: allowed by {binding}"),
        }
    }
}

/// The 403 that a denied request ends with.
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Status {
    let mut message = sanitize(&denial(attributes));
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(reason);
    }
    let resource = GroupResource::new(
        attributes.api_group.to_owned(),
        attributes.resource.to_owned(),
    );
    Status::forbidden(&resource, attributes.name, message)
}

fn denial(attributes: &Attributes<'_>) -> String {
    let user = quote(&attributes.user.name);
    let verb = attributes.verb;
    if !attributes.is_resource {
        return format!("User {user} cannot {verb} path {}", quote(attributes.path));
    }
    let resource = match attributes.subresource {
        "" => attributes.resource.to_owned(),
        subresource => format!("{}/{subresource}", attributes.resource),
    };
    let scope = match attributes.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", quote(namespace)),
    };
    format!(
        "User {user} cannot {verb} resource {} in API group {} {scope}",
        quote(&resource),
        quote(attributes.api_group)
    )
}

/// A browser that shows the message must not take a part of it for HTML.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_says_who_cannot_do_what_where() {
        let ann = User::new("ann", &[]);
        let pods = Attributes::resource(&ann, "list", "", "pods");
        let cases = [
            (
                Attributes {
                    namespace: "default",
                    ..pods
                },
                "",
                r#"pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                Attributes {
                    name: "web",
                    subresource: "log",
                    namespace: "x",
                    verb: "get",
                    ..pods
                },
                r#"RBAC: role.rbac.authorization.k8s.io "r" not found"#,
                r#"pods "web" is forbidden: User "ann" cannot get resource "pods/log" in API group "" in the namespace "x": RBAC: role.rbac.authorization.k8s.io "r" not found"#,
            ),
            (
                Attributes::resource(&ann, "delete", "apps", "deployments"),
                "",
                r#"deployments.apps is forbidden: User "ann" cannot delete resource "deployments" in API group "apps" at the cluster scope"#,
            ),
            (
                Attributes::path(&ann, "get", "/metrics<b>"),
                "",
                r#"forbidden: User "ann" cannot get path "/metrics&lt;b&gt;""#,
            ),
        ];
        for (attributes, reason, want) in cases {
            let status = forbidden(&attributes, reason);
            assert_eq!(status.message, want);
            assert_eq!(status.code, 403);
        }
    }
}
