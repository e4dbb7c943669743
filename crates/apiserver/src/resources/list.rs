//! GET of a collection.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use rhumb_cache::{Asked, Cache, Entry, HistoryError, Snapshot};
use rhumb_meta::{ObjectKey, Revision, Status, fields};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::get::{await_version, parse_version};
use super::render::Shape;
use super::{Call, Storage, history_status};
use crate::audit::ANSWER_BYTES_MAX;
use crate::http::{Body, Chunks, Logged, Reply};
use crate::objects::Encoder;
use crate::request::{ALL_FORMS, Form, ListOptions, Media, VersionMatch};

/// About how much of a long list is made at a time.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) async fn list(call: &Call<'_>) -> Result<Reply, Status> {
    let shape = Shape::of(call, ALL_FORMS)?;
    let options = ListOptions::parse(call.query, false)?;
    let page = select(call, &options).await?;
    reply(call, &shape, page)
}

/// One page of a list.
pub(super) struct Page {
    pub(super) entries: Vec<Arc<Entry>>,
    pub(super) revision: Revision,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

/// What a continue token says: upstream's form.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Token {
    v: String,
    /// -1 goes on from whatever there is now.
    rv: i64,
    start: String,
    /// How many objects of that version are left. Counting them for each page would make a long list of many
    /// pages dear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
}

const TOKEN_FORM: &str = "meta.k8s.io/v1";

/// The objects that the options pick.
pub(super) async fn select(call: &Call<'_>, options: &ListOptions) -> Result<Page, Status> {
    let storage = call.storage()?;
    let fields = field_selector(call, &options.field_selector)?;
    let place = if options.continue_token.is_empty() {
        Place {
            snapshot: first_snapshot(call, storage, options).await?,
            after: None,
            left: None,
        }
    } else {
        next_place(call, storage, options).await?
    };
    Ok(take_page(&storage.cache, call, options, &fields, &place))
}

/// Where a page begins.
struct Place {
    snapshot: Snapshot,
    after: Option<ObjectKey>,
    /// How many objects there are from here on, where that is known.
    left: Option<usize>,
}

/// The field selector, if the kind knows all the fields in it.
pub(super) fn field_selector(call: &Call<'_>, text: &str) -> Result<fields::Selector, Status> {
    let kind = &call.resource.kind;
    let selector =
        fields::Selector::parse(text).map_err(|error| Status::bad_request(error.to_string()))?;
    for requirement in selector.requirements().unwrap_or_default() {
        let field = requirement.field();
        let known = field == "metadata.name"
            || (field == "metadata.namespace" && kind.is_namespaced())
            || kind
                .selectable
                .iter()
                .any(|selectable| selectable.name == field);
        if !known {
            return Err(Status::bad_request(unknown_field(call, field)));
        }
    }
    Ok(selector)
}

fn unknown_field(call: &Call<'_>, field: &str) -> String {
    if call.resource.kind.selectable.is_empty() {
        format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {field}")
    }
}

async fn first_snapshot(
    call: &Call<'_>,
    storage: &Storage,
    options: &ListOptions,
) -> Result<Snapshot, Status> {
    let version = options.resource_version.as_str();
    // A limit without a match means exactly that version, but for 0, as upstream has it.
    let exact = match options.version_match {
        Some(VersionMatch::Exact) => true,
        Some(VersionMatch::NotOlderThan) => false,
        None => options.limit.is_some() && !matches!(version, "" | "0"),
    };
    if !exact {
        await_version(call, version).await.map_err(of_a_list)?;
        return Ok(storage.cache.snapshot());
    }
    let revision = parse_version(version).map_err(of_a_list)?;
    call.api.not_older_than(revision).await?;
    storage
        .cache
        .snapshot_at(revision)
        .map_err(|error| match error {
            HistoryError::Expired { .. } => {
                Status::expired("The resourceVersion for the provided list is too old.")
            }
            other => history_status(other),
        })
}

/// A version that is none is told in more words where it is a list's.
fn of_a_list(mut status: Status) -> Status {
    if status.code == i32::from(StatusCode::BAD_REQUEST.as_u16()) {
        status.message = format!("invalid resource version: {}", status.message);
    }
    status
}

