//! Verification of service account tokens: signature, issuer, audiences, times and bound objects.
//!
//! Entry point: [`TokenVerifier::verify`]. Upstream: `serviceaccount.JWTTokenAuthenticator` and its validators.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rhumb_meta::Timestamp;
use rhumb_meta::gotext::quote;
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use super::claims::{NumericDate, TokenClaims, TokenObjectRef};
use super::key::VerifyingKey;
use super::legacy_token::{self, LegacyTokenClaims, LegacyTokenError, LegacyTokenSecret};
use crate::rbac::QuotedList;
use crate::user::User;

/// The tolerated clock skew, as upstream's `jwt.DefaultLeeway`.
const CLOCK_SKEW_LEEWAY: Duration = Duration::from_secs(60);

/// Longer tokens are rejected without parsing; issued tokens are far shorter.
const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// The number of verified tokens that are cached: verifying a signature costs more than the rest of authentication.
const REMEMBERED_MAX: usize = 8192;

/// Looks up the current state of the objects that tokens depend on; upstream's `ServiceAccountTokenGetter`.
pub trait ServiceAccountTokenGetter: Send + Sync + fmt::Debug {
    /// The namespace is empty for a node.
    fn look_up(
        &self,
        kind: TokenObjectKind,
        namespace: &str,
        name: &str,
    ) -> Option<TokenObjectState>;

    /// Looks up a secret with a legacy token. An implementation without secrets accepts no legacy tokens.
    fn token_secret(&self, _namespace: &str, _name: &str) -> Option<LegacyTokenSecret> {
        None
    }

    /// Called on the first use of a legacy token on a day (UTC). May be called again until the secret's
    /// [`LAST_USED_LABEL`](super::LAST_USED_LABEL) has that day.
    fn note_use(&self, _namespace: &str, _secret: &str, _day: &str) {}
}

/// The kinds of objects that tokens are bound to or issued for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TokenObjectKind {
    ServiceAccount,
    Pod,
    Secret,
    Node,
}

/// The metadata of a current object that token validity depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenObjectState {
    pub uid: String,
    pub deletion: Option<Timestamp>,
}

/// Why a token is rejected. The texts contain no usable part of the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenVerifyError {
    /// Malformed, or of another issuer: another authenticator may accept it.
    #[error("invalid bearer token")]
    Foreign,
    #[error("invalid signature, no keys found")]
    UnknownKey,
    #[error("invalid signature")]
    Signature,
    #[error(
        "token audiences {} is invalid for the target audiences {}",
        QuotedList(token),
        QuotedList(target)
    )]
    Audience {
        token: Vec<String>,
        target: Vec<String>,
    },
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("service account token is issued in the future")]
    FromTheFuture,
    #[error("serviceaccounts {} not found", quote(.0))]
    NoAccount(String),
    #[error("service account UID ({now}) does not match claim ({claim})")]
    AccountUid { now: String, claim: String },
    #[error("service account {0} has been deleted")]
    AccountDeleted(String),
    #[error("{kind} UID ({now}) does not match service account {kind} ref claim ({claim})")]
    BoundUid {
        kind: &'static str,
        now: String,
        claim: String,
    },
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error(transparent)]
    Legacy(#[from] LegacyTokenError),
}

/// A valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    pub user: User,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
    /// How long ago the client should have renewed the token (`warnafter`).
    pub stale: Option<Duration>,
}

/// Claims whose signature is verified.
enum SignedClaims {
    Bound(Box<TokenClaims>),
    Legacy(LegacyTokenClaims),
}

/// Verifies the tokens of one issuer, and legacy tokens, which have a fixed issuer of their own.
pub struct TokenVerifier {
    issuer: String,
    audiences: Vec<String>,
    keys: Vec<VerifyingKey>,
    source: Arc<dyn ServiceAccountTokenGetter>,
    remembered: Mutex<HashMap<[u8; 32], Arc<SignedClaims>>>,
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenVerifier")
            .field("issuer", &self.issuer)
            .field("audiences", &self.audiences)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

impl TokenVerifier {
    /// Accepts tokens signed by one of the keys. A token without audiences is valid for `audiences`, those of this
    /// server.
    pub fn new(
        issuer: impl Into<String>,
        audiences: Vec<String>,
        keys: Vec<VerifyingKey>,
        source: Arc<dyn ServiceAccountTokenGetter>,
    ) -> Self {
        TokenVerifier {
            issuer: issuer.into(),
            audiences,
            keys,
            source,
            remembered: Mutex::default(),
        }
    }

