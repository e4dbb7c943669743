//! Discovery: `/api`, `/apis`, `/apis/<group>` and `/apis/<group>/<version>`, aggregated (`apidiscovery.k8s.io/v2`) and
//! unaggregated. Entry point: `discover`.

mod aggregated;
mod groups;

use http::StatusCode;
use http::header::{ETAG, IF_NONE_MATCH, VARY};
use rhumb_meta::Status;
use rhumb_schema::{Table, protobuf};
use serde::Serialize;
use serde_json::Value;

use crate::http::{Reply, ResponseBody, generic_status};
use crate::request::{
    DiscoveryPath, MEDIA_TYPE_NAMES, MediaType, NegotiatedAccept, ObjectRepresentation,
    accepts_any_media_type,
};
use rhumb_registry::{Resource, ResourceTable};

/// Handles a discovery request; `None` if there is no such group or version.
pub fn discover(
    registry: &ResourceTable,
    path: &DiscoveryPath<'_>,
    headers: &http::HeaderMap,
    server_address: &str,
) -> Option<Result<Reply, Status>> {
    let accept = header(headers, http::header::ACCEPT);
    if let DiscoveryPath::LegacyRoot | DiscoveryPath::GroupsRoot = path
        && aggregated::is_requested(accept)
    {
        let document = aggregated::document(registry, *path == DiscoveryPath::LegacyRoot);
        return Some(aggregated_reply(&document, header(headers, IF_NONE_MATCH)));
    }
    Some(match path {
        DiscoveryPath::LegacyRoot => {
            document_reply(path, &groups::api_versions(server_address), accept)
        }
        DiscoveryPath::GroupsRoot => document_reply(path, &groups::group_list(registry), accept),
        DiscoveryPath::Group(group) => {
            document_reply(path, &groups::single_group(registry, group)?, accept)
        }
        DiscoveryPath::GroupVersion(group, version) => {
            let list = groups::resource_list(registry, group, version)?;
            document_reply(path, &list, accept)
        }
    })
}

/// The response with a document in the negotiated media type.
fn document_reply(
    path: &DiscoveryPath<'_>,
    document: &impl Serialize,
    accept: &str,
) -> Result<Reply, Status> {
    // As upstream does, `/apis` skips the generic check of the Accept header.
    if *path != DiscoveryPath::GroupsRoot && !accepts_any_media_type(Some(accept)) {
        return Err(generic_status::not_acceptable(&MEDIA_TYPE_NAMES));
    }
    let accept = NegotiatedAccept::negotiate(Some(accept), &[ObjectRepresentation::Object])?;
    if accept.media == MediaType::Json {
        return Ok(Reply::json(StatusCode::OK, document));
    }
    let document = serde_json::to_value(document).map_err(Status::internal_error)?;
    let body = match (accept.media, document) {
        (MediaType::Protobuf, Value::Object(object)) => encode_protobuf(&object)?,
        (_, document) => rhumb_schema::write_yaml(&document)
            .map_err(Status::internal_error)?
            .into_bytes(),
    };
    Ok(Reply::new(
        StatusCode::OK,
        accept.media.name(),
        ResponseBody::full(body),
    ))
}

fn encode_protobuf(document: &rhumb_schema::Object) -> Result<Vec<u8>, Status> {
    let kind = document
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let table = Table::builtin();
    let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}");
    let message_type = table.type_id(&name).ok_or_else(|| {
        Status::internal_error(format_args!("the schema table has no type {name}"))
    })?;
    protobuf::encode_with_envelope(table, message_type, document).map_err(Status::internal_error)
}

fn header(headers: &http::HeaderMap, name: http::header::HeaderName) -> &str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// The response with an ETag, so that kubectl can revalidate its cached document.
fn aggregated_reply(document: &impl Serialize, if_none_match: &str) -> Result<Reply, Status> {
    let mut body = serde_json::to_string(document).map_err(Status::internal_error)?;
    body.push('\n');
    let etag = format!("\"{}\"", hex(&sha256(body.as_bytes())).to_ascii_uppercase());
    let reply = if if_none_match == etag {
        Reply::new(
            StatusCode::NOT_MODIFIED,
            aggregated::CONTENT_TYPE,
            ResponseBody::empty(),
        )
    } else {
        Reply::new(
            StatusCode::OK,
            aggregated::CONTENT_TYPE,
            ResponseBody::full(body),
        )
    };
    Ok(reply.header(ETAG, &etag).header(VARY, "Accept"))
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, bytes)
        .as_ref()
        .to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Groups in the order of upstream's discovery. Other groups follow, sorted by name.
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

/// The names of all groups, without the legacy core group.
fn group_names(registry: &ResourceTable) -> Vec<&str> {
    let mut names: Vec<&str> = registry
        .iter()
        .map(|resource| &*resource.kind.group)
        .filter(|group| !group.is_empty())
        .collect();
    let rank = |group: &str| {
        GROUP_ORDER
            .iter()
            .position(|&known| known == group)
            .unwrap_or(GROUP_ORDER.len())
    };
    names.sort_by(|a, b| (rank(a), a).cmp(&(rank(b), b)));
    names.dedup();
    names
}

/// The versions of a group, the preferred one first.
fn group_versions<'a>(registry: &'a ResourceTable, group: &str) -> Vec<&'a str> {
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

/// The resources of a version, sorted by name.
fn resources_of<'a>(registry: &'a ResourceTable, group: &str, version: &str) -> Vec<&'a Resource> {
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
