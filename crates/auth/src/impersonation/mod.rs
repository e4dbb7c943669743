//! Acting as somebody else, by request headers.
//!
//! v1.36 knows several ways to be allowed to, which are tried in turn. The constrained ones need two permissions:
//! to impersonate that user, and to do while impersonating what the request does. The last one, `impersonate`, is
//! the old one that allows everything.

mod header;

use std::collections::BTreeMap;

use rhumb_meta::{Status, validation};

use self::header::{go_syntax, unescape, validate_extra};
use crate::authz::{Attributes, Authorizer, Decision, forbidden};
use crate::rbac::QuotedList;
use crate::user::{ServiceAccountName, User, extra_key, group, name};

const USER_HEADER: &str = "impersonate-user";
const UID_HEADER: &str = "impersonate-uid";
const GROUP_HEADER: &str = "impersonate-group";
const EXTRA_HEADER_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// From this many groups or extra values on, a permission for all of them at once is looked for first.
const MANY: usize = 4;

/// Whom a request wants to act as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonation {
    wanted: User,
}

/// One way to be allowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Impersonation {
    /// Reads the headers of a request, of which names and values are given; others are skipped.
    ///
    /// `None` if the request wants to act as nobody else. The server must not pass these headers on.
    pub fn from_headers<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Option<Self>, Status> {
        let mut wanted = User::default();
        // Of headers that are repeated the first counts. One that does not count is still no reason to go on as
        // the one who asks.
        let (mut name, mut uid) = (None, None);
        let mut names_someone = false;
        for (header, value) in headers {
            let header = header.to_ascii_lowercase();
            match header.as_str() {
                USER_HEADER => {
                    names_someone |= !value.is_empty();
                    name.get_or_insert(value);
                }
                UID_HEADER => {
                    names_someone |= !value.is_empty();
                    uid.get_or_insert(value);
                }
                GROUP_HEADER => wanted.groups.push(value.to_owned()),
                _ => {
                    if let Some(key) = header.strip_prefix(EXTRA_HEADER_PREFIX) {
                        let values = wanted.extra.entry(unescape(key)).or_default();
                        values.push(value.to_owned());
                    }
                }
            }
        }
        wanted.name = name.unwrap_or_default().to_owned();
        wanted.uid = uid.unwrap_or_default().to_owned();
        if wanted == User::default() && !names_someone {
            return Ok(None);
        }
        if wanted.name.is_empty() {
            let message = format!(
                "requested {} without impersonating a user name",
                go_syntax(&wanted)
            );
            return Err(Status::bad_request(message));
        }
        Ok(Some(Impersonation { wanted }))
    }

    /// Whether a header is one of those that [`Impersonation::from_headers`] reads.
    pub fn is_header(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        [USER_HEADER, UID_HEADER, GROUP_HEADER].contains(&name.as_str())
            || name.starts_with(EXTRA_HEADER_PREFIX)
    }

    /// The user to go on as, if the one who asks may act as that user in this request.
    ///
    /// `attributes` describe the request, with the user who asks.
    pub fn authorize(
        &self,
        attributes: &Attributes<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<User, Status> {
        let mut first_error = None;
        for mode in Mode::ALL {
            if !mode.is_for(&self.wanted, attributes.user) {
                continue;
            }
            let attempt = Attempt {
                mode,
                requestor: attributes.user,
                authorizer,
            };
            match attempt.run(&self.wanted, attributes) {
                Ok(user) => return Ok(user),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| Status::internal_error("all impersonation modes failed")))
    }
}

impl Mode {
    const ALL: [Mode; 5] = [
        Mode::AssociatedNode,
        Mode::ArbitraryNode,
        Mode::ServiceAccount,
        Mode::UserInfo,
        Mode::Legacy,
    ];

    const fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "",
        }
    }

    fn is_constrained(self) -> bool {
        self != Mode::Legacy
    }

    fn verb(self) -> String {
        match self {
            Mode::Legacy => "impersonate".to_owned(),
            constrained => format!("impersonate:{}", constrained.name()),
        }
    }

    /// Whether the mode applies to what is wanted.
    fn is_for(self, wanted: &User, requestor: &User) -> bool {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.name);
        let is_account = ServiceAccountName::parse(&wanted.name).is_some();
        match self {
            Mode::AssociatedNode => only_name && node.is_some_and(|node| runs_on(requestor, node)),
            Mode::ArbitraryNode => only_name && node.is_some(),
            Mode::ServiceAccount => only_name && is_account,
            Mode::UserInfo => node.is_none() && !is_account,
            Mode::Legacy => true,
        }
    }
}

/// Whether the one who asks is a service account of a pod on that node.
fn runs_on(requestor: &User, node: &str) -> bool {
    let known = requestor.extra.get(extra_key::NODE_NAME);
    ServiceAccountName::parse(&requestor.name).is_some()
        && known.is_some_and(|known| *known == [node])
}

fn node_name(username: &str) -> Option<&str> {
    username
        .strip_prefix(name::NODE_PREFIX)
        .filter(|node| validation::dns1123_subdomain(node).is_empty())
}

