//! The TokenRequest API: `POST serviceaccounts/<name>/token`.
//!
//! Upstream: `pkg/registry/core/serviceaccount/storage/token.go`.

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::gotext::quote;
use rhumb_meta::{GroupKind, GroupResource, GroupVersionKind, Status, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::claims::{BoundObject, TokenObjectRef};
use super::issuer::{IssuedToken, TokenIssueParams, TokenIssuer, validate_expiration_seconds};
use super::verifier::TokenObjectKind;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFAULT_SECONDS: i64 = 60 * 60;

/// The existing service account for which a token is requested.
#[derive(Debug, Clone, Copy)]
pub struct ServiceAccountIdentity<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// The current state of an object that a token can be bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BindableObject {
    pub uid: String,
    /// `spec.serviceAccountName` of a pod.
    pub service_account: String,
    /// `spec.nodeName` of a pod.
    pub node: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct TokenRequestBody {
    metadata: TokenRequestMetadata,
    spec: TokenRequestSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenRequestMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct TokenRequestSpec {
    audiences: Option<Vec<String>>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<BoundObjectReference>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct BoundObjectReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

/// Issues the token of a TokenRequest. Returns the response object, and the credential ID for the audit log.
///
/// `look_up` finds pods, secrets and nodes by namespace (empty for nodes) and name. The response contains the token:
/// it must be sent to the client only.
pub fn answer(
    issuer: &TokenIssuer,
    account: ServiceAccountIdentity<'_>,
    request: &Map<String, Value>,
    look_up: impl Fn(TokenObjectKind, &str, &str) -> Option<BindableObject>,
    now: Timestamp,
) -> Result<(Map<String, Value>, String), Status> {
    let body =
        TokenRequestBody::deserialize(request).map_err(|it| Status::bad_request(it.to_string()))?;
    check_metadata(&body.metadata, account)?;
    let seconds = body.spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    let errors = validate_expiration_seconds(seconds);
    if !errors.is_empty() {
        return Err(Status::invalid(&GroupKind::new(GROUP, KIND), "", &errors));
    }
    let bound = match &body.spec.bound_object_ref {
        Some(object) => Some(bind(account, object, look_up)?),
        None => None,
    };
    let params = TokenIssueParams {
        namespace: account.namespace,
        account: TokenObjectRef::new(account.name, account.uid),
        audiences: body.spec.audiences.unwrap_or_default(),
        expiration_seconds: seconds,
        bound,
    };
    let issued = issuer
        .issue(params, now)
        .map_err(|error| Status::internal_error(format!("failed to generate token: {error}")))?;
    let credential_id = issued.credential_id.clone();
    Ok((
        complete(request, account, seconds, issued, now),
        credential_id,
    ))
}

fn check_metadata(
    asked: &TokenRequestMetadata,
    account: ServiceAccountIdentity<'_>,
) -> Result<(), Status> {
    let metadata = Path::new("metadata");
    let differs = |field: &'static str, asked: &Option<String>, own: &str, what: &str| {
        let asked = asked
            .as_deref()
            .filter(|asked| !asked.is_empty() && *asked != own);
        let detail = format!("must match the service account {what} if specified");
        let mut errors = ErrorList::default();
        match asked {
            None => Ok(()),
            Some(asked) => {
                errors.push(Error::invalid(&metadata.child(field), asked, detail));
                let kind = GroupKind::new(GROUP, KIND);
                Err(Status::invalid(&kind, account.name, &errors))
            }
        }
    };
    differs("name", &asked.name, account.name, "name")?;
    differs(
        "namespace",
        &asked.namespace,
        account.namespace,
        "namespace",
    )?;
    match asked.uid.as_deref() {
        None | Some("") => Ok(()),
        Some(uid) if uid == account.uid => Ok(()),
        Some(uid) => {
            let message = format!(
                "the UID in the token request ({uid}) does not match the UID of the service account ({})",
                account.uid
            );
            let resource = GroupResource::new(GROUP, KIND);
            Err(Status::conflict(&resource, account.name, message))
        }
    }
}

/// Looks up and validates the object of `spec.boundObjectRef`.
fn bind(
    account: ServiceAccountIdentity<'_>,
    asked: &BoundObjectReference,
    look_up: impl Fn(TokenObjectKind, &str, &str) -> Option<BindableObject>,
) -> Result<BoundObject, Status> {
    let kind = GroupVersionKind::from_type_meta(&asked.api_version, &asked.kind)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let find = |object, namespace: &str, resource: &'static str| {
        let found = look_up(object, namespace, &asked.name);
        found.ok_or_else(|| Status::not_found(&GroupResource::new("", resource), &asked.name))
    };
    let reference = |found: &BindableObject| match asked.uid.is_empty() || asked.uid == found.uid {
        true => Ok(TokenObjectRef::new(asked.name.clone(), found.uid.clone())),
        false => Err(other_uid(asked)),
    };
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => {
            let pod = find(TokenObjectKind::Pod, account.namespace, "pods")?;
            if pod.service_account != account.name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    quote(account.name)
                )));
            }
            // A node that does not exist any more is still named in the token, without a UID.
            let node = (!pod.node.is_empty()).then(|| {
                let uid = look_up(TokenObjectKind::Node, "", &pod.node).map(|node| node.uid);
                TokenObjectRef::new(pod.node.clone(), uid.unwrap_or_default())
            });
            Ok(BoundObject::Pod {
                pod: reference(&pod)?,
                node,
            })
        }
        ("", "Secret") => {
            let secret = find(TokenObjectKind::Secret, account.namespace, "secrets")?;
            Ok(BoundObject::Secret(reference(&secret)?))
        }
        ("", "Node") => {
            let node = find(TokenObjectKind::Node, "", "nodes")?;
            Ok(BoundObject::Node(reference(&node)?))
        }
        _ => Err(Status::bad_request(format!(
            "cannot bind token to object of type {kind}"
        ))),
    }
}

