//! `ServerState`: what the handlers of requests share.

use std::sync::Arc;

use rhumb_auth::token::TokenIssuer;
use rhumb_auth::{Authenticator, RbacPolicyIndex};

use crate::metrics_source::MetricsSource;
use crate::openapi::OpenApiDocumentCache;
use crate::resources::DisruptionBudgetIndex;
use rhumb_registry::Registry;

/// The registry, authentication, authorization and the other services that handlers use.
#[derive(Debug)]
pub struct ServerState {
    pub registry: Arc<Registry>,
    pub authenticator: Authenticator,
    /// Signs service account tokens.
    pub issuer: TokenIssuer,
    pub policy: Arc<RbacPolicyIndex>,
    /// The address that clients reach the server at, such as `127.0.0.1:6443`.
    pub public_address: String,
    pub openapi_documents: OpenApiDocumentCache,
    pub disruption_budgets: DisruptionBudgetIndex,
    /// Components whose metrics the server exposes with its own.
    pub metrics_sources: Vec<Arc<dyn MetricsSource>>,
}
