//! Legacy service account tokens: stored in secrets and without expiration, unlike tokens of the TokenRequest API.
//!
//! Upstream: `pkg/serviceaccount/legacy.go`.

use std::fmt;
use std::time::Duration;

use rhumb_meta::Timestamp;
use rhumb_meta::gotext::quote;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::claims::one_or_many;
use super::issuer::{TokenIssueError, signed};
use super::key::SigningKey;
use super::token_request::ServiceAccountIdentity;
use super::verifier::{ServiceAccountTokenGetter, TokenObjectKind};
use crate::user::{ServiceAccountName, User};

pub(super) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The label with the date since which the token of a secret is rejected.
pub const INVALID_SINCE_LABEL: &str = "kubernetes.io/legacy-token-invalid-since";

/// The label with the date on which the token of a secret was last used.
pub const LAST_USED_LABEL: &str = "kubernetes.io/legacy-token-last-used";

/// The current state of a secret with a token. `Debug` does not show the token.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LegacyTokenSecret {
    pub token: Vec<u8>,
    pub is_deleting: bool,
    /// Whether the secret has the [`INVALID_SINCE_LABEL`].
    pub is_marked_invalid: bool,
    /// The value of the [`LAST_USED_LABEL`]; empty if there is none.
    pub last_used: String,
}

impl fmt::Debug for LegacyTokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegacyTokenSecret")
            .field("is_deleting", &self.is_deleting)
            .field("is_marked_invalid", &self.is_marked_invalid)
            .finish_non_exhaustive()
    }
}

/// Why a legacy token is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LegacyTokenError {
    #[error("{0} claim is missing")]
    Missing(&'static str),
    #[error("sub claim is invalid")]
    Subject,
    #[error("Token has been invalidated")]
    NoSecret,
    #[error("Token does not match server's copy")]
    OtherToken,
    #[error("serviceaccounts {} not found", quote(.0))]
    NoAccount(String),
    #[error("ServiceAccount {namespace}/{name} has been deleted")]
    AccountDeleted { namespace: String, name: String },
    #[error("ServiceAccount UID ({now}) does not match claim ({claim})")]
    AccountUid { now: String, claim: String },
    #[error(
        "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked \
         invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
         '{INVALID_SINCE_LABEL}' label from the secret to temporarily allow use of this token"
    )]
    MarkedInvalid {
        namespace: String,
        secret: String,
        account: String,
    },
}

/// The claims of a legacy token. Fields are sorted by name, as in upstream's tokens.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LegacyTokenClaims {
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "one_or_many"
    )]
    pub(super) aud: Vec<String>,
    iss: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: String,
    sub: String,
}

/// Signs the token of a secret of type `kubernetes.io/service-account-token`.
pub fn legacy_token(
    key: &SigningKey,
    account: ServiceAccountIdentity<'_>,
    secret: &str,
) -> Result<String, TokenIssueError> {
    let subject = ServiceAccountName {
        namespace: account.namespace,
        name: account.name,
    };
    let claims = LegacyTokenClaims {
        aud: Vec::new(),
        iss: LEGACY_ISSUER.to_owned(),
        namespace: account.namespace.to_owned(),
        secret: secret.to_owned(),
        account: account.name.to_owned(),
        uid: account.uid.to_owned(),
        sub: subject.username(),
    };
    signed(key, &claims)
}

impl LegacyTokenClaims {
    fn owner(&self) -> ServiceAccountName<'_> {
        ServiceAccountName {
            namespace: &self.namespace,
            name: &self.account,
        }
    }

    pub(super) fn user(&self) -> User {
        User {
            name: self.owner().username(),
            uid: self.uid.clone(),
            groups: self.owner().groups(),
            ..User::default()
        }
    }

    /// Checks that the secret still contains the token, and that the service account still exists with the same UID.
    /// Unlike for bound tokens, a deletion timestamp invalidates the token at once.
    pub(super) fn check(
        &self,
        token: &str,
        source: &dyn ServiceAccountTokenGetter,
        now: Timestamp,
    ) -> Result<(), LegacyTokenError> {
        self.check_claims()?;
        let secret = source
            .token_secret(&self.namespace, &self.secret)
            .filter(|secret| !secret.is_deleting)
            .ok_or(LegacyTokenError::NoSecret)?;
        if !is_same(&secret.token, token.as_bytes()) {
            return Err(LegacyTokenError::OtherToken);
        }
        let account = source
            .look_up(
                TokenObjectKind::ServiceAccount,
                &self.namespace,
                &self.account,
            )
            .ok_or_else(|| LegacyTokenError::NoAccount(self.account.clone()))?;
        if account.deletion.is_some() {
            return Err(LegacyTokenError::AccountDeleted {
                namespace: self.namespace.clone(),
                name: self.account.clone(),
            });
        }
        if account.uid != self.uid {
            return Err(LegacyTokenError::AccountUid {
                now: account.uid,
                claim: self.uid.clone(),
            });
        }
        // Rejected uses are recorded too, so that operators see that the token is still in use.
        let (today, tomorrow) = (day(now), day(now.saturating_add(DAY)));
        if secret.last_used != today && secret.last_used != tomorrow {
            source.note_use(&self.namespace, &self.secret, &today);
        }
        match secret.is_marked_invalid {
            false => Ok(()),
            true => Err(LegacyTokenError::MarkedInvalid {
                namespace: self.namespace.clone(),
                secret: self.secret.clone(),
                account: self.account.clone(),
            }),
        }
    }

    fn check_claims(&self) -> Result<(), LegacyTokenError> {
        let claims = [
            ("sub", &self.sub),
            ("namespace", &self.namespace),
            ("secretName", &self.secret),
            ("serviceAccountName", &self.account),
            ("serviceAccountUID", &self.uid),
        ];
        if let Some((name, _)) = claims.into_iter().find(|(_, claim)| claim.is_empty()) {
            return Err(LegacyTokenError::Missing(name));
        }
        match ServiceAccountName::parse(&self.sub) {
            Some(subject) if subject == self.owner() => Ok(()),
            _ => Err(LegacyTokenError::Subject),
        }
    }
}

fn day(time: Timestamp) -> String {
    let mut text = time.rfc3339().to_string();
    text.truncate("2006-01-02".len());
    text
}

/// Compares digests, so that the timing reveals nothing about the token.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    digest(&SHA256, one).as_ref() == digest(&SHA256, other).as_ref()
}
