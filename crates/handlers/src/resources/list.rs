//! `list`: GET of a collection, with selectors, consistent snapshots and continue tokens. The JSON encoding is streamed
//! from the cached bytes of the items.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use rhumb_cache::{CacheEntry, CacheSnapshot, HistoryError, ListQuery, ResourceCache};
use rhumb_meta::{ObjectKey, Revision, Status, fields};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ResourceRequest;
use super::field_selector::field_selector;
use super::get::{await_resource_version, parse_resource_version};
use super::render::ResponseFormat;
use crate::audit_body::RESPONSE_BYTES_MAX;
use crate::http::{AuditedBody, BodyChunks, Reply, ResponseBody};
use crate::request::{
    ALL_REPRESENTATIONS, ListOptions, MediaType, ObjectRepresentation, ResourceVersionMatch,
};
use rhumb_registry::objects::ObjectEncoder;
use rhumb_registry::{RequestContext, ResourceStorage, history_error_status};

/// Approximate size of the chunks that a long list is sent in.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) async fn list(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let format = ResponseFormat::negotiate(request, ALL_REPRESENTATIONS)?;
    let options = ListOptions::parse(request.query, false)?;
    let page = select_page(request, &options).await?;
    list_reply(request, &format, page)
}

/// One page of a list.
pub(super) struct ListPage {
    pub(super) entries: Vec<Arc<CacheEntry>>,
    pub(super) revision: Revision,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

/// The content of a continue token (upstream: `continueToken`), with one more field.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct ContinueToken {
    v: String,
    /// The revision of the list; -1 continues from the current state.
    rv: i64,
    start: String,
    /// The number of remaining objects at that revision, so that they are not counted again for each page. Upstream has
    /// no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remaining: Option<usize>,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// The page of objects that the list options select.
pub(super) async fn select_page(
    context: &RequestContext<'_>,
    options: &ListOptions,
) -> Result<ListPage, Status> {
    let storage = context.storage()?;
    let fields = field_selector(context, &options.field_selector)?;
    let start = if options.continue_token.is_empty() {
        PageStart {
            snapshot: first_snapshot(context, storage, options).await?,
            after: None,
            remaining: None,
        }
    } else {
        continued_page_start(context, storage, options).await?
    };
    Ok(read_page(&storage.cache, context, options, &fields, &start))
}

/// The snapshot that a page is read from, and where in it the page begins.
struct PageStart {
    snapshot: CacheSnapshot,
    after: Option<ObjectKey>,
    /// The number of objects from here on, if known.
    remaining: Option<usize>,
}

async fn first_snapshot(
    context: &RequestContext<'_>,
    storage: &ResourceStorage,
    options: &ListOptions,
) -> Result<CacheSnapshot, Status> {
    let version = options.resource_version.as_str();
    // As upstream does, a limit without resourceVersionMatch means Exact, except for version 0.
    let exact = match options.version_match {
        Some(ResourceVersionMatch::Exact) => true,
        Some(ResourceVersionMatch::NotOlderThan) => false,
        None => options.limit.is_some() && !matches!(version, "" | "0"),
    };
    if !exact {
        await_resource_version(context, version)
            .await
            .map_err(invalid_list_version)?;
        return Ok(storage.cache.snapshot());
    }
    let revision = parse_resource_version(version).map_err(invalid_list_version)?;
    context.registry.await_revision(revision).await?;
    storage
        .cache
        .snapshot_at(revision)
        .map_err(|error| match error {
            HistoryError::Expired { .. } => {
                Status::expired("The resourceVersion for the provided list is too old.")
            }
            other => history_error_status(other),
        })
}

/// Adds upstream's prefix for an invalid resourceVersion in a list.
fn invalid_list_version(mut status: Status) -> Status {
    if status.code == i32::from(StatusCode::BAD_REQUEST.as_u16()) {
        status.message = format!("invalid resource version: {}", status.message);
    }
    status
}

/// Where the page of a continue token begins.
async fn continued_page_start(
    context: &RequestContext<'_>,
    storage: &ResourceStorage,
    options: &ListOptions,
) -> Result<PageStart, Status> {
    if !matches!(options.resource_version.as_str(), "" | "0") {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let (token, after) = decode_continue_token(context, &options.continue_token)?;
    if token.rv < 0 {
        context.registry.await_consistent(context).await?;
        return Ok(PageStart {
            snapshot: storage.cache.snapshot(),
            after: Some(after),
            remaining: None,
        });
    }
    let revision = Revision::new(token.rv.unsigned_abs());
    // The token may come from another server on the same store, whose cache was ahead of this one.
    context.registry.await_revision(revision).await?;
    match storage.cache.snapshot_at(revision) {
        Ok(snapshot) => Ok(PageStart {
            snapshot,
            after: Some(after),
            remaining: token.remaining,
        }),
        Err(HistoryError::Expired { .. }) => {
            let inconsistent = encode_continue_token(&ContinueToken {
                rv: -1,
                remaining: None,
                ..token
            });
            Err(Status::expired(TOKEN_EXPIRED).with_continue(inconsistent))
        }
        Err(other) => Err(history_error_status(other)),
    }
}

const TOKEN_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

fn encode_continue_token(token: &ContinueToken) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(token).unwrap_or_default())
}

