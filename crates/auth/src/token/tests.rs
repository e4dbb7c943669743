use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use super::*;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const NOW: Timestamp = Timestamp::from_unix(1_800_000_000, 0);

/// An in-memory token getter whose objects tests add and remove.
#[derive(Debug, Default)]
struct FakeTokenGetter(Mutex<BTreeMap<(TokenObjectKind, String, String), TokenObjectState>>);

impl FakeTokenGetter {
    fn set(
        &self,
        kind: TokenObjectKind,
        namespace: &str,
        name: &str,
        state: Option<(&str, Option<Timestamp>)>,
    ) {
        let key = (kind, namespace.to_owned(), name.to_owned());
        let mut objects = self.0.lock().expect("not poisoned");
        match state {
            Some((uid, deletion)) => objects.insert(
                key,
                TokenObjectState {
                    uid: uid.to_owned(),
                    deletion,
                },
            ),
            None => objects.remove(&key),
        };
    }
}

impl ServiceAccountTokenGetter for FakeTokenGetter {
    fn look_up(
        &self,
        kind: TokenObjectKind,
        namespace: &str,
        name: &str,
    ) -> Option<TokenObjectState> {
        let key = (kind, namespace.to_owned(), name.to_owned());
        self.0.lock().expect("not poisoned").get(&key).cloned()
    }
}

fn ecdsa_key() -> SigningKey {
    let pair = rcgen::KeyPair::generate().expect("generate a key");
    SigningKey::from_pkcs8(&pair.serialize_der()).expect("P-256")
}

struct TokenFixture {
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    objects: Arc<FakeTokenGetter>,
}

fn fixture_with(key: SigningKey) -> TokenFixture {
    let audiences = vec!["api".to_owned()];
    let objects = Arc::new(FakeTokenGetter::default());
    objects.set(
        TokenObjectKind::ServiceAccount,
        "default",
        "bot",
        Some(("u1", None)),
    );
    objects.set(TokenObjectKind::Pod, "default", "web", Some(("u2", None)));
    objects.set(TokenObjectKind::Node, "", "n1", Some(("u3", None)));
    objects.set(TokenObjectKind::Secret, "default", "s", Some(("u4", None)));
    let public = key.public().clone();
    let source = Arc::clone(&objects) as Arc<dyn ServiceAccountTokenGetter>;
    TokenFixture {
        issuer: TokenIssuer::new(ISSUER, audiences.clone(), key),
        verifier: TokenVerifier::new(ISSUER, audiences, vec![public], source),
        objects,
    }
}

fn fixture() -> TokenFixture {
    fixture_with(ecdsa_key())
}

fn request(bound: Option<BoundObject>) -> TokenIssueParams<'static> {
    TokenIssueParams {
        namespace: "default",
        account: TokenObjectRef::new("bot", "u1"),
        audiences: Vec::new(),
        expiration_seconds: 3600,
        bound,
    }
}

fn pod() -> Option<BoundObject> {
    Some(BoundObject::Pod {
        pod: TokenObjectRef::new("web", "u2"),
        node: Some(TokenObjectRef::new("n1", "u3")),
    })
}

impl TokenFixture {
    fn issue(&self, bound: Option<BoundObject>) -> String {
        self.issuer
            .issue(request(bound), NOW)
            .expect("a token")
            .token
    }

    fn verify_at(&self, token: &str, now: Timestamp) -> Result<VerifiedToken, String> {
        self.verifier
            .verify(token, &[], now)
            .map_err(|error| error.to_string())
    }

    fn verify(&self, token: &str) -> Result<VerifiedToken, String> {
        self.verify_at(token, NOW)
    }
}

fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).expect("a payload");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).expect("base64")).expect("JSON")
}

fn after(seconds: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_secs(seconds))
}

#[test]
fn claims_match_upstream() {
    let fixture = fixture();
    let issued = fixture.issuer.issue(request(pod()), NOW).expect("a token");
    let mut claims = claims(&issued.token);
    let jti = claims["jti"].take();
    assert_eq!(
        claims,
        json!({
            "aud": ["api"], "exp": 1_800_003_600, "iat": 1_800_000_000, "iss": ISSUER, "jti": null,
            "kubernetes.io": {
                "namespace": "default", "node": {"name": "n1", "uid": "u3"},
                "pod": {"name": "web", "uid": "u2"}, "serviceaccount": {"name": "bot", "uid": "u1"},
            },
            "nbf": 1_800_000_000, "sub": "system:serviceaccount:default:bot",
        })
    );
    assert_eq!(
        issued.credential_id,
        format!("JTI={}", jti.as_str().expect("an id"))
    );
    assert_eq!(issued.expiration, after(3600));
    assert_eq!(issued.audiences, ["api"]);
    let shown = format!("{issued:?} {:?}", fixture.issuer);
    assert!(!shown.contains(&issued.token[..20]), "{shown}");
}

