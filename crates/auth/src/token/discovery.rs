//! OpenID Connect discovery documents, with which other parties verify the tokens of this server.
//!
//! Upstream: `pkg/serviceaccount/openidmetadata.go`.

use serde_json::{Value, json};

use super::key::VerifyingKey;
use super::verifier::TokenVerifier;

/// The path that serves [`TokenVerifier::openid_configuration`].
pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// The path that serves [`TokenVerifier::jwks`].
pub const KEYS_PATH: &str = "/openid/v1/jwks";

impl TokenVerifier {
    /// The OpenID provider configuration; `keys_url` is the external URL of [`JWKS_PATH`].
    pub fn configuration(&self, keys_url: &str) -> Value {
        let mut algorithms: Vec<_> = self.keys().iter().map(VerifyingKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": self.issuer(),
            "jwks_uri": keys_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }

    /// The public keys as a JSON Web Key Set (JWKS).
    pub fn key_set(&self) -> Value {
        let keys: Vec<Value> = self.keys().iter().map(VerifyingKey::jwk).collect();
        json!({ "keys": keys })
    }
}
