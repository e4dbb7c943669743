//! Who is asking, and what they may do.
//!
//! Pure: nothing here reads a file, opens a connection or asks for the time. The server hands over what TLS and
//! the request brought ([`Credentials`]), and gets a [`User`]; it describes a request ([`Attributes`]), and gets
//! a [`Decision`]. Where clients can see a text, it is upstream's text. Nothing that can be shown with `{:?}`
//! holds a token or a private key.

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

pub use authn::{Authenticator, Credentials, Outcome};
pub use authz::{Attributes, Authorizer, Decision, Grant, forbidden};
pub use impersonation::Impersonation;
pub use rbac::{Policy, PolicyIndex};
pub use user::{ServiceAccountName, User, extra_key, group, name};