#[test]
fn token_authenticates_its_service_account() {
    let fixture = fixture();
    let token = fixture.issue(pod());
    let jti = claims(&token)["jti"].as_str().expect("an id").to_owned();
    let verified = fixture.verify(&token).expect("a valid token");
    assert_eq!(
        serde_json::to_value(&verified.user).expect("serializes"),
        json!({
            "username": "system:serviceaccount:default:bot", "uid": "u1",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default"],
            "extra": {
                "authentication.kubernetes.io/credential-id": [format!("JTI={jti}")],
                "authentication.kubernetes.io/node-name": ["n1"],
                "authentication.kubernetes.io/node-uid": ["u3"],
                "authentication.kubernetes.io/pod-name": ["web"],
                "authentication.kubernetes.io/pod-uid": ["u2"],
            },
        })
    );
    assert_eq!(verified.audiences, ["api"]);
    assert_eq!(verified.stale, None);
}

#[test]
fn token_is_rejected_outside_its_validity_period() {
    let fixture = fixture();
    let token = fixture.issue(None);
    let minute = Duration::from_secs(60);
    let cases = [
        (NOW.saturating_sub(minute), None),
        (
            NOW.saturating_sub(2 * minute),
            Some("service account token is not valid yet"),
        ),
        (after(3600 + 60), None),
        (after(3600 + 61), Some("service account token has expired")),
    ];
    for (now, want) in cases {
        assert_eq!(
            fixture.verify_at(&token, now).err().as_deref(),
            want,
            "{now:?}"
        );
    }
}

