//! Signs the legacy tokens of service account secrets, with the API server's key or with one from a file.

use std::sync::Arc;

use rhumb_auth::token::{ServiceAccountIdentity, SigningKey, legacy_token};
use rhumb_controllers::TokenSigner;
use rhumb_handlers::ServerState;

#[derive(Debug)]
pub(crate) enum LegacyTokenSigner {
    Server(Arc<ServerState>),
    File(SigningKey),
}

impl TokenSigner for LegacyTokenSigner {
    fn sign(&self, namespace: &str, account: &str, uid: &str, secret: &str) -> Option<String> {
        let key = match self {
            LegacyTokenSigner::Server(api) => api.issuer.key(),
            LegacyTokenSigner::File(key) => key,
        };
        let account = ServiceAccountIdentity {
            namespace,
            name: account,
            uid,
        };
        let signed = legacy_token(key, account, secret);
        signed
            .inspect_err(|error| tracing::warn!(%error, "failed to sign a service account token; its secret gets none"))
            .ok()
    }
}
