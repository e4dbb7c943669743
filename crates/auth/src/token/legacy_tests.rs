use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use super::issuer::signed;
use super::*;

/// Late on 2027-01-15.
const NOW: Timestamp = Timestamp::from_unix(1_800_000_000, 0);

/// A token getter with one service account and one secret, which records the uses of the token.
#[derive(Debug, Clone)]
struct FakeLegacyTokenGetter {
    account: Option<TokenObjectState>,
    secret: Option<LegacyTokenSecret>,
    uses: Arc<Mutex<Vec<String>>>,
}

impl ServiceAccountTokenGetter for FakeLegacyTokenGetter {
    fn look_up(
        &self,
        kind: TokenObjectKind,
        namespace: &str,
        name: &str,
    ) -> Option<TokenObjectState> {
        let is_it = (kind, namespace, name) == (TokenObjectKind::ServiceAccount, "default", "bot");
        self.account.clone().filter(|_| is_it)
    }

    fn token_secret(&self, namespace: &str, name: &str) -> Option<LegacyTokenSecret> {
        let is_it = (namespace, name) == ("default", "bot-token");
        self.secret.clone().filter(|_| is_it)
    }

    fn note_use(&self, namespace: &str, secret: &str, day: &str) {
        let note = format!("{namespace}/{secret} {day}");
        self.uses.lock().expect("not poisoned").push(note);
    }
}

fn key() -> SigningKey {
    let pair = rcgen::KeyPair::generate().expect("generate a key");
    SigningKey::from_pkcs8(&pair.serialize_der()).expect("P-256")
}

fn token(key: &SigningKey) -> String {
    let account = ServiceAccountIdentity {
        namespace: "default",
        name: "bot",
        uid: "u1",
    };
    legacy_token(key, account, "bot-token").expect("a token")
}

fn cluster(token: &str) -> FakeLegacyTokenGetter {
    FakeLegacyTokenGetter {
        account: Some(TokenObjectState {
            uid: "u1".to_owned(),
            deletion: None,
        }),
        secret: Some(LegacyTokenSecret {
            token: token.as_bytes().to_vec(),
            ..LegacyTokenSecret::default()
        }),
        uses: Arc::default(),
    }
}

fn verify(
    key: &SigningKey,
    cluster: &FakeLegacyTokenGetter,
    token: &str,
    audiences: &[String],
) -> Result<VerifiedToken, String> {
    let own = vec!["api".to_owned()];
    let keys = vec![key.public().clone()];
    let verifier = TokenVerifier::new("https://x", own, keys, Arc::new(cluster.clone()));
    let first = verifier.verify(token, audiences, NOW);
    let again = verifier.verify(token, audiences, NOW);
    assert_eq!(first, again, "a cached signature gives the same result");
    first.map_err(|error| error.to_string())
}

#[test]
fn legacy_token_claims_match_upstream() {
    let token = token(&key());
    let payload = token.split('.').nth(1).expect("a payload");
    let payload = URL_SAFE_NO_PAD.decode(payload).expect("base64");
    assert_eq!(
        String::from_utf8(payload).expect("UTF-8"),
        concat!(
            r#"{"iss":"kubernetes/serviceaccount","#,
            r#""kubernetes.io/serviceaccount/namespace":"default","#,
            r#""kubernetes.io/serviceaccount/secret.name":"bot-token","#,
            r#""kubernetes.io/serviceaccount/service-account.name":"bot","#,
            r#""kubernetes.io/serviceaccount/service-account.uid":"u1","#,
            r#""sub":"system:serviceaccount:default:bot"}"#
        )
    );
}