fn other_uid(asked: &BoundObjectReference) -> Status {
    let message = format!(
        "the UID in the bound object reference ({}) does not match the UID in record. \
         The object might have been deleted and then recreated",
        asked.uid
    );
    let resource = GroupResource::new("", asked.kind.clone());
    Status::conflict(&resource, &asked.name, message)
}

/// The response: the request with defaults filled in, and with the token in its status.
fn complete(
    request: &Map<String, Value>,
    account: ServiceAccountIdentity<'_>,
    seconds: i64,
    issued: IssuedToken,
    now: Timestamp,
) -> Map<String, Value> {
    let mut answer = Value::Object(request.clone());
    for field in ["metadata", "spec"] {
        if !answer[field].is_object() {
            answer[field] = json!({});
        }
    }
    let metadata = &mut answer["metadata"];
    metadata["name"] = json!(account.name);
    metadata["namespace"] = json!(account.namespace);
    metadata["uid"] = json!(account.uid);
    metadata["creationTimestamp"] = json!(now.rfc3339().to_string());
    let spec = &mut answer["spec"];
    spec["audiences"] = json!(issued.audiences);
    spec["expirationSeconds"] = json!(seconds);
    if spec.get("boundObjectRef").is_none() {
        spec["boundObjectRef"] = Value::Null;
    }
    answer["status"] = json!({
        "token": issued.token,
        "expirationTimestamp": issued.expiration.rfc3339().to_string(),
    });
    match answer {
        Value::Object(answer) => answer,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::SigningKey;

    const NOW: Timestamp = Timestamp::from_unix(1_800_000_000, 0);

    fn issue_token(request: Value) -> Result<Map<String, Value>, (i32, String)> {
        let pair = rcgen::KeyPair::generate().expect("generate a key");
        let key = SigningKey::from_pkcs8(&pair.serialize_der()).expect("P-256");
        let issuer = TokenIssuer::new("https://x", vec!["api".to_owned()], key);
        let account = ServiceAccountIdentity {
            namespace: "default",
            name: "bot",
            uid: "u1",
        };
        let look_up = |kind, namespace: &str, name: &str| {
            let candidate = |uid: &str, service_account: &str, node: &str| BindableObject {
                uid: uid.to_owned(),
                service_account: service_account.to_owned(),
                node: node.to_owned(),
            };
            match (kind, namespace, name) {
                (TokenObjectKind::Pod, "default", "web") => Some(candidate("u2", "bot", "n1")),
                (TokenObjectKind::Pod, "default", "other") => Some(candidate("u3", "else", "")),
                (TokenObjectKind::Pod, "default", "lost") => Some(candidate("u6", "bot", "gone")),
                (TokenObjectKind::Node, "", "n1") => Some(candidate("u4", "", "")),
                (TokenObjectKind::Secret, "default", "s") => Some(candidate("u5", "", "")),
                _ => None,
            }
        };
        let request = request.as_object().expect("a JSON object");
        answer(&issuer, account, request, look_up, NOW)
            .map(|(answer, _)| answer)
            .map_err(|status| (status.code, status.message))
    }

    fn bound(kind: &str, name: &str, uid: &str) -> Value {
        json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}}})
    }

    #[test]
    fn response_is_the_request_with_its_token() {
        let mut answer = issue_token(json!({"kind": "TokenRequest"})).expect("a token");
        let token = answer["status"]["token"].take();
        assert_eq!(token.as_str().expect("a string").split('.').count(), 3);
        assert_eq!(
            Value::Object(answer),
            json!({
                "kind": "TokenRequest",
                "metadata": {
                    "name": "bot", "namespace": "default", "uid": "u1",
                    "creationTimestamp": "2027-01-15T08:00:00Z",
                },
                "spec": {"audiences": ["api"], "expirationSeconds": 3600, "boundObjectRef": null},
                "status": {"token": null, "expirationTimestamp": "2027-01-15T09:00:00Z"},
            })
        );
        for request in [
            json!({"metadata": {"name": "bot", "namespace": "default", "uid": "u1"}}),
            bound("Pod", "web", "u2"),
            bound("Pod", "lost", ""),
            bound("Secret", "s", ""),
            bound("Node", "n1", "u4"),
        ] {
            assert!(issue_token(request.clone()).is_ok(), "{request}");
        }
    }

    #[test]
    fn invalid_token_requests_are_rejected() {
        let cases = [
            (
                json!({"spec": {"expirationSeconds": 1}}),
                422,
                concat!(
                    r#"TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: "#,
                    "Invalid value: 1: may not specify a duration less than 10 minutes",
                ),
            ),
            (
                json!({"metadata": {"name": "x"}}),
                422,
                concat!(
                    r#"TokenRequest.authentication.k8s.io "bot" is invalid: metadata.name: "#,
                    r#"Invalid value: "x": must match the service account name if specified"#,
                ),
            ),
            (
                json!({"metadata": {"uid": "x"}}),
                409,
                concat!(
                    r#"Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "bot": "#,
                    "the UID in the token request (x) does not match the UID of the service account (u1)",
                ),
            ),
            (bound("Pod", "none", ""), 404, r#"pods "none" not found"#),
            (
                bound("Pod", "other", ""),
                400,
                concat!(
                    r#"cannot bind token for serviceaccount "bot" to pod running with "#,
                    "different serviceaccount name.",
                ),
            ),
            (
                bound("Node", "n1", "x"),
                409,
                concat!(
                    r#"Operation cannot be fulfilled on Node "n1": the UID in the bound object "#,
                    "reference (x) does not match the UID in record. ",
                    "The object might have been deleted and then recreated",
                ),
            ),
            (
                bound("ConfigMap", "c", ""),
                400,
                "cannot bind token to object of type /v1, Kind=ConfigMap",
            ),
        ];
        for (request, code, message) in cases {
            let shown = request.to_string();
            assert_eq!(
                issue_token(request),
                Err((code, message.to_owned())),
                "{shown}"
            );
        }
        assert_eq!(
            issue_token(json!({"spec": {"audiences": 1}}))
                .expect_err("audiences is not a list")
                .0,
            400
        );
    }
}
