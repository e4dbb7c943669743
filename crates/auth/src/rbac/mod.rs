//! Role-based access control.
//!
//! [`RbacPolicyIndex`] receives changes of roles and bindings and publishes a [`RbacPolicy`] after each: an immutable
//! snapshot that finds the bindings of a user by user name and groups, independent of the number of other bindings.
//! Aggregated roles are evaluated by their stored `rules`, as upstream does.
//! Upstream: `plugin/pkg/auth/authorizer/rbac` and `pkg/registry/rbac`.

mod aggregate;
mod escalation;
mod index;
mod objects;
mod policy;
mod review;
mod rule;
mod rule_coverage;

pub use escalation::{RbacWrite, check_escalation};
pub use index::{InvalidRbacObjectError, RbacPolicyIndex};
pub use objects::{AllowingBinding, RoleRef, Subject};
pub use policy::RbacPolicy;
pub use review::{NonResourceRule, ResourceRule, SubjectRulesReviewStatus};
pub use rule::PolicyRule;
pub(crate) use rule::QuotedList;
pub use rule_coverage::{TooManyPermissions, compact, uncovered};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The four kinds of RBAC objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RbacKind {
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
}

impl RbacKind {
    pub const ALL: [RbacKind; 4] = [
        RbacKind::ClusterRole,
        RbacKind::ClusterRoleBinding,
        RbacKind::Role,
        RbacKind::RoleBinding,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            RbacKind::ClusterRole => "ClusterRole",
            RbacKind::ClusterRoleBinding => "ClusterRoleBinding",
            RbacKind::Role => "Role",
            RbacKind::RoleBinding => "RoleBinding",
        }
    }

    /// The plural resource name, as in a URL path.
    pub const fn resource(self) -> &'static str {
        match self {
            RbacKind::ClusterRole => "clusterroles",
            RbacKind::ClusterRoleBinding => "clusterrolebindings",
            RbacKind::Role => "roles",
            RbacKind::RoleBinding => "rolebindings",
        }
    }

    pub const fn is_namespaced(self) -> bool {
        matches!(self, RbacKind::Role | RbacKind::RoleBinding)
    }

    pub fn from_resource(resource: &str) -> Option<Self> {
        RbacKind::ALL
            .into_iter()
            .find(|kind| kind.resource() == resource)
    }
}

#[cfg(test)]
mod escalation_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
