//! Tokens of service accounts, made on request.

use http::StatusCode;
use rhumb_api::Object;
use rhumb_auth::token::{self, Account, Candidate, ObjectKind};
use rhumb_meta::{ObjectKey, Status};
use serde_json::Value;

use crate::admission::Operation;
use crate::http::Reply;
use crate::objects::Metadata;
use crate::request::WriteOptions;
use crate::resources::codec::Expected;
use crate::resources::{Call, render};

const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";

pub(super) async fn create(call: &Call<'_>) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, "CreateOptions")?;
    let expected = Expected {
        api_version: API_VERSION,
        kind: KIND,
        schema: call
            .api
            .type_named("io.k8s.api.authentication.v1.TokenRequest")?,
    };
    let mut request = call.decode(expected, options.field_validation)?;
    call.api.defaults.apply(expected.schema, &mut request);
    let attributes = call.attributes(Operation::Create, None, options.dry_run);
    let chain = &call.api.admission;
    chain.admit(&attributes, Some(&mut request)).await?;
    let account = call.current(&call.key()?).await?.object;
    let account = Account {
        namespace: account.namespace(),
        name: account.name(),
        uid: account.uid(),
    };
    let find = |kind: ObjectKind, namespace: &str, name: &str| {
        let (plural, namespace) = match kind {
            ObjectKind::Pod => ("pods", Some(namespace)),
            ObjectKind::Secret => ("secrets", Some(namespace)),
            ObjectKind::Node => ("nodes", None),
            ObjectKind::ServiceAccount => ("serviceaccounts", Some(namespace)),
        };
        look_up(call, plural, namespace, name).map(|object| candidate(&object))
    };
    let (answer, _) = token::answer(&call.api.issuer, account, &request, find, call.now)?;
    render::value(call, StatusCode::CREATED, &Value::Object(answer))
}

/// What a token may be bound to.
fn candidate(object: &Object) -> Candidate {
    let spec = |field: &str| {
        let value = object.get("spec").and_then(|spec| spec.get(field));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    Candidate {
        uid: object.uid().to_owned(),
        service_account: spec("serviceAccountName"),
        node: spec("nodeName"),
    }
}

fn look_up(
    call: &Call<'_>,
    plural: &'static str,
    namespace: Option<&str>,
    name: &str,
) -> Option<Object> {
    let resource = call.api.registry.find("", plural)?;
    let key = ObjectKey::new(namespace, name).ok()?;
    let entry = resource.storage.as_ref()?.cache.get(&key).ok()??;
    serde_json::from_slice(entry.json_slice()).ok()
}
