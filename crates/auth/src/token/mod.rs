//! Service account tokens: JWTs that are valid as long as the account and the bound object exist.
//!
//! Entry points: [`TokenIssuer`] and [`TokenVerifier`]; [`handle_token_request`] serves the TokenRequest API.
//! Upstream: `pkg/serviceaccount`.

mod claims;
mod discovery;
mod issuer;
mod key;
mod legacy_token;
mod token_request;
mod verifier;

pub use claims::{BoundObject, TokenObjectRef};
pub use discovery::{CONFIGURATION_PATH, KEYS_PATH};
pub use issuer::{
    IssuedToken, TokenIssueError, TokenIssueParams, TokenIssuer, validate_expiration_seconds,
};
pub use key::{SigningKey, TokenKeyError, VerifyingKey};
pub use legacy_token::{
    INVALID_SINCE_LABEL, LAST_USED_LABEL, LegacyTokenError, LegacyTokenSecret, legacy_token,
};
pub use token_request::{BindableObject, ServiceAccountIdentity, answer};
pub use verifier::{
    ServiceAccountTokenGetter, TokenObjectKind, TokenObjectState, TokenVerifier, TokenVerifyError,
    VerifiedToken,
};

#[cfg(test)]
mod legacy_tests;
#[cfg(test)]
mod tests;