    /// The audiences of this server.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(super) fn keys(&self) -> &[VerifyingKey] {
        &self.keys
    }

    /// Verifies the token for at least one of the audiences; an empty list means the audiences of this server.
    pub fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenVerifyError> {
        match &*self.signed_claims(token)? {
            SignedClaims::Bound(claims) => self.verify_bound(claims, audiences, now),
            SignedClaims::Legacy(claims) => {
                let audiences = self.common_audiences(&claims.aud, audiences)?;
                claims.check(token, &*self.source, now)?;
                Ok(VerifiedToken {
                    user: claims.user(),
                    audiences,
                    stale: None,
                })
            }
        }
    }

    fn verify_bound(
        &self,
        claims: &TokenClaims,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenVerifyError> {
        let audiences = self.common_audiences(&claims.aud, audiences)?;
        check_times(claims, now)?;
        self.check_objects(claims, now)?;
        let stale = claims.kubernetes.warnafter.map(NumericDate::time);
        Ok(VerifiedToken {
            user: claims.user(),
            audiences,
            stale: stale
                .map(|from| now.saturating_duration_since(from))
                .filter(|stale| !stale.is_zero()),
        })
    }

    fn signed_claims(&self, token: &str) -> Result<Arc<SignedClaims>, TokenVerifyError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenVerifyError::Foreign);
        }
        let key = remembered_by(token);
        if let Some(claims) = self.remembered().get(&key) {
            return Ok(Arc::clone(claims));
        }
        let claims = Arc::new(self.check_signature(token)?);
        let mut remembered = self.remembered();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(key, Arc::clone(&claims));
        Ok(claims)
    }

    /// Ignores lock poisoning: the map is consistent after every operation.
    fn remembered(&self) -> parking_lot::MutexGuard<'_, HashMap<[u8; 32], Arc<SignedClaims>>> {
        self.remembered.lock()
    }

    fn check_signature(&self, token: &str) -> Result<SignedClaims, TokenVerifyError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenVerifyError::Foreign)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenVerifyError::Foreign)?;
        let claims = self.read_claims(payload)?;
        let header: JwsHeader = decode(header)?;
        if !header.crit.is_empty() {
            return Err(TokenVerifyError::Signature);
        }
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| TokenVerifyError::Foreign)?;
        let mut keys = self
            .keys
            .iter()
            .filter(|key| header.kid.is_empty() || header.kid == key.id())
            .peekable();
        if keys.peek().is_none() {
            return Err(TokenVerifyError::UnknownKey);
        }
        // The key determines the algorithm; a token with another `alg` is rejected without verification.
        keys.any(|key| key.algorithm() == header.alg && key.verify(signed.as_bytes(), &signature))
            .then_some(claims)
            .ok_or(TokenVerifyError::Signature)
    }

    /// Decodes the claims; the issuer determines whether they are bound or legacy claims.
    fn read_claims(&self, payload: &str) -> Result<SignedClaims, TokenVerifyError> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct IssuerClaim {
            iss: String,
        }
        match decode::<IssuerClaim>(payload)?.iss {
            issuer if issuer == self.issuer => {
                decode(payload).map(|claims| SignedClaims::Bound(Box::new(claims)))
            }
            issuer if issuer == legacy_token::LEGACY_ISSUER => {
                decode(payload).map(SignedClaims::Legacy)
            }
            _ => Err(TokenVerifyError::Foreign),
        }
    }

    fn common_audiences(
        &self,
        claimed: &[String],
        wanted: &[String],
    ) -> Result<Vec<String>, TokenVerifyError> {
        let token = match claimed.is_empty() {
            true => &self.audiences,
            false => claimed,
        };
        let wanted = match wanted.is_empty() {
            true => &self.audiences,
            false => wanted,
        };
        let common: Vec<String> = token
            .iter()
            .filter(|&it| wanted.contains(it))
            .cloned()
            .collect();
        if common.is_empty() {
            return Err(TokenVerifyError::Audience {
                token: token.to_vec(),
                target: wanted.to_vec(),
            });
        }
        Ok(common)
    }

    fn check_objects(&self, claims: &TokenClaims, now: Timestamp) -> Result<(), TokenVerifyError> {
        let kubernetes = &claims.kubernetes;
        let namespace = kubernetes.namespace.as_str();
        let claimed = &kubernetes.serviceaccount;
        let account = self
            .source
            .look_up(TokenObjectKind::ServiceAccount, namespace, &claimed.name)
            .ok_or_else(|| TokenVerifyError::NoAccount(claimed.name.clone()))?;
        if account.uid != claimed.uid {
            return Err(TokenVerifyError::AccountUid {
                now: account.uid,
                claim: claimed.uid.clone(),
            });
        }
        if is_gone(&account, now) {
            let name = format!("{namespace}/{}", claimed.name);
            return Err(TokenVerifyError::AccountDeleted(name));
        }
        // The node of a pod-bound token is informational; the token is bound to the pod.
        let node = kubernetes
            .node
            .as_ref()
            .filter(|_| kubernetes.pod.is_none());
        let bound = [
            (
                TokenObjectKind::Secret,
                "secret",
                namespace,
                kubernetes.secret.as_ref(),
            ),
            (
                TokenObjectKind::Pod,
                "pod",
                namespace,
                kubernetes.pod.as_ref(),
            ),
            (TokenObjectKind::Node, "node", "", node),
        ];
        for (kind, word, namespace, claimed) in bound {
            if let Some(claimed) = claimed {
                let state = self.source.look_up(kind, namespace, &claimed.name);
                check_bound(word, state, claimed, now)?;
            }
        }
        Ok(())
    }
}

