//! Whether a token is ours, and still good.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rhumb_meta::Timestamp;
use rhumb_meta::gotext::quote;
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use super::claims::{Claims, ObjectRef, Seconds};
use super::key::VerifyingKey;
use super::legacy::{self, LegacyClaims, LegacyError, TokenSecret};
use crate::rbac::QuotedList;
use crate::user::User;

/// Clocks of a cluster differ by less than this.
const LEEWAY: Duration = Duration::from_secs(60);

/// No token of ours comes near this.
const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// Signatures that were found good are remembered, for checking one takes longer than all else of a request.
const REMEMBERED_MAX: usize = 8192;

/// Tells what there is now of the objects that tokens depend on.
pub trait AccountSource: Send + Sync + fmt::Debug {
    /// The namespace is empty for a node.
    fn look_up(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<ObjectState>;

    /// A secret that may hold a token. Who has no secrets accepts no tokens that lie in them.
    fn token_secret(&self, _namespace: &str, _name: &str) -> Option<TokenSecret> {
        None
    }

    /// Is told of the first use, on a day, of the token in a secret, and may be told again until the secret says so
    /// ([`LAST_USED_LABEL`](super::LAST_USED_LABEL)).
    fn note_use(&self, _namespace: &str, _secret: &str, _day: &str) {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    ServiceAccount,
    Pod,
    Secret,
    Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectState {
    pub uid: String,
    pub deletion: Option<Timestamp>,
}

/// Why a token is not accepted. None of the texts shows a part of the token that could be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// Not a token of this issuer: another authenticator may know it.
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
    Legacy(#[from] LegacyError),
}

/// A good token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub user: User,
    /// Which of the audiences that were asked for the token is for.
    pub audiences: Vec<String>,
    /// For how long the token has been past the time at which it should have been renewed.
    pub stale: Option<Duration>,
}

/// What a signature was found good for.
enum Signed {
    Bound(Box<Claims>),
    Legacy(LegacyClaims),
}

/// Checks tokens of one issuer, and those in secrets, which have an issuer of their own.
pub struct Verifier {
    issuer: String,
    audiences: Vec<String>,
    keys: Vec<VerifyingKey>,
    source: Arc<dyn AccountSource>,
    remembered: Mutex<HashMap<[u8; 32], Arc<Signed>>>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("issuer", &self.issuer)
            .field("audiences", &self.audiences)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

impl Verifier {
    /// Checks tokens that one of the keys signed. A token that names no audience is for `audiences`, those of
    /// this server.
    pub fn new(
        issuer: impl Into<String>,
        audiences: Vec<String>,
        keys: Vec<VerifyingKey>,
        source: Arc<dyn AccountSource>,
    ) -> Self {
        Verifier {
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

    /// Whether the token is good for one of the audiences; an empty list stands for those of this server.
    pub fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Verified, VerifyError> {
        match &*self.signed_claims(token)? {
            Signed::Bound(claims) => self.verify_bound(claims, audiences, now),
            Signed::Legacy(claims) => {
                let audiences = self.common_audiences(&claims.aud, audiences)?;
                claims.check(token, &*self.source, now)?;
                Ok(Verified {
                    user: claims.user(),
                    audiences,
                    stale: None,
                })
            }
        }
    }

    fn verify_bound(
        &self,
        claims: &Claims,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Verified, VerifyError> {
        let audiences = self.common_audiences(&claims.aud, audiences)?;
        check_times(claims, now)?;
        self.check_objects(claims, now)?;
        let stale = claims.kubernetes.warnafter.map(Seconds::time);
        Ok(Verified {
            user: claims.user(),
            audiences,
            stale: stale
                .map(|from| now.saturating_duration_since(from))
                .filter(|stale| !stale.is_zero()),
        })
    }

    fn signed_claims(&self, token: &str) -> Result<Arc<Signed>, VerifyError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(VerifyError::Foreign);
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

    /// A thread that panicked while it held the lock left nothing half done.
    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Arc<Signed>>> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn check_signature(&self, token: &str) -> Result<Signed, VerifyError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(VerifyError::Foreign)?;
        let (header, payload) = signed.split_once('.').ok_or(VerifyError::Foreign)?;
        let claims = self.read_claims(payload)?;
        let header: Header = decode(header)?;
        if !header.crit.is_empty() {
            return Err(VerifyError::Signature);
        }
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| VerifyError::Foreign)?;
        let mut keys = self
            .keys
            .iter()
            .filter(|key| header.kid.is_empty() || header.kid == key.id())
            .peekable();
        if keys.peek().is_none() {
            return Err(VerifyError::UnknownKey);
        }
        // The algorithm is the key's; a token that claims another one is not even tried.
        keys.any(|key| key.algorithm() == header.alg && key.verify(signed.as_bytes(), &signature))
            .then_some(claims)
            .ok_or(VerifyError::Signature)
    }

    /// The issuer says what else a token says.
    fn read_claims(&self, payload: &str) -> Result<Signed, VerifyError> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Issued {
            iss: String,
        }
        match decode::<Issued>(payload)?.iss {
            issuer if issuer == self.issuer => {
                decode(payload).map(|claims| Signed::Bound(Box::new(claims)))
            }
            issuer if issuer == legacy::ISSUER => decode(payload).map(Signed::Legacy),
            _ => Err(VerifyError::Foreign),
        }
    }

    fn common_audiences(
        &self,
        claimed: &[String],
        wanted: &[String],
    ) -> Result<Vec<String>, VerifyError> {
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
            return Err(VerifyError::Audience {
                token: token.to_vec(),
                target: wanted.to_vec(),
            });
        }
        Ok(common)
    }

    fn check_objects(&self, claims: &Claims, now: Timestamp) -> Result<(), VerifyError> {
        let kubernetes = &claims.kubernetes;
        let namespace = kubernetes.namespace.as_str();
        let claimed = &kubernetes.serviceaccount;
        let account = self
            .source
            .look_up(ObjectKind::ServiceAccount, namespace, &claimed.name)
            .ok_or_else(|| VerifyError::NoAccount(claimed.name.clone()))?;
        if account.uid != claimed.uid {
            return Err(VerifyError::AccountUid {
                now: account.uid,
                claim: claimed.uid.clone(),
            });
        }
        if is_gone(&account, now) {
            let name = format!("{namespace}/{}", claimed.name);
            return Err(VerifyError::AccountDeleted(name));
        }
        // The node of a pod only tells where the pod runs; the token is bound to the pod.
        let node = kubernetes
            .node
            .as_ref()
            .filter(|_| kubernetes.pod.is_none());
        let bound = [
            (
                ObjectKind::Secret,
                "secret",
                namespace,
                kubernetes.secret.as_ref(),
            ),
            (ObjectKind::Pod, "pod", namespace, kubernetes.pod.as_ref()),
            (ObjectKind::Node, "node", "", node),
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
    state: Option<ObjectState>,
    claimed: &ObjectRef,
    now: Timestamp,
) -> Result<(), VerifyError> {
    let state = state.ok_or(VerifyError::Invalidated)?;
    if state.uid != claimed.uid {
        return Err(VerifyError::BoundUid {
            kind,
            now: state.uid,
            claim: claimed.uid.clone(),
        });
    }
    match is_gone(&state, now) {
        true => Err(VerifyError::Invalidated),
        false => Ok(()),
    }
}

/// An object on its way out is as good as gone once its time is over.
fn is_gone(state: &ObjectState, now: Timestamp) -> bool {
    state
        .deletion
        .is_some_and(|deletion| deletion < now.saturating_sub(LEEWAY))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Header {
    alg: String,
    kid: String,
    /// Extensions that must be understood; we know none.
    crit: Vec<serde_json::Value>,
}

fn decode<T: serde::de::DeserializeOwned>(part: &str) -> Result<T, VerifyError> {
    let bytes = URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| VerifyError::Foreign)?;
    serde_json::from_slice(&bytes).map_err(|_| VerifyError::Foreign)
}

fn remembered_by(token: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    key
}

fn check_times(claims: &Claims, now: Timestamp) -> Result<(), VerifyError> {
    let early = now.saturating_add(LEEWAY);
    let late = now.saturating_sub(LEEWAY);
    if claims.nbf.is_some_and(|from| early < from.time()) {
        return Err(VerifyError::NotYet);
    }
    if claims.exp.is_some_and(|until| late > until.time()) {
        return Err(VerifyError::Expired);
    }
    if claims.iat.is_some_and(|at| early < at.time()) {
        return Err(VerifyError::FromTheFuture);
    }
    Ok(())
}
