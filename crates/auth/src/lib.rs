//! Authentication and authorization.
//!
//! Entry points: [`Authenticator`] turns [`Credentials`] (client certificate, bearer token) into a [`User`]; an
//! [`Authorizer`], such as [`rbac::RbacPolicy`], turns request [`Attributes`] into a [`Decision`]. Service account
//! tokens are in [`token`], impersonation headers in [`impersonation`], default RBAC objects in [`bootstrap`].
//! The crate does no I/O and never reads the clock. Texts that clients see are upstream's. No `Debug` output
//! contains a token or a private key.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod authn;
mod authz;
pub mod bootstrap;
pub mod impersonation;
pub mod rbac;
pub mod token;
mod user;

pub use authn::{AuthenticationOutcome, Authenticator, Credentials};
pub use authz::{AllowReason, Attributes, Authorizer, Decision, forbidden};
pub use impersonation::ImpersonationRequest;
pub use rbac::{RbacPolicy, RbacPolicyIndex};
pub use user::{ServiceAccountName, User, extra_key, group, name};
