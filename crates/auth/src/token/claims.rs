//! The JWT claims of a service account token.

use rhumb_meta::Timestamp;
use serde::{Deserialize, Serialize};

use crate::user::{ServiceAccountName, User, extra_key};

/// The name and UID of an object; the UID excludes a recreated object of the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenObjectRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl TokenObjectRef {
    pub fn new(name: impl Into<String>, uid: impl Into<String>) -> Self {
        TokenObjectRef {
            name: name.into(),
            uid: uid.into(),
        }
    }
}

/// The object that a token is bound to: the token is invalid once the object is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundObject {
    /// A pod, and the node on which it runs. The node is informational; the token is not bound to it.
    Pod {
        pod: TokenObjectRef,
        node: Option<TokenObjectRef>,
    },
    Secret(TokenObjectRef),
    Node(TokenObjectRef),
}

/// The claims of a token. Fields are sorted by name, as in upstream's tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TokenClaims {
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "one_or_many"
    )]
    pub(super) aud: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exp: Option<NumericDate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) iat: Option<NumericDate>,
    pub(super) iss: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: KubernetesClaims,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nbf: Option<NumericDate>,
    pub(super) sub: String,
}

/// The `kubernetes.io` claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KubernetesClaims {
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<TokenObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<TokenObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<TokenObjectRef>,
    pub(super) serviceaccount: TokenObjectRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warnafter: Option<NumericDate>,
}

/// Seconds since the Unix epoch (RFC 7519 `NumericDate`). Fractions are accepted and dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct NumericDate(pub(super) i64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let whole = number.as_i64();
        let rounded = || number.as_f64().unwrap_or_default() as i64;
        Ok(NumericDate(whole.unwrap_or_else(rounded)))
    }
}

impl NumericDate {
    pub(super) fn time(self) -> Timestamp {
        Timestamp::from_unix(self.0, 0)
    }
}

/// RFC 7519 allows `aud` to be a single string instead of a list.
pub(super) fn one_or_many<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum AudienceClaim {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Option::<AudienceClaim>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(AudienceClaim::One(one)) => vec![one],
        Some(AudienceClaim::Many(many)) => many,
    })
}

impl TokenClaims {
    pub(super) fn account(&self) -> ServiceAccountName<'_> {
        ServiceAccountName {
            namespace: &self.kubernetes.namespace,
            name: &self.kubernetes.serviceaccount.name,
        }
    }

    /// The user that the token authenticates.
    pub(super) fn user(&self) -> User {
        let kubernetes = &self.kubernetes;
        let mut user = User {
            name: self.account().username(),
            uid: kubernetes.serviceaccount.uid.clone(),
            groups: self.account().groups(),
            ..User::default()
        };
        let mut add_extra = |key: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(key.to_owned(), vec![value.to_owned()]);
            }
        };
        if let Some(pod) = &kubernetes.pod {
            add_extra(extra_key::POD_NAME, &pod.name);
            add_extra(extra_key::POD_UID, &pod.uid);
        }
        if let Some(node) = &kubernetes.node {
            add_extra(extra_key::NODE_NAME, &node.name);
            add_extra(extra_key::NODE_UID, &node.uid);
        }
        if !self.jti.is_empty() {
            add_extra(extra_key::CREDENTIAL_ID, &format!("JTI={}", self.jti));
        }
        user
    }
}
