//! Request attributes, the authorizer interface and its decision, as upstream's `authorizer` package.

use std::fmt;

use rhumb_meta::gotext::quote;
use rhumb_meta::{GroupResource, Status, fields, labels};

use crate::rbac::AllowingBinding;
use crate::user::User;

/// The attributes of a request that authorization depends on.
///
/// A resource request has `is_resource` and the fields from `api_group` to `name`; any other request has `path`.
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
    /// The selectors of a list, watch or deletecollection. RBAC ignores them; other authorizers may use them.
    pub field_selector: &'a [fields::Requirement],
    pub label_selector: &'a [labels::Requirement],
}

impl<'a> Attributes<'a> {
    /// A resource request; set further fields with struct update syntax.
    pub fn resource(user: &'a User, verb: &'a str, api_group: &'a str, resource: &'a str) -> Self {
        Attributes {
            is_resource: true,
            api_group,
            resource,
            ..Self::path(user, verb, "")
        }
    }

    /// A non-resource request.
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

/// Decides whether a request is allowed.
pub trait Authorizer {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;
}

impl fmt::Debug for dyn Authorizer + Send + Sync + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizer")
    }
}

/// The result of authorizing a request.
#[derive(Debug, Clone)]
pub enum Decision {
    Allow(AllowReason),
    /// No rule allows the request. The text lists evaluation errors and is usually empty.
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

    /// Turns a denial into the 403 Status for the client.
    pub fn require(self, attributes: &Attributes<'_>) -> Result<AllowReason, Status> {
        match self {
            Decision::Allow(grant) => Ok(grant),
            Decision::Deny(reason) => Err(forbidden(attributes, &reason)),
        }
    }
}

/// Why a request is allowed. The text is formatted only on demand.
#[derive(Debug, Clone)]
pub enum AllowReason {
    /// The user is in `system:masters`.
    Masters,
    Binding(AllowingBinding),
}

impl fmt::Display for AllowReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllowReason::Masters => Ok(()),
            AllowReason::Binding(binding) => write!(f, "RBAC: allowed by {binding}"),
        }
    }
}

/// The 403 Status of a denied request.
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

/// Escapes HTML characters, so that a browser does not interpret parts of the message.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_names_user_verb_resource_and_namespace() {
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
