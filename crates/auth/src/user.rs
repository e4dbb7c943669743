//! Users, groups and service account names, as upstream's `user.Info` and `serviceaccount` packages.

use std::collections::BTreeMap;

use rhumb_meta::validation;
use serde::{Deserialize, Serialize};

/// Groups with a built-in meaning.
pub mod group {
    /// Members may do everything; RBAC policy cannot restrict them.
    pub const MASTERS: &str = "system:masters";
    pub const NODES: &str = "system:nodes";
    pub const MONITORING: &str = "system:monitoring";
    pub const AUTHENTICATED: &str = "system:authenticated";
    pub const UNAUTHENTICATED: &str = "system:unauthenticated";
    pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
    /// Followed by a namespace: the group of that namespace's service accounts.
    pub const SERVICE_ACCOUNTS_PREFIX: &str = "system:serviceaccounts:";
}

/// User names with a built-in meaning.
pub mod name {
    pub const ANONYMOUS: &str = "system:anonymous";
    pub const API_SERVER: &str = "system:apiserver";
    pub const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
    pub const PROXY: &str = "system:kube-proxy";
    pub const SCHEDULER: &str = "system:kube-scheduler";
    /// Followed by `<namespace>:<name>` of the service account.
    pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
    pub const NODE_PREFIX: &str = "system:node:";
}

/// Well-known keys of [`User::extra`].
pub mod extra_key {
    pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
    pub const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
    pub const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
    pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
    pub const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
}

/// An authenticated user. Serializes as `UserInfo` of the authentication API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    #[serde(rename = "username", skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        User {
            name: name.into(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            ..User::default()
        }
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        User::new(name::ANONYMOUS, &[group::UNAUTHENTICATED])
    }

    /// The API server itself, for the requests that it makes to itself (upstream's loopback client).
    pub fn server() -> Self {
        User::new(name::API_SERVER, &[group::MASTERS, group::AUTHENTICATED])
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Adds `system:authenticated`, unless the user is anonymous or already has it or `system:unauthenticated`.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if self.name != name::ANONYMOUS
            && !self.is_in(group::AUTHENTICATED)
            && !self.is_in(group::UNAUTHENTICATED)
        {
            self.groups.push(group::AUTHENTICATED.to_owned());
        }
        self
    }
}

/// The namespace and name of a service account, as encoded in its user name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceAccountName<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> ServiceAccountName<'a> {
    /// Parses `system:serviceaccount:<namespace>:<name>`; `None` for any other user name.
    pub fn parse(username: &'a str) -> Option<Self> {
        let rest = username.strip_prefix(name::SERVICE_ACCOUNT_PREFIX)?;
        let (namespace, name) = rest.split_once(':')?;
        let valid = validation::dns1123_label(namespace).is_empty()
            && validation::dns1123_subdomain(name).is_empty();
        valid.then_some(ServiceAccountName { namespace, name })
    }

    pub fn username(&self) -> String {
        format!(
            "{}{}:{}",
            name::SERVICE_ACCOUNT_PREFIX,
            self.namespace,
            self.name
        )
    }

    /// The groups of every service account in the namespace.
    pub fn groups(&self) -> Vec<String> {
        vec![
            group::SERVICE_ACCOUNTS.to_owned(),
            format!("{}{}", group::SERVICE_ACCOUNTS_PREFIX, self.namespace),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_is_parsed_from_the_user_name() {
        let cases = [
            (
                "system:serviceaccount:default:builder",
                Some(("default", "builder")),
            ),
            (
                "system:serviceaccount:default:a.b",
                Some(("default", "a.b")),
            ),
            ("system:serviceaccount:default", None),
            ("system:serviceaccount:default:a:b", None),
            ("system:serviceaccount:De:a", None),
            ("system:serviceaccount::a", None),
            ("system:serviceaccount:a:", None),
            ("system:serviceaccount:a.b:c", None),
            ("builder", None),
        ];
        for (username, want) in cases {
            let got = ServiceAccountName::parse(username);
            assert_eq!(got.map(|it| (it.namespace, it.name)), want, "{username}");
            if let Some(account) = got {
                assert_eq!(account.username(), username);
            }
        }
    }

    #[test]
    fn authenticated_group_is_added() {
        let cases: [(User, &[&str]); 4] = [
            (User::new("ann", &[]), &["system:authenticated"]),
            (User::new("ann", &["dev"]), &["dev", "system:authenticated"]),
            (
                User::new("ann", &["system:unauthenticated"]),
                &["system:unauthenticated"],
            ),
            (User::anonymous(), &["system:unauthenticated"]),
        ];
        for (user, want) in cases {
            assert_eq!(user.authenticated().groups, want);
        }
    }
}