/// Where a continue token goes on.
async fn next_place(
    call: &Call<'_>,
    storage: &Storage,
    options: &ListOptions,
) -> Result<Place, Status> {
    if !matches!(options.resource_version.as_str(), "" | "0") {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let (token, after) = read_token(call, &options.continue_token)?;
    if token.rv < 0 {
        call.api.fresh(call).await?;
        return Ok(Place {
            snapshot: storage.cache.snapshot(),
            after: Some(after),
            left: None,
        });
    }
    let revision = Revision::new(token.rv.unsigned_abs());
    // The token may come from another server on the same store, which was further.
    call.api.not_older_than(revision).await?;
    match storage.cache.snapshot_at(revision) {
        Ok(snapshot) => Ok(Place {
            snapshot,
            after: Some(after),
            left: token.left,
        }),
        Err(HistoryError::Expired { .. }) => {
            let again = write_token(&Token {
                rv: -1,
                left: None,
                ..token
            });
            Err(Status::expired(TOKEN_EXPIRED).with_continue(again))
        }
        Err(other) => Err(history_status(other)),
    }
}

const TOKEN_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

fn write_token(token: &Token) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(token).unwrap_or_default())
}

fn read_token(call: &Call<'_>, text: &str) -> Result<(Token, ObjectKey), Status> {
    let invalid = |reason: &str| {
        Status::bad_request(format!(
            "invalid continue token: continue key is not valid: {reason}"
        ))
    };
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|error| invalid(&not_base64(&error)))?;
    rhumb_schema::check_json(&bytes).map_err(|error| invalid(&error.to_string()))?;
    let token: Token =
        serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
    if token.v != TOKEN_FORM {
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
    // The key is of the list's own scope: a token never leads out of the namespace that was asked for.
    let name = token.start.trim_end_matches('\0');
    let key = match (call.resource.kind.is_namespaced(), call.namespace()) {
        (true, None) => match name.split_once('/') {
            Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
            None => return Err(invalid(&token.start)),
        },
        (_, namespace) => ObjectKey::new(namespace, name),
    };
    let key = key.map_err(|_| invalid(&token.start))?;
    Ok((token, key))
}

/// Where a text is no base64, in Go's words.
fn not_base64(error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
            *at
        }
        base64::DecodeError::InvalidLength(length) => length.saturating_sub(1),
        base64::DecodeError::InvalidPadding => 0,
    };
    format!("illegal base64 data at input byte {at}")
}

fn take_page(
    cache: &Cache,
    call: &Call<'_>,
    options: &ListOptions,
    fields: &fields::Selector,
    place: &Place,
) -> Page {
    let snapshot = &place.snapshot;
    // Whoever takes any version gets what is in memory, all of it, as upstream has it.
    let any_version = options.resource_version == "0" && options.continue_token.is_empty();
    let limit = options.limit.filter(|_| !any_version).unwrap_or(usize::MAX);
    let selective = !options.label_selector.is_everything() || !fields.is_everything();
    let asked = Asked {
        namespace: call.namespace(),
        after: place.after.as_ref(),
        labels: &options.label_selector,
        fields,
        limit,
    };
    let mut matching = cache.select(snapshot, &asked);
    let entries: Vec<Arc<Entry>> = matching.by_ref().take(limit).cloned().collect();
    let last = (entries.len() == limit).then(|| entries.last()).flatten();
    let more = last.is_some() && matching.next().is_some();
    // Upstream counts what remains only where that is exact without reading on.
    let remaining = (more && !selective).then(|| match place.left {
        Some(left) => left.saturating_sub(entries.len()),
        None => 1 + matching.by_ref().count(),
    });
    let continue_token = last.filter(|_| more).map(|last| {
        let start = match call.namespace() {
            Some(_) => last.key().name(),
            None => last.key().as_str(),
        };
        write_token(&Token {
            v: TOKEN_FORM.into(),
            rv: i64::try_from(snapshot.revision().get()).unwrap_or(i64::MAX),
            start: format!("{start}\0"),
            left: remaining,
        })
    });
    Page {
        revision: snapshot.revision(),
        entries,
        continue_token,
        remaining,
    }
}

