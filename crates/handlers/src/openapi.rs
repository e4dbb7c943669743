//! Serves `/openapi/v2` and `/openapi/v3`: documents are rendered on first request and cached gzip-compressed.
//!
//! Entry point: `serve`, which also handles ETags and the `hash` parameter of version 3.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

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
use rhumb_openapi::{CustomSchemas, OpenApiBuilder};

use crate::http::{Reply, ResponseBody};
use crate::request::QueryParameters;
use crate::server_state::ServerState;

const JSON: &str = "application/json";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Rendered documents by name: one for each group version, and version 2 in JSON and protobuf.
#[derive(Debug, Default)]
pub struct OpenApiDocumentCache(Mutex<HashMap<String, RenderedDocument>>);

/// A document, gzip-compressed.
#[derive(Debug)]
struct RenderedDocument {
    /// Current while the document has the same hash.
    hash: String,
    compressed: Bytes,
}

/// Identifies one OpenAPI document and renders it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OpenApiDocument {
    V2Json,
    V2Protobuf,
    V3(String),
}

impl OpenApiDocument {
    fn name(&self) -> String {
        match self {
            OpenApiDocument::V2Json => "v2".into(),
            OpenApiDocument::V2Protobuf => "v2.pb".into(),
            OpenApiDocument::V3(name) => format!("v3/{name}"),
        }
    }

    fn content_type(&self) -> &'static str {
        match self {
            OpenApiDocument::V2Protobuf => V2_PROTOBUF,
            OpenApiDocument::V2Json | OpenApiDocument::V3(_) => JSON,
        }
    }

    fn hash(&self, openapi: &OpenApiBuilder<'_>) -> Option<String> {
        match self {
            OpenApiDocument::V2Json | OpenApiDocument::V2Protobuf => Some(openapi.v2_hash()),
            OpenApiDocument::V3(name) => openapi.v3_hash(name),
        }
    }

    fn render(&self, openapi: &OpenApiBuilder<'_>) -> Option<Vec<u8>> {
        match self {
            OpenApiDocument::V2Json => Some(openapi.v2_json()),
            OpenApiDocument::V2Protobuf => Some(openapi.v2_protobuf()),
            OpenApiDocument::V3(name) => openapi.v3(name),
        }
    }
}

/// Handles a request below `/openapi`; `None` if there is no such document.
pub async fn serve(
    state: &Arc<ServerState>,
    path: &str,
    query: &QueryParameters,
    headers: &HeaderMap,
) -> Option<Reply> {
    let resources = state.registry.resources();
    let kinds: Vec<Kind> = resources
        .iter()
        .map(|resource| resource.kind.clone())
        .collect();
    let custom: CustomSchemas = resources
        .iter()
        .flat_map(|resource| resource.openapi_schemas.iter())
        .map(|(name, schema)| (name.clone(), Arc::clone(schema)))
        .collect();
    let openapi = OpenApiBuilder::new(&kinds, &state.registry.table).with_schemas(&custom);
    let document = match path.trim_matches('/').strip_prefix("openapi/")? {
        "v3" => return Some(Reply::json(StatusCode::OK, &openapi.v3_index())),
        "v2" if header(headers, ACCEPT).contains("proto-openapi") => OpenApiDocument::V2Protobuf,
        "v2" => OpenApiDocument::V2Json,
        name => OpenApiDocument::V3(name.strip_prefix("v3/")?.to_owned()),
    };
    let hash = document.hash(&openapi)?;
    let etag = format!("\"{hash}\"");
    let requested_hash = query.text("hash");
    if !requested_hash.is_empty() && requested_hash != hash {
        let moved = format!("/{}?hash={hash}", path.trim_matches('/'));
        let reply = Reply::new(StatusCode::MOVED_PERMANENTLY, JSON, ResponseBody::empty());
        return Some(reply.header(LOCATION, &moved));
    }
    if header(headers, IF_NONE_MATCH).contains(&etag) {
        let reply = Reply::new(
            StatusCode::NOT_MODIFIED,
            document.content_type(),
            ResponseBody::empty(),
        );
        return Some(reply.header(ETAG, &etag));
    }
    let cached = state.openapi_documents.get(&document, &hash);
    let compressed = match cached {
        Some(cached) => Ok(Some(cached)),
        None => render_document(state, kinds, custom, &document, hash).await,
    };
    let compressed = match compressed {
        Ok(compressed) => compressed?,
        Err(status) => return Some(Reply::status(&status)),
    };
    let reply = document_reply(
        document.content_type(),
        compressed,
        header(headers, ACCEPT_ENCODING),
    );
    let reply = reply.header(ETAG, &etag).header(VARY, "Accept");
    Some(if requested_hash.is_empty() {
        reply
    } else {
        // A URL with a hash always names the same content.
        reply.header(CACHE_CONTROL, "public, immutable")
    })
}

fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

impl OpenApiDocumentCache {
    fn get(&self, document: &OpenApiDocument, hash: &str) -> Option<Bytes> {
        let documents = self.0.lock();
        let rendered = documents.get(&document.name())?;
        (rendered.hash == hash).then(|| rendered.compressed.clone())
    }

    /// Keeps a document, and drops those whose group versions are no longer served.
    fn insert(&self, document: &OpenApiDocument, rendered: RenderedDocument, names: &[String]) {
        let mut documents = self.0.lock();
        documents.retain(|name, _| !name.starts_with("v3/") || names.contains(name));
        documents.insert(document.name(), rendered);
    }
}

/// Renders a document and caches it. Rendering is CPU-bound, so it runs on the blocking pool instead of a worker thread.
async fn render_document(
    state: &Arc<ServerState>,
    kinds: Vec<Kind>,
    custom: CustomSchemas,
    document: &OpenApiDocument,
    hash: String,
) -> Result<Option<Bytes>, Status> {
    let (table, to_render) = (Arc::clone(&state.registry.table), document.clone());
    let rendered = tokio::task::spawn_blocking(move || {
        let openapi = OpenApiBuilder::new(&kinds, &table).with_schemas(&custom);
        let text = to_render.render(&openapi)?;
        let names: Vec<String> = openapi
            .v3_names()
            .map(|name| format!("v3/{name}"))
            .collect();
        Some(compress(&text).map(|compressed| (Bytes::from(compressed), names)))
    })
    .await
    .map_err(Status::internal_error)?;
    let Some(rendered) = rendered else {
        return Ok(None);
    };
    let (compressed, names) = rendered.map_err(Status::internal_error)?;
    let rendered = RenderedDocument {
        hash,
        compressed: compressed.clone(),
    };
    state.openapi_documents.insert(document, rendered, &names);
    Ok(Some(compressed))
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn document_reply(content_type: &'static str, compressed: Bytes, accepted: &str) -> Reply {
    if accepted.contains("gzip") {
        return Reply::new(StatusCode::OK, content_type, ResponseBody::full(compressed))
            .header(CONTENT_ENCODING, "gzip");
    }
    let mut decompressed = Vec::new();
    match GzDecoder::new(compressed.as_ref()).read_to_end(&mut decompressed) {
        Ok(_) => Reply::new(
            StatusCode::OK,
            content_type,
            ResponseBody::full(decompressed),
        ),
        Err(error) => Reply::status(&Status::internal_error(error)),
    }
}
