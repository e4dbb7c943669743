//! Tokens of service accounts: signed claims that die with the account, or with what they are bound to.

mod claims;
mod discovery;
mod issue;
mod key;
mod legacy;
mod request;
mod verify;

pub use claims::{BoundObject, ObjectRef};
pub use discovery::{CONFIGURATION_PATH, KEYS_PATH};
pub use issue::{Issued, Issuer, IssuerError, Request, validate_expiration_seconds};
pub use key::{KeyError, SigningKey, VerifyingKey};
pub use legacy::{INVALID_SINCE_LABEL, LAST_USED_LABEL, LegacyError, TokenSecret, legacy_token};
pub use request::{Account, Candidate, answer};
pub use verify::{AccountSource, ObjectKind, ObjectState, Verified, Verifier, VerifyError};

#[cfg(test)]
mod legacy_tests;
#[cfg(test)]
mod tests;