#[test]
fn requested_token_lifetime_is_validated() {
    let error = |seconds| {
        validate_expiration_seconds(seconds)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(error(600), Vec::<String>::new());
    assert_eq!(error(1 << 32), Vec::<String>::new());
    assert_eq!(
        error(599),
        [
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"
        ]
    );
    assert_eq!(
        error((1 << 32) + 1),
        [
            "spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"
        ]
    );
}

#[test]
fn pod_tokens_get_an_extended_expiration() {
    let fixture = fixture();
    let issue =
        |request: TokenIssueParams<'static>| fixture.issuer.issue(request, NOW).expect("a token");
    let kubelet = TokenIssueParams {
        expiration_seconds: 3607,
        ..request(pod())
    };
    let issued = issue(kubelet.clone());
    assert_eq!(issued.expiration, after(3607));
    assert_eq!(
        claims(&issued.token)["exp"],
        json!(1_800_000_000 + 365 * 24 * 3600)
    );
    assert_eq!(
        claims(&issued.token)["kubernetes.io"]["warnafter"],
        json!(1_800_003_607)
    );
    let verified = fixture
        .verify_at(&issued.token, after(3700))
        .expect("a valid token");
    assert_eq!(verified.stale, Some(Duration::from_secs(93)));

    for other in [
        TokenIssueParams {
            expiration_seconds: 3608,
            ..kubelet.clone()
        },
        TokenIssueParams {
            bound: None,
            ..kubelet.clone()
        },
        TokenIssueParams {
            audiences: vec!["vault".to_owned()],
            ..kubelet
        },
    ] {
        let token = issue(other).token;
        assert_eq!(claims(&token)["kubernetes.io"].get("warnafter"), None);
    }
}

#[test]
fn token_is_valid_only_for_its_audiences() {
    let fixture = fixture();
    let wanted =
        |names: &[&str]| -> Vec<String> { names.iter().map(|&it| it.to_owned()).collect() };
    let vault = TokenIssueParams {
        audiences: wanted(&["vault", "x"]),
        ..request(None)
    };
    let token = fixture.issuer.issue(vault, NOW).expect("a token").token;
    let verify = |audiences: &[&str]| fixture.verifier.verify(&token, &wanted(audiences), NOW);
    assert_eq!(verify(&["y", "x"]).expect("a valid token").audiences, ["x"]);
    assert_eq!(
        verify(&[]).expect_err("wrong audience").to_string(),
        r#"token audiences ["vault" "x"] is invalid for the target audiences ["api"]"#
    );
}

#[test]
fn token_is_invalid_after_its_account_or_bound_object_is_deleted() {
    use TokenObjectKind::{Node, Pod, Secret, ServiceAccount};
    let secret = || Some(BoundObject::Secret(TokenObjectRef::new("s", "u4")));
    let node = || Some(BoundObject::Node(TokenObjectRef::new("n1", "u3")));
    let gone = Some(after(0).saturating_sub(Duration::from_secs(61)));
    let going = Some(after(30));
    let dead = "service account token has been invalidated";
    type ObjectChange = (
        TokenObjectKind,
        &'static str,
        &'static str,
        Option<(&'static str, Option<Timestamp>)>,
    );
    let account = |state| (ServiceAccount, "default", "bot", state);
    let web = |state| (Pod, "default", "web", state);
    let n1 = |state| (Node, "", "n1", state);
    let s = |state| (Secret, "default", "s", state);
    let cases: Vec<(Option<BoundObject>, ObjectChange, Option<&str>)> = vec![
        (
            None,
            account(None),
            Some(r#"serviceaccounts "bot" not found"#),
        ),
        (
            None,
            account(Some(("u9", None))),
            Some("service account UID (u9) does not match claim (u1)"),
        ),
        (
            None,
            account(Some(("u1", gone))),
            Some("service account default/bot has been deleted"),
        ),
        (None, account(Some(("u1", going))), None),
        (None, web(None), None),
        (pod(), web(None), Some(dead)),
        (
            pod(),
            web(Some(("u9", None))),
            Some("pod UID (u9) does not match service account pod ref claim (u2)"),
        ),
        (pod(), web(Some(("u2", gone))), Some(dead)),
        (pod(), web(Some(("u2", going))), None),
        (pod(), n1(None), None),
        (secret(), s(None), Some(dead)),
        (
            secret(),
            s(Some(("u9", None))),
            Some("secret UID (u9) does not match service account secret ref claim (u4)"),
        ),
        (node(), n1(None), Some(dead)),
        (
            node(),
            n1(Some(("u9", None))),
            Some("node UID (u9) does not match service account node ref claim (u3)"),
        ),
    ];
    for (bound, change, want) in cases {
        let fixture = fixture();
        let token = fixture.issue(bound.clone());
        assert!(fixture.verify(&token).is_ok());
        let (kind, namespace, name, state) = change;
        fixture.objects.set(kind, namespace, name, state);
        assert_eq!(
            fixture.verify(&token).err().as_deref(),
            want,
            "{bound:?} {change:?}"
        );
    }
}

#[test]
fn tokens_with_foreign_signatures_are_rejected() {
    let fixture = fixture();
    let token = fixture.issue(None);
    let parts: Vec<&str> = token.split('.').collect();
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut raised = claims(&token);
    raised["sub"] = json!("system:serviceaccount:kube-system:admin");
    let other_key = TokenIssuer::new(ISSUER, vec!["api".to_owned()], ecdsa_key());
    let other_key = other_key.issue(request(None), NOW).expect("a token").token;
    let other_issuer = TokenIssuer::new("https://elsewhere", vec!["api".to_owned()], ecdsa_key());
    let other_issuer = other_issuer
        .issue(request(None), NOW)
        .expect("a token")
        .token;
    let with_header = |header: Value| format!("{}.{}.{}", encode(header), parts[1], parts[2]);
    let mut header: Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[0]).expect("base64")).expect("JSON");
    header["alg"] = json!("RS256");
    let cases = [
        (
            format!("{}.{}.{}", parts[0], encode(raised), parts[2]),
            "invalid signature",
        ),
        (with_header(json!({"alg": "none"})), "invalid signature"),
        (
            format!("{}.{}.", encode(json!({"alg": "none"})), parts[1]),
            "invalid signature",
        ),
        (with_header(header), "invalid signature"),
        (
            with_header(json!({"alg": "ES256", "kid": "x"})),
            "invalid signature, no keys found",
        ),
        (
            with_header(json!({"alg": "ES256", "crit": ["b64"]})),
            "invalid signature",
        ),
        (other_key, "invalid signature, no keys found"),
        (other_issuer, "invalid bearer token"),
        (format!("{token}A"), "invalid signature"),
        (format!("{token}!"), "invalid bearer token"),
        (
            format!("{}.{}.{}", parts[0], parts[1], &parts[2][..64]),
            "invalid signature",
        ),
        (String::new(), "invalid bearer token"),
        ("a.b.c".to_owned(), "invalid bearer token"),
        ("a".repeat(70_000), "invalid bearer token"),
    ];
    for (token, want) in cases {
        let shown: String = token.chars().take(80).collect();
        assert_eq!(fixture.verify(&token).expect_err(&shown), want, "{shown}");
    }
    assert!(fixture.verify(&token).is_ok());
}

#[test]
fn openid_configuration_and_key_set_are_published() {
    let fixture = fixture();
    let verifier = &fixture.verifier;
    assert_eq!(
        verifier.configuration("https://a/openid/v1/jwks"),
        json!({
            "issuer": ISSUER, "jwks_uri": "https://a/openid/v1/jwks",
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    );
    let keys = verifier.key_set();
    let key = &keys["keys"][0];
    assert_eq!(
        (&key["kty"], &key["crv"], &key["alg"], &key["use"]),
        (
            &json!("EC"),
            &json!("P-256"),
            &json!("ES256"),
            &json!("sig")
        )
    );
    assert_eq!(key["kid"], json!(fixture.issuer.key().public().id()));
    let coordinate = |name: &str| {
        URL_SAFE_NO_PAD
            .decode(key[name].as_str().expect("a string"))
            .expect("base64")
    };
    assert_eq!((coordinate("x").len(), coordinate("y").len()), (32, 32));
    let point = [&[4], &coordinate("x")[..], &coordinate("y")[..]].concat();
    let token = fixture.issue(None);
    let (signed, signature) = token.rsplit_once('.').expect("signed");
    ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point)
        .verify(
            signed.as_bytes(),
            &URL_SAFE_NO_PAD.decode(signature).expect("base64"),
        )
        .expect("the published key verifies the token");
}