/// One mode, tried for one request.
struct Attempt<'a> {
    mode: Mode,
    requestor: &'a User,
    authorizer: &'a dyn Authorizer,
}

impl Attempt<'_> {
    fn run(&self, wanted: &User, attributes: &Attributes<'_>) -> Result<User, Status> {
        if self.mode.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), attributes.verb);
            self.check(&Attributes {
                verb: &verb,
                ..*attributes
            })?;
        }
        let groups = self.check_name(wanted)?;
        if !wanted.uid.is_empty() {
            self.check_one(AUTHENTICATION_GROUP, "uids", "", &wanted.uid)?;
        }
        self.check_groups(&wanted.groups)?;
        self.check_extra(&wanted.extra)?;

        let mut user = User {
            groups,
            ..wanted.clone()
        };
        if user.name == name::ANONYMOUS {
            if !user.is_in(group::UNAUTHENTICATED) {
                user.groups.push(group::UNAUTHENTICATED.to_owned());
            }
            return Ok(user);
        }
        Ok(user.authenticated())
    }

    fn check(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        match self.authorizer.authorize(attributes) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) => Err(forbidden(attributes, &reason)),
        }
    }

    fn check_one(
        &self,
        api_group: &str,
        resource: &str,
        subresource: &str,
        name: &str,
    ) -> Result<(), Status> {
        let verb = self.mode.verb();
        self.check(&self.attributes(&verb, api_group, resource, subresource, name))
    }

    /// Whether there are many, and a permission that names none of them.
    fn may_all(&self, count: usize, api_group: &str, resource: &str, subresource: &str) -> bool {
        self.mode.is_constrained()
            && count >= MANY
            && self
                .check_one(api_group, resource, subresource, "*")
                .is_ok()
    }

    fn attributes<'b>(
        &'b self,
        verb: &'b str,
        api_group: &'b str,
        resource: &'b str,
        subresource: &'b str,
        name: &'b str,
    ) -> Attributes<'b> {
        Attributes {
            api_version: "v1",
            subresource,
            // An associated node is any of them: which one it is, the token of the pod has told.
            name: if self.mode == Mode::AssociatedNode {
                "*"
            } else {
                name
            },
            ..Attributes::resource(self.requestor, verb, api_group, resource)
        }
    }

    /// Checks the name, and gives the groups that come with it.
    fn check_name(&self, wanted: &User) -> Result<Vec<String>, Status> {
        let constrained = self.mode.is_constrained();
        let api_group = self.name_group();
        let verb = self.mode.verb();
        let mut groups = wanted.groups.clone();
        let mut attributes = self.attributes(&verb, api_group, "users", "", &wanted.name);
        let mut what = "";
        if let Some(node) = node_name(&wanted.name).filter(|_| constrained) {
            attributes = self.attributes(&verb, api_group, "nodes", "", node);
            groups = vec![group::NODES.to_owned()];
            what = "a node";
        } else if let Some(account) = ServiceAccountName::parse(&wanted.name) {
            attributes = Attributes {
                namespace: account.namespace,
                ..self.attributes(&verb, api_group, "serviceaccounts", "", account.name)
            };
            if wanted.groups.is_empty() {
                groups = account.groups();
            }
            what = "a service account";
        }
        if constrained && !what.is_empty() && !wanted.groups.is_empty() {
            let list = QuotedList(&wanted.groups);
            let reason = format!("when impersonating {what}, cannot impersonate groups {list}");
            return Err(forbidden(&attributes, &reason));
        }
        self.check(&attributes)?;
        Ok(groups)
    }

    /// The old mode has users and groups in the core group.
    fn name_group(&self) -> &'static str {
        match self.mode.is_constrained() {
            true => AUTHENTICATION_GROUP,
            false => "",
        }
    }

    fn check_groups(&self, groups: &[String]) -> Result<(), Status> {
        let api_group = self.name_group();
        if self.mode.is_constrained() {
            let verb = self.mode.verb();
            let refuse = |name: &str, reason: &str| {
                let attributes = self.attributes(&verb, api_group, "groups", "", name);
                Err(forbidden(&attributes, reason))
            };
            if groups.iter().any(String::is_empty) {
                return refuse("", "impersonating the empty string group is not allowed");
            }
            if groups.iter().any(|it| it == group::MASTERS) {
                let reason = "impersonating the system:masters group is not allowed";
                return refuse(group::MASTERS, reason);
            }
        }
        if self.may_all(groups.len(), api_group, "groups", "") {
            return Ok(());
        }
        let mut groups = groups.iter();
        groups.try_for_each(|group| self.check_one(api_group, "groups", "", group))
    }

    fn check_extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        if self.mode.is_constrained()
            && let Err(reason) = validate_extra(extra)
        {
            let verb = self.mode.verb();
            let attributes = self.attributes(&verb, AUTHENTICATION_GROUP, "userextras", "", "");
            return Err(forbidden(&attributes, &reason));
        }
        let count = extra.values().map(Vec::len).sum();
        if self.may_all(count, AUTHENTICATION_GROUP, "userextras", "*") {
            return Ok(());
        }
        for (key, values) in extra {
            for value in values {
                self.check_one(AUTHENTICATION_GROUP, "userextras", key, value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
