//! The OpenAPI documents: made when they are asked for, and kept compressed for the next who asks.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderMap, IF_NONE_MATCH,
    LOCATION, VARY,
};
use http::{HeaderName, StatusCode};
use rhumb_api::Kind;
use rhumb_meta::Status;
use rhumb_openapi::OpenApi;
use rhumb_schema::Table;

use crate::Api;
use crate::http::{Body, Reply};
use crate::request::Query;

const JSON: &str = "application/json";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Documents that were made, compressed. There are as many as group versions, and two more.
#[derive(Debug, Default)]
pub struct Documents(Mutex<HashMap<String, Bytes>>);

/// One document, and how to make it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Document {
    V2Json,
    V2Protobuf,
    V3(String),
}

impl Document {
    fn name(&self) -> String {
        match self {
            Document::V2Json => "v2".into(),
            Document::V2Protobuf => "v2.pb".into(),
            Document::V3(name) => format!("v3/{name}"),
        }
    }

    fn content_type(&self) -> &'static str {
        match self {
            Document::V2Protobuf => V2_PROTOBUF,
            Document::V2Json | Document::V3(_) => JSON,
        }
    }

    fn hash(&self, openapi: &OpenApi<'_>) -> Option<String> {
        match self {
            Document::V2Json | Document::V2Protobuf => Some(openapi.v2_hash()),
            Document::V3(name) => openapi.v3_hash(name),
        }
    }

    fn make(&self, openapi: &OpenApi<'_>) -> Option<Vec<u8>> {
        match self {
            Document::V2Json => Some(openapi.v2_json()),
            Document::V2Protobuf => Some(openapi.v2_protobuf()),
            Document::V3(name) => openapi.v3(name),
        }
    }
}

/// The answer below `/openapi`; `None` if there is no such document.
pub(crate) async fn answer(
    api: &Arc<Api>,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Option<Reply> {
    let kinds: Vec<Kind> = api
        .registry
        .iter()
        .map(|resource| resource.kind.clone())
        .collect();
    let openapi = OpenApi::new(&kinds, api.table);
    let document = match path.trim_matches('/').strip_prefix("openapi/")? {
        "v3" => return Some(Reply::json(StatusCode::OK, &openapi.v3_index())),
        "v2" if header(headers, ACCEPT).contains("proto-openapi") => Document::V2Protobuf,
        "v2" => Document::V2Json,
        name => Document::V3(name.strip_prefix("v3/")?.to_owned()),
    };
    let hash = document.hash(&openapi)?;
    let etag = format!("\"{hash}\"");
    let asked = query.text("hash");
    if !asked.is_empty() && asked != hash {
        let moved = format!("/{}?hash={hash}", path.trim_matches('/'));
        let reply = Reply::new(StatusCode::MOVED_PERMANENTLY, JSON, Body::empty());
        return Some(reply.header(LOCATION, &moved));
    }
    if header(headers, IF_NONE_MATCH).contains(&etag) {
        let reply = Reply::new(
            StatusCode::NOT_MODIFIED,
            document.content_type(),
            Body::empty(),
        );
        return Some(reply.header(ETAG, &etag));
    }
    let compressed = match compressed(api, kinds, &document).await {
        Ok(compressed) => compressed?,
        Err(status) => return Some(Reply::status(&status)),
    };
    let reply = send(
        document.content_type(),
        compressed,
        header(headers, ACCEPT_ENCODING),
    );
    let reply = reply.header(ETAG, &etag).header(VARY, "Accept");
    Some(if asked.is_empty() {
        reply
    } else {
        // Under its hash a document never changes.
        reply.header(CACHE_CONTROL, "public, immutable")
    })
}

fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Makes the document if nobody asked for it before. It takes a moment, so other requests go on meanwhile.
async fn compressed(
    api: &Arc<Api>,
    kinds: Vec<Kind>,
    document: &Document,
) -> Result<Option<Bytes>, Status> {
    let name = document.name();
    if let Some(known) = lock(&api.documents).get(&name) {
        return Ok(Some(known.clone()));
    }
    let (table, wanted): (&'static Table, Document) = (api.table, document.clone());
    let made = tokio::task::spawn_blocking(move || {
        wanted
            .make(&OpenApi::new(&kinds, table))
            .map(|text| compress(&text))
    })
    .await
    .map_err(Status::internal_error)?;
    let Some(made) = made else { return Ok(None) };
    let made = Bytes::from(made.map_err(Status::internal_error)?);
    lock(&api.documents).insert(name, made.clone());
    Ok(Some(made))
}

fn lock(documents: &Documents) -> std::sync::MutexGuard<'_, HashMap<String, Bytes>> {
    documents.0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn send(content_type: &'static str, compressed: Bytes, accepted: &str) -> Reply {
    if accepted.contains("gzip") {
        return Reply::new(StatusCode::OK, content_type, Body::full(compressed))
            .header(CONTENT_ENCODING, "gzip");
    }
    let mut plain = Vec::new();
    match GzDecoder::new(compressed.as_ref()).read_to_end(&mut plain) {
        Ok(_) => Reply::new(StatusCode::OK, content_type, Body::full(plain)),
        Err(error) => Reply::status(&Status::internal_error(error)),
    }
}
