//! Who is asking.

mod certificate;
mod token_file;

use std::fmt;
use std::sync::Arc;

use rhumb_meta::Timestamp;

use crate::token::{Verified, Verifier, VerifyError};
use crate::user::User;

pub use certificate::{CertificateError, CertifiedUser, organizations_of_request};
pub use token_file::{TokenFile, TokenFileError};

/// What a request brought to show who asks. Its Debug form does not show the token.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// What the client's certificate says, which TLS has already checked against the client CA.
    pub certificate: Option<&'a Result<CertifiedUser, CertificateError>>,
    /// What [`bearer_token`] found.
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

/// The token in the value of an `Authorization` header, if it is of the bearer kind.
pub fn bearer_token(authorization: &str) -> Option<&str> {
    let mut parts = authorization.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    User(Arc<User>),
    /// No credentials. The server decides whether [`User::anonymous`] may go on.
    Anonymous,
    /// Credentials that are no good: a 401, also where anonymous requests may go on. The text is for the log.
    Invalid(String),
}

/// All ways to show who asks.
#[derive(Debug, Default)]
pub struct Authenticator {
    token_file: Option<TokenFile>,
    service_accounts: Option<Arc<Verifier>>,
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
    pub fn with_service_accounts(mut self, verifier: Arc<Verifier>) -> Self {
        self.service_accounts = Some(verifier);
        self
    }

    /// Who checks the tokens of service accounts.
    pub fn service_accounts(&self) -> Option<&Verifier> {
        self.service_accounts.as_deref()
    }

    /// Who asks. A certificate comes before a token.
    pub fn authenticate(&self, credentials: &Credentials<'_>, now: Timestamp) -> Outcome {
        let mut problem = None;
        if let Some(certificate) = credentials.certificate {
            match certificate.as_ref().map(|it| it.at(now)) {
                Ok(Ok(Some(user))) => return Outcome::User(user.clone()),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => problem = Some(error.to_string()),
                Err(error) => problem = Some(error.to_string()),
            }
        }
        if let Some(token) = credentials.bearer_token {
            if let Some(user) = self.in_token_file(token) {
                return Outcome::User(user.clone());
            }
            match self.service_account(token, &[], now) {
                Ok(verified) => return Outcome::User(Arc::new(verified.user)),
                Err(error) => problem = Some(error.to_string()),
            }
        }
        problem.map_or(Outcome::Anonymous, Outcome::Invalid)
    }

    /// Who has this token, and for which of the audiences it is: what a TokenReview asks.
    ///
    /// No audiences stand for those of this server, and only for those are the tokens of the token file.
    pub fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Verified, VerifyError> {
        if let Some(user) = self.in_token_file(token) {
            return Ok(Verified {
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
    ) -> Result<Verified, VerifyError> {
        let verifier = self.service_accounts.as_ref().ok_or(VerifyError::Foreign)?;
        let mut verified = verifier.verify(token, audiences, now)?;
        verified.user = verified.user.authenticated();
        Ok(verified)
    }

    fn in_token_file(&self, token: &str) -> Option<&Arc<User>> {
        self.token_file.as_ref()?.user(token)
    }

    /// Which of the audiences are those of this server. A server without any makes no difference.
    fn own_audiences(&self, wanted: &[String]) -> Result<Vec<String>, VerifyError> {
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
            true => Err(VerifyError::Foreign),
            false => Ok(common),
        }
    }
}

#[cfg(test)]
mod tests;
