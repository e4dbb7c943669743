use rcgen::{CertificateParams, DnType, KeyPair};
use rhumb_meta::Timestamp;
use rustls_pki_types::CertificateDer;

use super::*;
use crate::token::{ServiceAccountTokenGetter, TokenObjectKind, TokenObjectState};
use crate::user::extra_key;

fn certificate(attributes: &[(DnType, &str)]) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, value) in attributes {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params.not_before = rcgen::date_time_ymd(2025, 1, 1);
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let key = KeyPair::generate().expect("generate a key");
    params
        .self_signed(&key)
        .expect("sign the certificate")
        .der()
        .clone()
}

/// In the middle of 2027.
const NOW: Timestamp = Timestamp::from_unix(1_814_000_000, 0);

fn uid_type() -> DnType {
    DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2])
}

fn authenticator() -> Authenticator {
    let tokens = TokenFile::parse("secret,ann,7,\"dev,ops\"\n").expect("a valid token file");
    Authenticator::new().with_token_file(tokens)
}

fn authenticate(
    certificates: &[CertificateDer<'_>],
    token: Option<&str>,
    now: Timestamp,
) -> AuthenticationOutcome {
    let certificate = certificates.first().map(|it| CertificateIdentity::read(it));
    let credentials = Credentials {
        certificate: certificate.as_ref(),
        bearer_token: token,
    };
    authenticator().authenticate(&credentials, now)
}

#[test]
fn certificate_subject_becomes_the_user() {
    let certificate = certificate(&[
        (DnType::CommonName, "kubernetes-admin"),
        (DnType::OrganizationName, "system:masters"),
        (uid_type(), "u1"),
    ]);
    let AuthenticationOutcome::User(user) = authenticate(&[certificate], None, NOW) else {
        panic!("expected a user");
    };
    let mut user = User::clone(&user);
    let id = user
        .extra
        .remove(extra_key::CREDENTIAL_ID)
        .expect("a credential ID")
        .remove(0);
    assert_eq!(id.len(), "X509SHA256=".len() + 64, "{id}");
    assert_eq!(
        user,
        User {
            uid: "u1".to_owned(),
            ..User::new(
                "kubernetes-admin",
                &["system:masters", "system:authenticated"]
            )
        }
    );
}

#[test]
fn invalid_credentials_are_rejected() {
    let good = certificate(&[(DnType::CommonName, "bob")]);
    let nameless = certificate(&[(DnType::OrganizationName, "dev")]);
    let no_uid = certificate(&[(DnType::CommonName, "bob"), (uid_type(), "")]);
    let noise = CertificateDer::from(vec![1, 2, 3]);
    let later = Timestamp::from_unix(1_900_000_000, 0);
    let invalid = |text: &str| AuthenticationOutcome::Invalid(text.to_owned());
    let name = |outcome: AuthenticationOutcome| match outcome {
        AuthenticationOutcome::User(user) => Ok(user.name.clone()),
        other => Err(other),
    };
    let chain = std::slice::from_ref;
    let cases = [
        (
            authenticate(&[], None, NOW),
            Err(AuthenticationOutcome::Anonymous),
        ),
        (authenticate(&[], Some("secret"), NOW), Ok("ann")),
        (
            authenticate(&[], Some("wrong"), NOW),
            Err(invalid("invalid bearer token")),
        ),
        (authenticate(chain(&good), None, NOW), Ok("bob")),
        (authenticate(chain(&good), Some("secret"), NOW), Ok("bob")),
        (
            authenticate(chain(&nameless), Some("secret"), NOW),
            Ok("ann"),
        ),
        (
            authenticate(chain(&nameless), None, NOW),
            Err(AuthenticationOutcome::Anonymous),
        ),
        (
            authenticate(chain(&good), None, later),
            Err(invalid(
                "the client certificate has expired or is not valid yet",
            )),
        ),
        (authenticate(chain(&good), Some("secret"), later), Ok("ann")),
        (
            authenticate(chain(&no_uid), None, NOW),
            Err(invalid("UID cannot be an empty string")),
        ),
        (
            authenticate(chain(&noise), None, NOW),
            Err(invalid("failed to parse the client certificate")),
        ),
    ];
    for (at, (got, want)) in cases.into_iter().enumerate() {
        assert_eq!(name(got), want.map(str::to_owned), "case {at}");
    }
}

#[test]
fn users_of_the_token_file_are_authenticated() {
    let AuthenticationOutcome::User(user) = authenticate(&[], Some("secret"), NOW) else {
        panic!("expected a user");
    };
    let want = User::new("ann", &["dev", "ops", "system:authenticated"]);
    assert_eq!(
        *user,
        User {
            uid: "7".to_owned(),
            ..want
        }
    );
}

#[derive(Debug)]
struct EmptyTokenGetter;

impl ServiceAccountTokenGetter for EmptyTokenGetter {
    fn look_up(&self, _: TokenObjectKind, _: &str, _: &str) -> Option<TokenObjectState> {
        None
    }
}

#[test]
fn token_file_tokens_have_the_server_audiences() {
    let own = vec!["api".to_owned(), "also".to_owned()];
    let verifier = TokenVerifier::new("https://x", own, Vec::new(), Arc::new(EmptyTokenGetter));
    let authenticator = authenticator().with_service_accounts(Arc::new(verifier));
    let audiences = |wanted: &[&str]| {
        let wanted: Vec<String> = wanted.iter().map(|&it| it.to_owned()).collect();
        let verified = authenticator.authenticate_token("secret", &wanted, NOW);
        verified.map(|it| it.audiences.join(" "))
    };
    assert_eq!(audiences(&[]).as_deref(), Ok("api also"));
    assert_eq!(audiences(&["vault", "api"]).as_deref(), Ok("api"));
    assert_eq!(audiences(&["vault"]), Err(TokenVerifyError::Foreign));
}

#[test]
fn bearer_token_is_parsed_from_the_header() {
    let cases = [
        ("Bearer abc", Some("abc")),
        ("bearer abc", Some("abc")),
        (" BEARER abc ", Some("abc")),
        ("Bearer  abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("Bearer abc def", Some("abc")),
        ("", None),
    ];
    for (header, want) in cases {
        assert_eq!(bearer_token(header), want, "{header:?}");
    }
}

#[test]
fn debug_output_hides_secrets() {
    let credentials = Credentials {
        certificate: None,
        bearer_token: Some("secret"),
    };
    let shown = format!("{credentials:?} {:?}", authenticator());
    assert!(!shown.contains("secret"), "{shown}");
}
