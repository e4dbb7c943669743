//! Issuing of service account tokens (upstream: `TokenGenerator` and `serviceaccount.Claims`).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rhumb_meta::Timestamp;
use rhumb_meta::field::{Error, ErrorList, Path};
use serde::Serialize;
use serde_json::json;

use super::claims::{BoundObject, KubernetesClaims, NumericDate, TokenClaims, TokenObjectRef};
use super::key::{SigningKey, TokenKeyError};
use crate::user::ServiceAccountName;

const EXPIRATION_MIN_SECONDS: i64 = 10 * 60;
const EXPIRATION_MAX_SECONDS: i64 = 1 << 32;

/// The expiration that the kubelet requests for pods. Old clients read their token only once, so such a token is valid
/// for [`EXTENDED_LIFETIME_SECONDS`], and its `warnafter` claim says from when on it is stale.
const KUBELET_DEFAULT_SECONDS: i64 = 60 * 60 + 7;
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Validates `spec.expirationSeconds` of a TokenRequest.
pub fn validate_expiration_seconds(seconds: i64) -> ErrorList {
    let mut errors = ErrorList::default();
    let spec = Path::new("spec");
    let path = spec.child("expirationSeconds");
    if seconds < EXPIRATION_MIN_SECONDS {
        let detail = "may not specify a duration less than 10 minutes";
        errors.push(Error::invalid(&path, seconds, detail));
    }
    if seconds > EXPIRATION_MAX_SECONDS {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.push(Error::invalid(&path, seconds, detail));
    }
    errors
}

/// Signs tokens for one issuer URL.
#[derive(Debug)]
pub struct TokenIssuer {
    url: String,
    audiences: Vec<String>,
    key: SigningKey,
}

/// The parameters of a new token. The caller has validated them and looked up the UIDs.
#[derive(Debug, Clone)]
pub struct TokenIssueParams<'a> {
    pub namespace: &'a str,
    pub account: TokenObjectRef,
    /// If empty, the audiences of this server.
    pub audiences: Vec<String>,
    pub expiration_seconds: i64,
    pub bound: Option<BoundObject>,
}

/// A new token. `Debug` does not show it.
pub struct IssuedToken {
    pub token: String,
    /// The audiences the token is for.
    pub audiences: Vec<String>,
    /// The time by which the client must renew the token: `status.expirationTimestamp` of the TokenRequest.
    pub expiration: Timestamp,
    /// For the audit log.
    pub credential_id: String,
}

impl std::fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedToken")
            .field("credential_id", &self.credential_id)
            .field("expiration", &self.expiration)
            .finish_non_exhaustive()
    }
}

/// Why a token could not be issued.
#[derive(Debug, thiserror::Error)]
pub enum TokenIssueError {
    #[error(transparent)]
    Key(#[from] TokenKeyError),
    #[error("failed to serialize the claims: {0}")]
    Claims(#[from] serde_json::Error),
}

impl TokenIssuer {
    /// `url` is the `iss` claim; `audiences` are the audiences of this server.
    pub fn new(url: impl Into<String>, audiences: Vec<String>, key: SigningKey) -> Self {
        TokenIssuer {
            url: url.into(),
            audiences,
            key,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// Signs a new token for the service account.
    pub fn issue(
        &self,
        request: TokenIssueParams<'_>,
        now: Timestamp,
    ) -> Result<IssuedToken, TokenIssueError> {
        let audiences = match request.audiences.is_empty() {
            true => self.audiences.clone(),
            false => request.audiences.clone(),
        };
        let seconds = request.expiration_seconds;
        let is_extended = seconds == KUBELET_DEFAULT_SECONDS
            && matches!(request.bound, Some(BoundObject::Pod { .. }))
            && audiences.iter().all(|it| self.audiences.contains(it));
        let lifetime = if is_extended {
            EXTENDED_SECONDS
        } else {
            seconds
        };

        let jti = uuid::Uuid::new_v4().to_string();
        let at = |seconds: i64| NumericDate(now.unix_seconds().saturating_add(seconds));
        let account = ServiceAccountName {
            namespace: request.namespace,
            name: &request.account.name,
        };
        let mut claims = TokenClaims {
            aud: audiences.clone(),
            exp: Some(at(lifetime)),
            iat: Some(at(0)),
            iss: self.url.clone(),
            jti: jti.clone(),
            nbf: Some(at(0)),
            sub: account.username(),
            kubernetes: KubernetesClaims {
                namespace: request.namespace.to_owned(),
                serviceaccount: request.account,
                warnafter: is_extended.then(|| at(seconds)),
                ..KubernetesClaims::default()
            },
        };
        claims.kubernetes.bind(request.bound);
        Ok(IssuedToken {
            token: signed(&self.key, &claims)?,
            audiences,
            expiration: now.saturating_add(Duration::from_secs(seconds.unsigned_abs())),
            credential_id: format!("JTI={jti}"),
        })
    }
}

/// Encodes and signs the claims as a JWT (JWS compact serialization).
pub(super) fn signed(key: &SigningKey, claims: &impl Serialize) -> Result<String, TokenIssueError> {
    let public = key.public();
    let header = json!({"alg": public.algorithm(), "kid": public.id()});
    let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(claims)?, &mut token);
    let signature = key.sign(token.as_bytes())?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token)
}

impl KubernetesClaims {
    fn bind(&mut self, bound: Option<BoundObject>) {
        match bound {
            None => {}
            Some(BoundObject::Pod { pod, node }) => {
                self.pod = Some(pod);
                self.node = node;
            }
            Some(BoundObject::Secret(secret)) => self.secret = Some(secret),
            Some(BoundObject::Node(node)) => self.node = Some(node),
        }
    }
}
