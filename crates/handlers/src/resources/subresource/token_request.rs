//! The `token` subresource of service accounts: the TokenRequest API.

use http::StatusCode;
use rhumb_api::JsonObject;
use rhumb_auth::token::{self, BindableObject, ServiceAccountIdentity, TokenObjectKind};
use rhumb_meta::{ObjectKey, Status};
use serde_json::Value;

use crate::http::Reply;
use crate::request::WriteOptions;
use crate::resources::codec::ExpectedType;
use crate::resources::{ResourceRequest, render};
use rhumb_registry::RequestContext;
use rhumb_registry::admission::Operation;
use rhumb_registry::objects::ObjectMetadata;

const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";

pub(super) async fn create_token(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let accept = render::negotiate_without_table(request)?;
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let schema = request
        .registry
        .schema_type("io.k8s.api.authentication.v1.TokenRequest")?;
    let expected = ExpectedType {
        api_version: API_VERSION,
        kind: KIND,
        schema: &schema,
    };
    let mut token_request = request.decode(expected, options.field_validation)?;
    request.registry.defaults.apply(&schema, &mut token_request);
    let attributes = request.admission_attributes(Operation::Create, None, options.dry_run);
    let chain = &request.registry.admission;
    chain.admit(&attributes, Some(&mut token_request)).await?;
    let account = request.current_from_cache(&request.key()?).await?.object;
    let account = ServiceAccountIdentity {
        namespace: account.namespace(),
        name: account.name(),
        uid: account.uid(),
    };
    let find = |kind: TokenObjectKind, namespace: &str, name: &str| {
        let (plural, namespace) = match kind {
            TokenObjectKind::Pod => ("pods", Some(namespace)),
            TokenObjectKind::Secret => ("secrets", Some(namespace)),
            TokenObjectKind::Node => ("nodes", None),
            TokenObjectKind::ServiceAccount => ("serviceaccounts", Some(namespace)),
        };
        look_up(request, plural, namespace, name).map(|object| bound_object_candidate(&object))
    };
    let (response, _) = token::answer(
        &request.state.issuer,
        account,
        &token_request,
        find,
        request.now,
    )?;
    render::encode_value(
        request,
        accept,
        StatusCode::CREATED,
        &Value::Object(response),
    )
}

/// The object that a token is to be bound to, as the issuer needs it.
fn bound_object_candidate(object: &JsonObject) -> BindableObject {
    let spec = |field: &str| {
        let value = object.get("spec").and_then(|spec| spec.get(field));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    BindableObject {
        uid: object.uid().to_owned(),
        service_account: spec("serviceAccountName"),
        node: spec("nodeName"),
    }
}

fn look_up(
    context: &RequestContext<'_>,
    plural: &'static str,
    namespace: Option<&str>,
    name: &str,
) -> Option<JsonObject> {
    let resource = context.resources.find("", plural)?;
    let key = ObjectKey::new(namespace, name).ok()?;
    let entry = resource.storage.as_ref()?.cache.get(&key).ok()??;
    serde_json::from_slice(entry.json_slice()).ok()
}
