//! `ServerState`: what the handlers of requests share.

use std::sync::Arc;

use rhumb_auth::token::TokenIssuer;
use rhumb_auth::{Authenticator, RbacPolicyIndex};

use crate::openapi::OpenApiDocumentCache;
use crate::quota::QuotaEnforcer;
use crate::registry::Registry;

/// The registry, authentication, authorization and the other services that handlers use.
#[derive(Debug)]
pub struct ServerState {
    pub registry: Arc<Registry>,
    /// Enforces resource quotas on writes.
    pub quota_enforcer: Arc<QuotaEnforcer>,
    pub authenticator: Authenticator,
    /// Signs service account tokens.
    pub issuer: TokenIssuer,
    pub policy: Arc<RbacPolicyIndex>,
    /// The address that clients reach the server at, such as `127.0.0.1:6443`.
    pub public_address: String,
    pub openapi_documents: OpenApiDocumentCache,
}