#[test]
fn legacy_token_authenticates_its_service_account() {
    let key = key();
    let token = token(&key);
    let cluster = cluster(&token);
    let verified = verify(&key, &cluster, &token, &[]).expect("a valid token");
    assert_eq!(
        serde_json::to_value(&verified.user).expect("serializes"),
        json!({
            "username": "system:serviceaccount:default:bot", "uid": "u1",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default"],
        })
    );
    assert_eq!(verified.audiences, ["api"]);
    assert_eq!(
        verify(&key, &cluster, &token, &["vault".to_owned()]),
        Err(r#"token audiences ["api"] is invalid for the target audiences ["vault"]"#.to_owned())
    );
    let shown = format!("{:?}", cluster.secret);
    assert!(
        !shown.contains(&format!("{:?}", token.as_bytes())),
        "{shown}"
    );
}

#[test]
fn legacy_token_is_invalid_after_its_secret_or_account_is_deleted() {
    const MARKED: &str = "the token in secret default/bot-token for service account default/bot has been marked \
        invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
        'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token";
    let good = |token: &str| cluster(token);
    let secret = |token: &str, change: fn(&mut LegacyTokenSecret)| {
        let mut cluster = good(token);
        cluster.secret.iter_mut().for_each(change);
        cluster
    };
    let account = |token: &str, change: fn(&mut TokenObjectState)| {
        let mut cluster = good(token);
        cluster.account.iter_mut().for_each(change);
        cluster
    };
    let key = key();
    let token = token(&key);
    let table = [
        (
            FakeLegacyTokenGetter {
                secret: None,
                ..good(&token)
            },
            "Token has been invalidated",
        ),
        (
            secret(&token, |it| it.is_deleting = true),
            "Token has been invalidated",
        ),
        (
            secret(&token, |it| it.token.clear()),
            "Token does not match server's copy",
        ),
        (
            FakeLegacyTokenGetter {
                account: None,
                ..good(&token)
            },
            "serviceaccounts \"bot\" not found",
        ),
        (
            account(&token, |it| it.deletion = Some(NOW)),
            "ServiceAccount default/bot has been deleted",
        ),
        (
            account(&token, |it| it.uid = "u9".to_owned()),
            "ServiceAccount UID (u9) does not match claim (u1)",
        ),
        (secret(&token, |it| it.is_marked_invalid = true), MARKED),
    ];
    for (cluster, want) in table {
        let got = verify(&key, &cluster, &token, &[]);
        assert_eq!(got, Err(want.to_owned()));
    }
}

#[test]
fn legacy_token_requires_all_claims_and_the_signature() {
    let claim = |name: &str| format!("kubernetes.io/serviceaccount/{name}");
    let good = json!({
        "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:bot",
        claim("namespace"): "default", claim("secret.name"): "bot-token",
        claim("service-account.name"): "bot", claim("service-account.uid"): "u1",
    });
    let with = |name: &str, value: &str| -> Value {
        let mut claims = good.clone();
        claims[name] = json!(value);
        claims
    };
    let table = [
        (good.clone(), None),
        (with("iss", "elsewhere"), Some("invalid bearer token")),
        (with("sub", ""), Some("sub claim is missing")),
        (with("sub", "ann"), Some("sub claim is invalid")),
        (
            with("sub", "system:serviceaccount:kube-system:bot"),
            Some("sub claim is invalid"),
        ),
        (
            with(&claim("namespace"), ""),
            Some("namespace claim is missing"),
        ),
        (
            with(&claim("secret.name"), ""),
            Some("secretName claim is missing"),
        ),
        (
            with(&claim("service-account.name"), ""),
            Some("serviceAccountName claim is missing"),
        ),
        (
            with(&claim("service-account.uid"), ""),
            Some("serviceAccountUID claim is missing"),
        ),
    ];
    let key = key();
    for (claims, want) in table {
        let token = signed(&key, &claims).expect("a token");
        let got = verify(&key, &cluster(&token), &token, &[]);
        assert_eq!(got.err().as_deref(), want, "{claims}");
    }
    let foreign = token(&self::key());
    assert_eq!(
        verify(&key, &cluster(&foreign), &foreign, &[]),
        Err("invalid signature, no keys found".to_owned())
    );
}

#[test]
fn first_use_per_day_is_recorded() {
    let key = key();
    let token = token(&key);
    let note = "default/bot-token 2027-01-15";
    for (last_used, marked, want) in [
        ("", false, Some(note)),
        ("2027-01-14", false, Some(note)),
        ("2027-01-14", true, Some(note)),
        ("2027-01-15", false, None),
        ("2027-01-16", false, None),
    ] {
        let mut cluster = cluster(&token);
        cluster.secret = cluster.secret.map(|secret| LegacyTokenSecret {
            last_used: last_used.to_owned(),
            is_marked_invalid: marked,
            ..secret
        });
        let good = verify(&key, &cluster, &token, &[]).is_ok();
        assert_eq!(good, !marked);
        let uses = cluster.uses.lock().expect("not poisoned");
        assert_eq!(uses.first().map(String::as_str), want, "{last_used}");
    }
}