fn decode_continue_token(
    context: &RequestContext<'_>,
    text: &str,
) -> Result<(ContinueToken, ObjectKey), Status> {
    let invalid = |reason: &str| {
        Status::bad_request(format!(
            "invalid continue token: continue key is not valid: {reason}"
        ))
    };
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|error| invalid(&base64_error_text(&error)))?;
    rhumb_schema::check_json(&bytes).map_err(|error| invalid(&error.to_string()))?;
    let token: ContinueToken =
        serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
    if token.v != TOKEN_VERSION {
        return Err(invalid(&format!(
            "server does not recognize this encoded version {}",
            token.v
        )));
    }
    if token.rv == 0 || token.rv < -1 {
        return Err(invalid(
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ));
    }
    if token.start.is_empty() {
        return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
    }
    // The start key is relative to the requested scope, so a token cannot reach into another namespace.
    let name = token.start.trim_end_matches('\0');
    let key = match (context.resource.kind.is_namespaced(), context.namespace()) {
        (true, None) => match name.split_once('/') {
            Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
            None => return Err(invalid(&token.start)),
        },
        (_, namespace) => ObjectKey::new(namespace, name),
    };
    let key = key.map_err(|_| invalid(&token.start))?;
    Ok((token, key))
}

/// Go's message for invalid base64.
fn base64_error_text(error: &base64::DecodeError) -> String {
    let offset = match error {
        base64::DecodeError::InvalidByte(offset, _)
        | base64::DecodeError::InvalidLastSymbol(offset, _) => *offset,
        base64::DecodeError::InvalidLength(length) => length.saturating_sub(1),
        base64::DecodeError::InvalidPadding => 0,
    };
    format!("illegal base64 data at input byte {offset}")
}

/// Reads a page from the snapshot.
fn read_page(
    cache: &ResourceCache,
    context: &RequestContext<'_>,
    options: &ListOptions,
    fields: &fields::Selector,
    page_start: &PageStart,
) -> ListPage {
    let snapshot = &page_start.snapshot;
    // As upstream does, the limit is ignored for resourceVersion 0, which is served from the cache.
    let any_version = options.resource_version == "0" && options.continue_token.is_empty();
    let limit = options.limit.filter(|_| !any_version).unwrap_or(usize::MAX);
    let has_selector = !options.label_selector.is_everything() || !fields.is_everything();
    let query = ListQuery {
        namespace: context.namespace(),
        after: page_start.after.as_ref(),
        labels: &options.label_selector,
        fields,
        limit,
    };
    let mut matching = cache.list(snapshot, &query);
    let entries: Vec<Arc<CacheEntry>> = matching.by_ref().take(limit).cloned().collect();
    let last = (entries.len() == limit).then(|| entries.last()).flatten();
    let has_more = last.is_some() && matching.next().is_some();
    // As upstream does, remainingItemCount is set only for lists without selectors.
    let remaining = (has_more && !has_selector).then(|| match page_start.remaining {
        Some(remaining) => remaining.saturating_sub(entries.len()),
        None => 1 + matching.by_ref().count(),
    });
    let continue_token = last.filter(|_| has_more).map(|last| {
        let start = match context.namespace() {
            Some(_) => last.key().name(),
            None => last.key().as_str(),
        };
        encode_continue_token(&ContinueToken {
            v: TOKEN_VERSION.into(),
            rv: i64::try_from(snapshot.revision().get()).unwrap_or(i64::MAX),
            start: format!("{start}\0"),
            remaining,
        })
    });
    ListPage {
        revision: snapshot.revision(),
        entries,
        continue_token,
        remaining,
    }
}

impl ListPage {
    fn metadata(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".into(), self.revision.to_string().into());
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.clone().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".into(), remaining.into());
        }
        Value::Object(metadata)
    }
}

