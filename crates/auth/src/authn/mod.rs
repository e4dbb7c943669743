//! Authentication of requests by client certificate, static token file or service account token.
//!
//! Entry point: [`Authenticator`]. Upstream: `authenticator.Request` and the union of its implementations.

mod certificate;
mod token_file;

use std::fmt;
use std::sync::Arc;

use rhumb_meta::Timestamp;

use crate::token::{TokenVerifier, TokenVerifyError, VerifiedToken};
use crate::user::User;

pub use certificate::{CertificateError, CertificateIdentity, organizations_of_request};
pub use token_file::{TokenFile, TokenFileError};

/// The credentials of a request. `Debug` does not show the token.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The identity in the client certificate, whose chain TLS has already verified against the client CA.
    pub certificate: Option<&'a Result<CertificateIdentity, CertificateError>>,
    /// The result of [`bearer_token`].
    pub bearer_token: Option<&'a str>,
}

impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("certificate", &self.certificate.is_some())
            .field("bearer_token", &self.bearer_token.map(|_| "hidden"))
            .finish()
    }
}

/// Extracts the token from the value of an `Authorization: Bearer` header.
pub fn bearer_token(authorization: &str) -> Option<&str> {
    let mut parts = authorization.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The result of authenticating a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthenticationOutcome {
    User(Arc<User>),
    /// No credentials. The server decides whether to continue as [`User::anonymous`].
    Anonymous,
    /// Invalid credentials: answered with 401 even if anonymous requests are enabled. The text is for the log.
    Invalid(String),
}

/// Tries all configured authentication methods.
#[derive(Debug, Default)]
pub struct Authenticator {
    token_file: Option<TokenFile>,
    service_accounts: Option<Arc<TokenVerifier>>,
}

impl Authenticator {
    /// Accepts client certificates only.
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with_token_file(mut self, tokens: TokenFile) -> Self {
        self.token_file = Some(tokens);
        self
    }

    #[must_use]
    pub fn with_service_accounts(mut self, verifier: Arc<TokenVerifier>) -> Self {
        self.service_accounts = Some(verifier);
        self
    }

    /// The verifier of service account tokens.
    pub fn service_accounts(&self) -> Option<&TokenVerifier> {
        self.service_accounts.as_deref()
    }

    /// Authenticates a request. A certificate takes precedence over a token.
    pub fn authenticate(
        &self,
        credentials: &Credentials<'_>,
        now: Timestamp,
    ) -> AuthenticationOutcome {
        let mut problem = None;
        if let Some(certificate) = credentials.certificate {
            match certificate.as_ref().map(|it| it.at(now)) {
                Ok(Ok(Some(user))) => return AuthenticationOutcome::User(user.clone()),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => problem = Some(error.to_string()),
                Err(error) => problem = Some(error.to_string()),
            }
        }
        if let Some(token) = credentials.bearer_token {
            if let Some(user) = self.in_token_file(token) {
                return AuthenticationOutcome::User(user.clone());
            }
            match self.service_account(token, &[], now) {
                Ok(verified) => return AuthenticationOutcome::User(Arc::new(verified.user)),
                Err(error) => problem = Some(error.to_string()),
            }
        }
        problem.map_or(
            AuthenticationOutcome::Anonymous,
            AuthenticationOutcome::Invalid,
        )
    }

    /// Authenticates a token for the given audiences, as a TokenReview does.
    ///
    /// An empty list means the audiences of this server. Tokens of the token file are valid for those only.
    pub fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenVerifyError> {
        if let Some(user) = self.in_token_file(token) {
            return Ok(VerifiedToken {
                user: User::clone(user),
                audiences: self.own_audiences(audiences)?,
                stale: None,
            });
        }
        self.service_account(token, audiences, now)
    }

    fn service_account(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenVerifyError> {
        let verifier = self
            .service_accounts
            .as_ref()
            .ok_or(TokenVerifyError::Foreign)?;
        let mut verified = verifier.verify(token, audiences, now)?;
        verified.user = verified.user.authenticated();
        Ok(verified)
    }

    fn in_token_file(&self, token: &str) -> Option<&Arc<User>> {
        self.token_file.as_ref()?.user(token)
    }

    /// The requested audiences that are audiences of this server. A server without audiences accepts all of them.
    fn own_audiences(&self, wanted: &[String]) -> Result<Vec<String>, TokenVerifyError> {
        let own = self.service_accounts.as_ref().map(|it| it.audiences());
        let Some(own) = own.filter(|own| !own.is_empty()) else {
            return Ok(wanted.to_vec());
        };
        if wanted.is_empty() {
            return Ok(own.to_vec());
        }
        let common: Vec<String> = own
            .iter()
            .filter(|&it| wanted.contains(it))
            .cloned()
            .collect();
        match common.is_empty() {
            true => Err(TokenVerifyError::Foreign),
            false => Ok(common),
        }
    }
}

#[cfg(test)]
mod tests;
