//! Role-based access control.
//!
//! [`PolicyIndex`] is fed roles and bindings and publishes a [`Policy`] after each: an immutable snapshot in which
//! the bindings of a user are found by the user's name and groups, whatever else there is. Roles are evaluated by
//! their `rules`, also aggregated ones: what a client reads is what counts. [`Policy::stale_aggregates`] says
//! which `rules` the server has yet to write back.

mod aggregate;
mod cover;
mod escalation;
mod index;
mod objects;
mod policy;
mod review;
mod rule;

pub use cover::{TooManyPermissions, compact, uncovered};
pub use escalation::{Write, check_escalation};
pub use index::{ApplyError, PolicyIndex};
pub use objects::{BindingGrant, RoleRef, Subject};
pub use policy::Policy;
pub use review::{NonResourceRule, ResourceRule, RulesStatus};
pub use rule::PolicyRule;
pub(crate) use rule::QuotedList;

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The four kinds that policy is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
}

impl Kind {
    pub const ALL: [Kind; 4] = [
        Kind::ClusterRole,
        Kind::ClusterRoleBinding,
        Kind::Role,
        Kind::RoleBinding,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::ClusterRole => "ClusterRole",
            Kind::ClusterRoleBinding => "ClusterRoleBinding",
            Kind::Role => "Role",
            Kind::RoleBinding => "RoleBinding",
        }
    }

    /// The plural name, as in a path.
    pub const fn resource(self) -> &'static str {
        match self {
            Kind::ClusterRole => "clusterroles",
            Kind::ClusterRoleBinding => "clusterrolebindings",
            Kind::Role => "roles",
            Kind::RoleBinding => "rolebindings",
        }
    }

    pub const fn is_namespaced(self) -> bool {
        matches!(self, Kind::Role | Kind::RoleBinding)
    }

    pub fn from_resource(resource: &str) -> Option<Self> {
        Kind::ALL
            .into_iter()
            .find(|kind| kind.resource() == resource)
    }
}

#[cfg(test)]
mod grant_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
