//! The interface to the authorizer, which expressions use through the variable `authorizer`.

use std::fmt::Debug;

/// Answers `authorizer` checks. It is called synchronously during evaluation.
pub trait PermissionChecker: Debug + Send + Sync {
    fn check(&self, check: &AuthorizationCheck<'_>) -> AuthorizationDecision;
}

/// An authorization check: may the subject perform the action?
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationCheck<'c> {
    pub subject: &'c AuthorizationSubject,
    pub verb: &'c str,
    pub target: AuthorizationTarget<'c>,
}

/// The subject of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AuthorizationSubject {
    /// The user of the request.
    #[default]
    RequestUser,
    ServiceAccount {
        namespace: String,
        name: String,
    },
}

/// The path or resource of the check.
#[derive(Clone, Copy, Debug)]
pub enum AuthorizationTarget<'c> {
    /// A non-resource path.
    Path(&'c str),
    Resource(&'c ResourceCheck),
}

/// Attributes of a resource check. The version is `*`; empty attributes are unset. Selectors are passed unparsed: the
/// authorizer decides about invalid ones, as it does for requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

/// The authorizer's decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationDecision {
    pub allowed: bool,
    pub reason: String,
    /// The error of the authorizer, if it failed.
    pub error: Option<String>,
}