impl Page {
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

pub(super) fn reply(call: &Call<'_>, shape: &Shape, page: Page) -> Result<Reply, Status> {
    shape.check_list()?;
    if shape.accept.form == Form::Table {
        let rows = page
            .entries
            .iter()
            .map(|entry| shape.row(&entry.json(), call.now))
            .collect::<Result<Vec<Value>, Status>>()?;
        let table = shape.table(page.metadata(), &rows, true);
        let json = serde_json::to_vec(&table).map_err(Status::internal_error)?;
        return shape.reply(StatusCode::OK, json.into());
    }
    if shape.accept.media == Media::Protobuf {
        let (kind, api_version) = item_type(call, shape);
        let mut outer = Map::new();
        outer.insert("kind".into(), format!("{kind}List").into());
        outer.insert("apiVersion".into(), api_version.into());
        outer.insert("metadata".into(), page.metadata());
        let mut reply =
            shape.seal_list(&outer, page.entries.iter().map(|entry| entry.json_slice()))?;
        if shape.is_logged {
            reply.logged = json_list(call, shape, page)?.logged();
        }
        return Ok(reply);
    }
    let list = json_list(call, shape, page)?;
    if shape.is_streamable() {
        let total = list.bytes_total();
        return Ok(Reply::new(
            StatusCode::OK,
            shape.accept.media.name(),
            Body::chunks(list, Some(total)),
        ));
    }
    shape.reply(StatusCode::OK, list.into_bytes())
}

/// The kind of the items of a list, and its version.
fn item_type<'a>(call: &'a Call<'_>, shape: &Shape) -> (&'a str, &'a str) {
    match shape.accept.form {
        Form::Metadata => ("PartialObjectMetadata", shape.accept.meta_version),
        _ => (&call.resource.kind.name, &call.version.api_version),
    }
}

fn json_list(call: &Call<'_>, shape: &Shape, page: Page) -> Result<List, Status> {
    let (kind, api_version) = item_type(call, shape);
    let head = format!(
        "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{},\"items\":[",
        page.metadata()
    );
    let items = if shape.is_plain() {
        Items::Cached(page.entries.into(), call.version.encoder.clone())
    } else {
        Items::Made(
            page.entries
                .iter()
                .map(|entry| shape.object(&entry.json(), call.now))
                .collect::<Result<VecDeque<Bytes>, Status>>()?,
        )
    };
    Ok(List::new(head, items))
}

/// A list on its way out: the cached bytes of its items, joined as they are sent.
struct List {
    head: Option<String>,
    items: Items,
    first: bool,
    done: bool,
}

enum Items {
    Cached(VecDeque<Arc<Entry>>, Encoder),
    Made(VecDeque<Bytes>),
}

const TAIL: &[u8] = b"]}\n";

impl List {
    fn new(head: String, items: Items) -> List {
        List {
            head: Some(head),
            items,
            first: true,
            done: false,
        }
    }

    fn bytes_total(&self) -> u64 {
        let (count, bytes) = match &self.items {
            Items::Cached(entries, encoder) => (
                entries.len(),
                entries
                    .iter()
                    .map(|entry| encoder.item(entry.json_slice()).len() + 1)
                    .sum::<usize>(),
            ),
            Items::Made(items) => (items.len(), items.iter().map(Bytes::len).sum()),
        };
        let commas = count.saturating_sub(1);
        (self.head.as_ref().map_or(0, String::len) + bytes + commas + TAIL.len()) as u64
    }

    fn into_bytes(mut self) -> Bytes {
        let mut json = BytesMut::new();
        while let Some(chunk) = self.next() {
            json.extend_from_slice(&chunk);
        }
        json.freeze()
    }

    /// The list as the audit log shows it.
    fn logged(self) -> Logged {
        if self.bytes_total() > ANSWER_BYTES_MAX as u64 {
            return Logged::TooLong;
        }
        Logged::Json(self.into_bytes())
    }

    /// Appends the next item; false when there is none.
    fn put_next(&mut self, chunk: &mut BytesMut) -> bool {
        let comma: &[u8] = if self.first { b"" } else { b"," };
        match &mut self.items {
            Items::Cached(entries, encoder) => {
                let Some(entry) = entries.pop_front() else {
                    return false;
                };
                chunk.put_slice(comma);
                chunk.put_u8(b'{');
                chunk.put_slice(encoder.item(entry.json_slice()));
            }
            Items::Made(items) => {
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

impl Chunks for List {
    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut chunk = BytesMut::new();
        if let Some(head) = self.head.take() {
            chunk.put_slice(head.as_bytes());
        }
        while chunk.len() < CHUNK_BYTES {
            if !self.put_next(&mut chunk) {
                chunk.put_slice(TAIL);
                self.done = true;
                break;
            }
        }
        Some(chunk.freeze())
    }
}
