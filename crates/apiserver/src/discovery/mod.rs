//! What the server has: groups, versions and resources, in the old form and in the aggregated one.

mod aggregated;
mod groups;

use http::StatusCode;
use http::header::{ETAG, IF_NONE_MATCH, VARY};
use rhumb_meta::Status;
use rhumb_schema::{Table, protobuf};
use serde_json::Value;

use crate::http::{Body, Reply, generic};
use crate::request::{Accept, ApiPath, Form, MEDIA_NAMES, Media, is_acceptable};
use crate::resources::{Registry, Resource};

/// The answer to a discovery request; `None` if there is no such group or version.
pub fn discover(
    registry: &Registry,
    path: &ApiPath<'_>,
    headers: &http::HeaderMap,
    server_address: &str,
) -> Option<Result<Reply, Status>> {
    let accept = header(headers, http::header::ACCEPT);
    if let ApiPath::LegacyRoot | ApiPath::GroupsRoot = path
        && aggregated::is_wanted(accept)
    {
        let document = aggregated::document(registry, *path == ApiPath::LegacyRoot);
        return Some(Ok(aggregated_reply(
            &document,
            header(headers, IF_NONE_MATCH),
        )));
    }
    let document = match path {
        ApiPath::LegacyRoot => groups::legacy_versions(server_address),
        ApiPath::GroupsRoot => groups::all(registry),
        ApiPath::Group(group) => groups::one(registry, group)?,
        ApiPath::GroupVersion(group, version) => groups::resources(registry, group, version)?,
    };
    Some(reply(path, &document, accept))
}

/// A document in the form that the client wants.
fn reply(path: &ApiPath<'_>, document: &Value, accept: &str) -> Result<Reply, Status> {
    // The list of groups is not below any of the paths where this is looked at first.
    if *path != ApiPath::GroupsRoot && !is_acceptable(Some(accept)) {
        return Err(generic::not_acceptable(&MEDIA_NAMES));
    }
    let accept = Accept::negotiate(Some(accept), &[Form::Object])?;
    let body = match (accept.media, document) {
        (Media::Yaml, document) => rhumb_schema::write_yaml(document)
            .map_err(Status::internal_error)?
            .into_bytes(),
        (Media::Protobuf, Value::Object(object)) => in_protobuf(object)?,
        _ => return Ok(Reply::json(StatusCode::OK, document)),
    };
    Ok(Reply::new(
        StatusCode::OK,
        accept.media.name(),
        Body::full(body),
    ))
}

fn in_protobuf(document: &rhumb_schema::Object) -> Result<Vec<u8>, Status> {
    let kind = document
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let table = Table::builtin();
    let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}");
    let of = table.named(&name).ok_or_else(|| {
        Status::internal_error(format_args!("the schema table has no type {name}"))
    })?;
    protobuf::seal(table, of, document).map_err(Status::internal_error)
}

fn header(headers: &http::HeaderMap, name: http::header::HeaderName) -> &str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// kubectl keeps the document and asks only whether it is still the same.
fn aggregated_reply(document: &Value, known: &str) -> Reply {
    let body = document.to_string();
    let etag = format!("\"{}\"", hex(&sha256(body.as_bytes())).to_ascii_uppercase());
    let reply = if known == etag {
        Reply::new(
            StatusCode::NOT_MODIFIED,
            aggregated::CONTENT_TYPE,
            Body::empty(),
        )
    } else {
        Reply::new(StatusCode::OK, aggregated::CONTENT_TYPE, Body::full(body))
    };
    reply.header(ETAG, &etag).header(VARY, "Accept")
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, bytes)
        .as_ref()
        .to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The groups in the order in which upstream lists them. A group that is not here comes after, by name.
const GROUP_ORDER: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// The names of all groups but the one without a name.
fn group_names(registry: &Registry) -> Vec<&str> {
    let mut names: Vec<&str> = registry
        .iter()
        .map(|resource| &*resource.kind.group)
        .filter(|group| !group.is_empty())
        .collect();
    let place = |group: &str| {
        GROUP_ORDER
            .iter()
            .position(|&known| known == group)
            .unwrap_or(GROUP_ORDER.len())
    };
    names.sort_by(|a, b| (place(a), a).cmp(&(place(b), b)));
    names.dedup();
    names
}

/// The versions of a group, the preferred one first.
fn versions<'a>(registry: &'a Registry, group: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = Vec::new();
    for resource in registry
        .iter()
        .filter(|resource| resource.kind.group == group)
    {
        for version in &resource.versions {
            if !versions.contains(&&*version.served.version) {
                versions.push(&version.served.version);
            }
        }
    }
    versions.sort_by(|a, b| b.cmp(a));
    versions
}

/// The resources of a version, by name.
fn resources_of<'a>(registry: &'a Registry, group: &str, version: &str) -> Vec<&'a Resource> {
    let mut resources: Vec<&Resource> = registry
        .iter()
        .map(|resource| &**resource)
        .filter(|resource| resource.kind.group == group && resource.version(version).is_some())
        .collect();
    resources.sort_by(|a, b| a.kind.plural.cmp(&b.kind.plural));
    resources
}

fn verb_names(verbs: &[rhumb_api::Verb]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = verbs.iter().map(|verb| verb.name()).collect();
    names.sort_unstable();
    names
}
