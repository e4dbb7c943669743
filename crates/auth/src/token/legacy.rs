//! Tokens that lie in secrets and do not expire, as clusters had them before tokens were made on request.

use std::fmt;
use std::time::Duration;

use rhumb_meta::Timestamp;
use rhumb_meta::gotext::quote;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::claims::one_or_many;
use super::issue::{IssuerError, signed};
use super::key::SigningKey;
use super::request::Account;
use super::verify::{AccountSource, ObjectKind};
use crate::user::{ServiceAccountName, User};

pub(super) const ISSUER: &str = "kubernetes/serviceaccount";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The label with the day since when the token in a secret is not accepted any more.
pub const INVALID_SINCE_LABEL: &str = "kubernetes.io/legacy-token-invalid-since";

/// The label with the day on which the token in a secret was last used.
pub const LAST_USED_LABEL: &str = "kubernetes.io/legacy-token-last-used";

/// A secret that holds a token, as it is now. Its Debug form does not show the token.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TokenSecret {
    pub token: Vec<u8>,
    pub is_deleting: bool,
    /// Whether it has an [`INVALID_SINCE_LABEL`].
    pub is_marked_invalid: bool,
    /// Its [`LAST_USED_LABEL`]; empty if it has none.
    pub last_used: String,
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSecret")
            .field("is_deleting", &self.is_deleting)
            .field("is_marked_invalid", &self.is_marked_invalid)
            .finish_non_exhaustive()
    }
}

/// Why a token that lies in a secret is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LegacyError {
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

/// What such a token says. Fields are in the order of their names, as upstream writes them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LegacyClaims {
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

/// Signs the token that goes into a secret of type `kubernetes.io/service-account-token`.
pub fn legacy_token(
    key: &SigningKey,
    account: Account<'_>,
    secret: &str,
) -> Result<String, IssuerError> {
    let subject = ServiceAccountName {
        namespace: account.namespace,
        name: account.name,
    };
    let claims = LegacyClaims {
        aud: Vec::new(),
        iss: ISSUER.to_owned(),
        namespace: account.namespace.to_owned(),
        secret: secret.to_owned(),
        account: account.name.to_owned(),
        uid: account.uid.to_owned(),
        sub: subject.username(),
    };
    signed(key, &claims)
}

impl LegacyClaims {
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

    /// Whether the token still is what the secret holds, and its account still the one it was made for. Here a
    /// deletion counts from the moment it was asked for.
    pub(super) fn check(
        &self,
        token: &str,
        source: &dyn AccountSource,
        now: Timestamp,
    ) -> Result<(), LegacyError> {
        self.check_claims()?;
        let secret = source
            .token_secret(&self.namespace, &self.secret)
            .filter(|secret| !secret.is_deleting)
            .ok_or(LegacyError::NoSecret)?;
        if !is_same(&secret.token, token.as_bytes()) {
            return Err(LegacyError::OtherToken);
        }
        let account = source
            .look_up(ObjectKind::ServiceAccount, &self.namespace, &self.account)
            .ok_or_else(|| LegacyError::NoAccount(self.account.clone()))?;
        if account.deletion.is_some() {
            return Err(LegacyError::AccountDeleted {
                namespace: self.namespace.clone(),
                name: self.account.clone(),
            });
        }
        if account.uid != self.uid {
            return Err(LegacyError::AccountUid {
                now: account.uid,
                claim: self.uid.clone(),
            });
        }
        // A use that is refused is a use: it tells why the secret is still there.
        let (today, tomorrow) = (day(now), day(now.saturating_add(DAY)));
        if secret.last_used != today && secret.last_used != tomorrow {
            source.note_use(&self.namespace, &self.secret, &today);
        }
        match secret.is_marked_invalid {
            false => Ok(()),
            true => Err(LegacyError::MarkedInvalid {
                namespace: self.namespace.clone(),
                secret: self.secret.clone(),
                account: self.account.clone(),
            }),
        }
    }

    fn check_claims(&self) -> Result<(), LegacyError> {
        let claims = [
            ("sub", &self.sub),
            ("namespace", &self.namespace),
            ("secretName", &self.secret),
            ("serviceAccountName", &self.account),
            ("serviceAccountUID", &self.uid),
        ];
        if let Some((name, _)) = claims.into_iter().find(|(_, claim)| claim.is_empty()) {
            return Err(LegacyError::Missing(name));
        }
        match ServiceAccountName::parse(&self.sub) {
            Some(subject) if subject == self.owner() => Ok(()),
            _ => Err(LegacyError::Subject),
        }
    }
}

fn day(time: Timestamp) -> String {
    let mut text = time.rfc3339().to_string();
    text.truncate("2006-01-02".len());
    text
}

/// Compares digests, so that the time it takes tells nothing about the token.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    digest(&SHA256, one).as_ref() == digest(&SHA256, other).as_ref()
}