fn check_bound(
    kind: &'static str,
    state: Option<TokenObjectState>,
    claimed: &TokenObjectRef,
    now: Timestamp,
) -> Result<(), TokenVerifyError> {
    let state = state.ok_or(TokenVerifyError::Invalidated)?;
    if state.uid != claimed.uid {
        return Err(TokenVerifyError::BoundUid {
            kind,
            now: state.uid,
            claim: claimed.uid.clone(),
        });
    }
    match is_gone(&state, now) {
        true => Err(TokenVerifyError::Invalidated),
        false => Ok(()),
    }
}

/// Whether the object's deletion timestamp, which includes the grace period, has passed.
fn is_gone(state: &TokenObjectState, now: Timestamp) -> bool {
    state
        .deletion
        .is_some_and(|deletion| deletion < now.saturating_sub(CLOCK_SKEW_LEEWAY))
}

/// The JOSE header of a token.
#[derive(Deserialize, Default)]
#[serde(default)]
struct JwsHeader {
    alg: String,
    kid: String,
    /// Critical extensions; none is supported, so a non-empty list is rejected.
    crit: Vec<serde_json::Value>,
}

fn decode<T: serde::de::DeserializeOwned>(part: &str) -> Result<T, TokenVerifyError> {
    let bytes = URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenVerifyError::Foreign)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenVerifyError::Foreign)
}

fn remembered_by(token: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    key
}

fn check_times(claims: &TokenClaims, now: Timestamp) -> Result<(), TokenVerifyError> {
    let early = now.saturating_add(CLOCK_SKEW_LEEWAY);
    let late = now.saturating_sub(CLOCK_SKEW_LEEWAY);
    if claims.nbf.is_some_and(|from| early < from.time()) {
        return Err(TokenVerifyError::NotYet);
    }
    if claims.exp.is_some_and(|until| late > until.time()) {
        return Err(TokenVerifyError::Expired);
    }
    if claims.iat.is_some_and(|at| early < at.time()) {
        return Err(TokenVerifyError::FromTheFuture);
    }
    Ok(())
}