/// The response with a page of a list, in the negotiated format.
pub(super) fn list_reply(
    request: &ResourceRequest<'_>,
    format: &ResponseFormat,
    page: ListPage,
) -> Result<Reply, Status> {
    format.check_list()?;
    if format.accept.representation == ObjectRepresentation::Table {
        let rows = page
            .entries
            .iter()
            .map(|entry| format.row(&entry.json(), request.now))
            .collect::<Result<Vec<Value>, Status>>()?;
        let table = format.table(page.metadata(), &rows, true);
        let json = serde_json::to_vec(&table).map_err(Status::internal_error)?;
        return format.reply(StatusCode::OK, json.into());
    }
    if format.accept.media == MediaType::Protobuf {
        let (kind, api_version) = item_type(request, format);
        let mut outer = Map::new();
        outer.insert("kind".into(), format!("{kind}List").into());
        outer.insert("apiVersion".into(), api_version.into());
        outer.insert("metadata".into(), page.metadata());
        let mut reply =
            format.protobuf_list(&outer, page.entries.iter().map(|entry| entry.json_slice()))?;
        if format.is_audited {
            reply.audited_body = json_list(request, format, page)?.into_audited_body();
        }
        return Ok(reply);
    }
    let list = json_list(request, format, page)?;
    if format.is_streamable() {
        let total = list.bytes_total();
        return Ok(Reply::new(
            StatusCode::OK,
            format.accept.media.name(),
            ResponseBody::chunks(list, Some(total)),
        ));
    }
    format.reply(StatusCode::OK, list.into_bytes())
}

/// Kind and apiVersion of the items of a list.
fn item_type<'a>(context: &'a RequestContext<'_>, format: &ResponseFormat) -> (&'a str, &'a str) {
    match format.accept.representation {
        ObjectRepresentation::PartialObjectMetadata => {
            ("PartialObjectMetadata", format.accept.meta_version)
        }
        _ => (&context.resource.kind.name, &context.version.api_version),
    }
}

/// A list in JSON, of cached bytes where the response needs no conversion.
fn json_list(
    context: &RequestContext<'_>,
    format: &ResponseFormat,
    page: ListPage,
) -> Result<JsonListBody, Status> {
    let (kind, api_version) = item_type(context, format);
    let header = format!(
        "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{},\"items\":[",
        page.metadata()
    );
    let items = if format.sends_cached_bytes() {
        JsonListItems::Cached(page.entries.into(), context.version.encoder.clone())
    } else {
        JsonListItems::Rendered(
            page.entries
                .iter()
                .map(|entry| format.render_json(&entry.json(), context.now))
                .collect::<Result<VecDeque<Bytes>, Status>>()?,
        )
    };
    Ok(JsonListBody::new(header, items))
}

/// A list in JSON, sent in chunks that join the bytes of its items.
struct JsonListBody {
    header: Option<String>,
    items: JsonListItems,
    first: bool,
    done: bool,
}

/// The items of a list: cached entries, or JSON rendered for this response.
enum JsonListItems {
    Cached(VecDeque<Arc<CacheEntry>>, ObjectEncoder),
    Rendered(VecDeque<Bytes>),
}

const TAIL: &[u8] = b"]}\n";

impl JsonListBody {
    fn new(header: String, items: JsonListItems) -> JsonListBody {
        JsonListBody {
            header: Some(header),
            items,
            first: true,
            done: false,
        }
    }

    fn bytes_total(&self) -> u64 {
        let (count, bytes) = match &self.items {
            JsonListItems::Cached(entries, encoder) => (
                entries.len(),
                entries
                    .iter()
                    .map(|entry| encoder.list_item(entry.json_slice()).len() + 1)
                    .sum::<usize>(),
            ),
            JsonListItems::Rendered(items) => (items.len(), items.iter().map(Bytes::len).sum()),
        };
        let commas = count.saturating_sub(1);
        (self.header.as_ref().map_or(0, String::len) + bytes + commas + TAIL.len()) as u64
    }

    fn into_bytes(mut self) -> Bytes {
        let mut json = BytesMut::new();
        while let Some(chunk) = self.next_chunk() {
            json.extend_from_slice(&chunk);
        }
        json.freeze()
    }

    /// The list as a response body for the audit log.
    fn into_audited_body(self) -> AuditedBody {
        if self.bytes_total() > RESPONSE_BYTES_MAX as u64 {
            return AuditedBody::TooLong;
        }
        AuditedBody::Json(self.into_bytes())
    }

    /// Appends the next item; false when there is none.
    fn push_next_item(&mut self, chunk: &mut BytesMut) -> bool {
        let comma: &[u8] = if self.first { b"" } else { b"," };
        match &mut self.items {
            JsonListItems::Cached(entries, encoder) => {
                let Some(entry) = entries.pop_front() else {
                    return false;
                };
                chunk.put_slice(comma);
                chunk.put_u8(b'{');
                chunk.put_slice(encoder.list_item(entry.json_slice()));
            }
            JsonListItems::Rendered(items) => {
                let Some(item) = items.pop_front() else {
                    return false;
                };
                chunk.put_slice(comma);
                chunk.put_slice(&item);
            }
        }
        self.first = false;
        true
    }
}

impl BodyChunks for JsonListBody {
    fn next_chunk(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut chunk = BytesMut::new();
        if let Some(header) = self.header.take() {
            chunk.put_slice(header.as_bytes());
        }
        while chunk.len() < CHUNK_BYTES {
            if !self.push_next_item(&mut chunk) {
                chunk.put_slice(TAIL);
                self.done = true;
                break;
            }
        }
        Some(chunk.freeze())
    }
}
