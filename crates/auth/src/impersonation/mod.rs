//! User impersonation by `Impersonate-*` request headers.
//!
//! Entry points: [`ImpersonationRequest::from_headers`], then [`ImpersonationRequest::authorize`]. As upstream v1.36
//! (constrained impersonation), several modes are tried in order. A constrained mode needs two permissions: to
//! impersonate the user, and to perform the action of the request while impersonating. The legacy `impersonate` verb
//! allows every action.

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

/// From this number of groups or extra values, a permission for `*` is checked before the single values.
const WILDCARD_CHECK_MIN_COUNT: usize = 4;

/// The user that a request asks to impersonate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImpersonationRequest {
    wanted: User,
}

/// A kind of impersonation permission, in the order of [`ImpersonationMode::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImpersonationMode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl ImpersonationRequest {
    /// Parses the impersonation headers among the given header names and values.
    ///
    /// `None` if the request has none. The server must not forward these headers.
    pub fn from_headers<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Option<Self>, Status> {
        let mut wanted = User::default();
        // The first of repeated headers is used. An ignored repetition with a value still counts as an attempt to
        // impersonate: the request must not continue as the original user.
        let (mut name, mut uid) = (None, None);
        let mut has_identity_header = false;
        for (header, value) in headers {
            let header = header.to_ascii_lowercase();
            match header.as_str() {
                USER_HEADER => {
                    has_identity_header |= !value.is_empty();
                    name.get_or_insert(value);
                }
                UID_HEADER => {
                    has_identity_header |= !value.is_empty();
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
        if wanted == User::default() && !has_identity_header {
            return Ok(None);
        }
        if wanted.name.is_empty() {
            let message = format!(
                "requested {} without impersonating a user name",
                go_syntax(&wanted)
            );
            return Err(Status::bad_request(message));
        }
        Ok(Some(ImpersonationRequest { wanted }))
    }

    /// Returns the impersonated user, if the requesting user may impersonate it for this request.
    ///
    /// `attributes` describe the request, with the requesting user.
    pub fn authorize(
        &self,
        attributes: &Attributes<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<User, Status> {
        let mut first_error = None;
        for mode in ImpersonationMode::ALL {
            if !mode.is_for(&self.wanted, attributes.user) {
                continue;
            }
            let attempt = ImpersonationModeCheck {
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

impl ImpersonationMode {
    const ALL: [ImpersonationMode; 5] = [
        ImpersonationMode::AssociatedNode,
        ImpersonationMode::ArbitraryNode,
        ImpersonationMode::ServiceAccount,
        ImpersonationMode::UserInfo,
        ImpersonationMode::Legacy,
    ];

    const fn name(self) -> &'static str {
        match self {
            ImpersonationMode::AssociatedNode => "associated-node",
            ImpersonationMode::ArbitraryNode => "arbitrary-node",
            ImpersonationMode::ServiceAccount => "serviceaccount",
            ImpersonationMode::UserInfo => "user-info",
            ImpersonationMode::Legacy => "",
        }
    }

    fn is_constrained(self) -> bool {
        self != ImpersonationMode::Legacy
    }

    fn verb(self) -> String {
        match self {
            ImpersonationMode::Legacy => "impersonate".to_owned(),
            constrained => format!("impersonate:{}", constrained.name()),
        }
    }

    /// Whether the mode applies to the requested user.
    fn is_for(self, wanted: &User, requestor: &User) -> bool {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.name);
        let is_account = ServiceAccountName::parse(&wanted.name).is_some();
        match self {
            ImpersonationMode::AssociatedNode => {
                only_name && node.is_some_and(|node| runs_on(requestor, node))
            }
            ImpersonationMode::ArbitraryNode => only_name && node.is_some(),
            ImpersonationMode::ServiceAccount => only_name && is_account,
            ImpersonationMode::UserInfo => node.is_none() && !is_account,
            ImpersonationMode::Legacy => true,
        }
    }
}

/// Whether the requesting user is a service account with a token bound to a pod on that node.
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

/// The permission checks of one mode for one request.
struct ImpersonationModeCheck<'a> {
    mode: ImpersonationMode,
    requestor: &'a User,
    authorizer: &'a dyn Authorizer,
}

impl ImpersonationModeCheck<'_> {
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

    /// Whether there are enough values for a wildcard check, and `*` is allowed.
    fn may_all(&self, count: usize, api_group: &str, resource: &str, subresource: &str) -> bool {
        self.mode.is_constrained()
            && count >= WILDCARD_CHECK_MIN_COUNT
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
            // The permission is for any associated node; the pod's token has already determined which node that is.
            name: if self.mode == ImpersonationMode::AssociatedNode {
                "*"
            } else {
                name
            },
            ..Attributes::resource(self.requestor, verb, api_group, resource)
        }
    }

    /// Checks the user name, and returns the groups that it implies.
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

    /// The API group of users and groups; the legacy mode uses the core group.
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
