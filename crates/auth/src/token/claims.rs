//! What a token says.

use rhumb_meta::Timestamp;
use serde::{Deserialize, Serialize};

use crate::user::{ServiceAccountName, User, extra_key};

/// A name and the uid that tells an object from a later one of that name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl ObjectRef {
    pub fn new(name: impl Into<String>, uid: impl Into<String>) -> Self {
        ObjectRef {
            name: name.into(),
            uid: uid.into(),
        }
    }
}

/// What a token dies with, beside its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundObject {
    /// A pod; and the node it runs on, which the token only tells of.
    Pod {
        pod: ObjectRef,
        node: Option<ObjectRef>,
    },
    Secret(ObjectRef),
    Node(ObjectRef),
}

/// The claims of a token. Fields are in the order of their names, as upstream writes them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Claims {
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "one_or_many"
    )]
    pub(super) aud: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exp: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) iat: Option<Seconds>,
    pub(super) iss: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: Kubernetes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nbf: Option<Seconds>,
    pub(super) sub: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kubernetes {
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<ObjectRef>,
    pub(super) serviceaccount: ObjectRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warnafter: Option<Seconds>,
}

/// Seconds since the Unix epoch. The standard lets others write fractions; they do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Seconds(pub(super) i64);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let whole = number.as_i64();
        let rounded = || number.as_f64().unwrap_or_default() as i64;
        Ok(Seconds(whole.unwrap_or_else(rounded)))
    }
}

impl Seconds {
    pub(super) fn time(self) -> Timestamp {
        Timestamp::from_unix(self.0, 0)
    }
}

/// The standard lets a single audience stand without a list.
pub(super) fn one_or_many<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Option::<Audience>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Audience::One(one)) => vec![one],
        Some(Audience::Many(many)) => many,
    })
}

impl Claims {
    pub(super) fn account(&self) -> ServiceAccountName<'_> {
        ServiceAccountName {
            namespace: &self.kubernetes.namespace,
            name: &self.kubernetes.serviceaccount.name,
        }
    }

    /// The user that the token stands for.
    pub(super) fn user(&self) -> User {
        let kubernetes = &self.kubernetes;
        let mut user = User {
            name: self.account().username(),
            uid: kubernetes.serviceaccount.uid.clone(),
            groups: self.account().groups(),
            ..User::default()
        };
        let mut tell = |key: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(key.to_owned(), vec![value.to_owned()]);
            }
        };
        if let Some(pod) = &kubernetes.pod {
            tell(extra_key::POD_NAME, &pod.name);
            tell(extra_key::POD_UID, &pod.uid);
        }
        if let Some(node) = &kubernetes.node {
            tell(extra_key::NODE_NAME, &node.name);
            tell(extra_key::NODE_UID, &node.uid);
        }
        if !self.jti.is_empty() {
            tell(extra_key::CREDENTIAL_ID, &format!("JTI={}", self.jti));
        }
        user
    }
}
