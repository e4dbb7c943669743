//! Tokens of service accounts, made on request.

use http::StatusCode;
use rhumb_auth::token::{BoundObject, ObjectRef, Request, validate_expiration_seconds};
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, GroupResource, ObjectKey, Status};
use serde_json::{Value, json};

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
    let namespace = call.namespace().unwrap_or_default();
    let account = call.current(&call.key()?).await?.object;
    let spec = request.get("spec").cloned().unwrap_or_default();
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(3600);
    let errors = validate_expiration_seconds(seconds);
    if !errors.is_empty() {
        return Err(Status::invalid(
            &GroupKind::new("authentication.k8s.io", KIND),
            "",
            &errors,
        ));
    }
    let bound = bound_object(call, namespace, &spec["boundObjectRef"])?;
    let issued = call
        .api
        .issuer
        .issue(
            Request {
                namespace,
                account: ObjectRef::new(account.name(), account.uid()),
                audiences: strings(&spec["audiences"]),
                expiration_seconds: seconds,
                bound,
            },
            call.now,
        )
        .map_err(Status::internal_error)?;
    let mut spec = spec;
    spec["audiences"] = json!(issued.audiences);
    spec["expirationSeconds"] = json!(seconds);
    if spec.get("boundObjectRef").is_none() {
        spec["boundObjectRef"] = Value::Null;
    }
    let answer = json!({
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {
            "name": account.name(),
            "namespace": namespace,
            "creationTimestamp": call.now.rfc3339().to_string(),
        },
        "spec": spec,
        "status": {
            "token": issued.token,
            "expirationTimestamp": issued.expiration.rfc3339().to_string(),
        },
    });
    render::value(call, StatusCode::CREATED, &answer)
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect()
}

/// The object that the token lives and dies with.
fn bound_object(
    call: &Call<'_>,
    namespace: &str,
    reference: &Value,
) -> Result<Option<BoundObject>, Status> {
    if reference.is_null() {
        return Ok(None);
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    let (kind, name, uid) = (text("kind"), text("name"), text("uid"));
    let (plural, is_namespaced) = match (text("apiVersion").as_str(), kind.as_str()) {
        ("v1", "Pod") => ("pods", true),
        ("v1", "Secret") => ("secrets", true),
        ("v1", "Node") => ("nodes", false),
        (api_version, kind) => {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to type {api_version}, Kind={kind}",
                format!("{namespace}/{}", call.name())
            )));
        }
    };
    let object = look_up(call, plural, is_namespaced.then_some(namespace), &name)?;
    if !uid.is_empty() && uid != object.uid() {
        let mut errors = ErrorList::new();
        errors.push(Error::invalid(
            &Path::new("spec.boundObjectRef.uid"),
            uid.as_str(),
            format!("the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"),
        ));
        return Err(Status::conflict(
            &GroupResource::new("", plural),
            &name,
            format_args!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            ),
        ));
    }
    let reference = ObjectRef::new(name, object.uid());
    Ok(Some(match plural {
        "pods" => BoundObject::Pod {
            pod: reference,
            node: node_of(call, &object),
        },
        "secrets" => BoundObject::Secret(reference),
        _ => BoundObject::Node(reference),
    }))
}

/// The node that a bound pod runs on, if it runs and the node is known.
fn node_of(call: &Call<'_>, pod: &rhumb_api::Object) -> Option<ObjectRef> {
    let name = pod.get("spec")?.get("nodeName")?.as_str()?;
    let uid = look_up(call, "nodes", None, name)
        .map(|node| node.uid().to_owned())
        .unwrap_or_default();
    Some(ObjectRef::new(name, uid))
}

fn look_up(
    call: &Call<'_>,
    plural: &'static str,
    namespace: Option<&str>,
    name: &str,
) -> Result<rhumb_api::Object, Status> {
    let not_found = || Status::not_found(&GroupResource::new("", plural), name);
    let cache = &call
        .api
        .registry
        .find("", plural)
        .and_then(|resource| resource.storage.as_ref())
        .ok_or_else(not_found)?
        .cache;
    let key = ObjectKey::new(namespace, name).map_err(|_| not_found())?;
    let snapshot = cache.snapshot();
    let entry = snapshot
        .get(&key)
        .map_err(Status::internal_error)?
        .ok_or_else(not_found)?;
    serde_json::from_slice(entry.json_slice()).map_err(Status::internal_error)
}
