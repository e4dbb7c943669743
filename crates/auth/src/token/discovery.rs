//! How others learn to check our tokens.

use serde_json::{Value, json};

use super::key::VerifyingKey;
use super::verify::Verifier;

/// Where [`Verifier::configuration`] is served.
pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// Where [`Verifier::key_set`] is served.
pub const KEYS_PATH: &str = "/openid/v1/jwks";

impl Verifier {
    /// The OpenID configuration; `keys_url` is where [`KEYS_PATH`] is found from outside.
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

    /// The public keys as a JSON Web Key Set.
    pub fn key_set(&self) -> Value {
        let keys: Vec<Value> = self.keys().iter().map(VerifyingKey::jwk).collect();
        json!({ "keys": keys })
    }
}
