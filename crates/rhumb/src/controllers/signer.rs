//! What signs the tokens that secrets hold: the key of the server in the same process, or one from a file.

use std::sync::Arc;

use rhumb_apiserver::Api;
use rhumb_auth::token::{Account, SigningKey, legacy_token};
use rhumb_controllers::SignToken;

#[derive(Debug)]
pub(crate) enum Signer {
    Server(Arc<Api>),
    File(SigningKey),
}

impl SignToken for Signer {
    fn sign(&self, namespace: &str, account: &str, uid: &str, secret: &str) -> Option<String> {
        let key = match self {
            Signer::Server(api) => api.issuer.key(),
            Signer::File(key) => key,
        };
        let account = Account {
            namespace,
            name: account,
            uid,
        };
        let signed = legacy_token(key, account, secret);
        signed
            .inspect_err(|error| tracing::warn!(%error, "a token cannot be signed"))
            .ok()
    }
}
