//! The stream of changes of a collection.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use rhumb_api::Object;
use rhumb_cache::{Event, HistoryError, Message, Scope, Start, WatchEnd, WatchRequest, Watcher};
use rhumb_meta::{Clock, Revision, Status};
use rhumb_schema::protobuf::watch_frame;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};

use super::get::parse_version;
use super::list::field_selector;
use super::render::Shape;
use super::{Call, WatchEvents, history_status};
use crate::http::{Body, Reply, protobuf_status};
use crate::request::{ALL_FORMS, Form, ListOptions, Media};

/// How often a watcher that asked for bookmarks gets one.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// How long a watch lasts that names no limit: between this and twice this, so that not all end at once.
const TIMEOUT_SECONDS_MIN: u64 = 1800;

/// Events that are already there are sent together, up to about this much.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) async fn watch(call: &Call<'_>) -> Result<Reply, Status> {
    let frames = frames(call).await?;
    let media = match frames.shape.accept.media {
        Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    let stream = futures_util::stream::unfold(frames, |mut frames| async {
        let chunk = frames.next_chunk().await?;
        Some((chunk, frames))
    });
    Ok(Reply::new(StatusCode::OK, media, Body::stream(stream)))
}

/// The watch that a request asks for, as frames.
pub(crate) async fn frames(call: &Call<'_>) -> Result<Frames, Status> {
    let storage = call.storage()?;
    let shape = Shape::of(call, ALL_FORMS)?;
    let options = ListOptions::parse(call.query, true)?;
    let fields = field_selector(call, &options.field_selector)?;
    let start = start(call, &options).await?;
    let scope = match (call.namespace(), call.target.name.as_deref()) {
        (namespace, Some(name)) => Scope::Object {
            namespace: namespace.map(Into::into),
            name: name.into(),
        },
        (Some(namespace), None) => Scope::Namespace(namespace.into()),
        (None, None) => Scope::All,
    };
    let request = WatchRequest {
        start,
        scope,
        labels: options.label_selector.clone(),
        fields,
    };
    let watcher = match storage.cache.watch(request) {
        Ok(watcher) => Source::Watcher(watcher),
        Err(HistoryError::Expired { oldest, .. }) => {
            Source::Failed(expired(&options.resource_version, oldest))
        }
        Err(other) => return Err(history_status(other)),
    };
    Ok(Frames {
        source: watcher,
        form: shape.form_name().into(),
        shape,
        kind: call.resource.kind.name.to_string(),
        api_version: call.version.api_version.clone(),
        clock: call.api.clock.clone(),
        alarm: Alarm::new(timeout(options.timeout_seconds), options.allow_bookmarks),
        announces_initial_end: options.send_initial_events == Some(true) && options.allow_bookmarks,
        columns_sent: false,
        events: call.version.watch_events.clone(),
        uncounted_bytes: 0,
    })
}

fn timeout(seconds: Option<i64>) -> Duration {
    let seconds = match seconds {
        Some(seconds) => u64::try_from(seconds).unwrap_or(0),
        None => {
            let jitter = u64::from(uuid::Uuid::new_v4().as_bytes()[0]);
            TIMEOUT_SECONDS_MIN + TIMEOUT_SECONDS_MIN * jitter / 256
        }
    };
    // Far enough away to be never, near enough to be a time.
    Duration::from_secs(seconds.min(u64::from(u32::MAX)))
}

async fn start(call: &Call<'_>, options: &ListOptions) -> Result<Start, Status> {
    let version = options.resource_version.as_str();
    match (options.send_initial_events, version) {
        (Some(true), "") => {
            call.api.fresh(call).await?;
            Ok(Start::List)
        }
        (Some(true), "0") | (None, "0") => Ok(Start::List),
        (Some(true), version) => {
            call.api.not_older_than(parse_version(version)?).await?;
            Ok(Start::List)
        }
        (Some(false), "" | "0") => Ok(Start::Latest),
        (None, "") => {
            call.api.fresh(call).await?;
            Ok(Start::List)
        }
        (_, version) => Ok(Start::After(parse_version(version)?)),
    }
}

fn expired(version: &str, oldest: Revision) -> Status {
    Status::expired(format!("too old resource version: {version} ({oldest})"))
}

#[derive(Debug)]
enum Source {
    Watcher(Watcher),
    /// The watch could not begin; a stream says so with an event.
    Failed(Status),
    Ended,
}

/// The frames of one watch, each a line of JSON or a message with its length before it.
#[derive(Debug)]
pub(crate) struct Frames {
    source: Source,
    shape: Shape,
    /// What all watches with frames of the same form call it.
    form: Arc<str>,
    kind: String,
    api_version: String,
    clock: Arc<dyn Clock>,
    alarm: Alarm,
    announces_initial_end: bool,
    columns_sent: bool,
    events: Arc<WatchEvents>,
    /// Of frames that were made since the bytes were last counted.
    uncounted_bytes: usize,
}

/// What a watch does though nothing changes: it tells how far it is, and ends. One timer serves for both, and stays as it
/// is when events come.
#[derive(Debug)]
struct Alarm {
    timer: Pin<Box<Sleep>>,
    end: Instant,
    with_bookmarks: bool,
}

#[derive(Debug, PartialEq)]
enum Due {
    Bookmark,
    End,
}

impl Alarm {
    fn new(timeout: Duration, with_bookmarks: bool) -> Alarm {
        let end = Instant::now() + timeout;
        let mut alarm = Alarm {
            timer: Box::pin(tokio::time::sleep_until(end)),
            end,
            with_bookmarks,
        };
        alarm.wind_up();
        alarm
    }

    /// From now on there is no bookmark for a whole interval.
    fn wind_up(&mut self) {
        if self.with_bookmarks {
            let bookmark = Instant::now() + BOOKMARK_INTERVAL;
            self.timer.as_mut().reset(bookmark.min(self.end));
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Waits for what is due next.
    async fn rings(&mut self) -> Due {
        self.timer.as_mut().await;
        if self.is_over() || !self.with_bookmarks {
            return Due::End;
        }
        self.wind_up();
        Due::Bookmark
    }
}

impl Frames {
    /// What the frames are written in.
    pub(crate) fn media(&self) -> Media {
        self.shape.accept.media
    }

    /// The next frame; `None` when the watch is over.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let frame = self.make_next().await?;
        self.count(&frame);
        self.count_bytes();
        Some(frame)
    }

    fn count(&mut self, frame: &Bytes) {
        self.events.count(frame.len());
        self.uncounted_bytes += frame.len();
    }

    fn count_bytes(&mut self) {
        let bytes = std::mem::take(&mut self.uncounted_bytes);
        if bytes > 0 {
            self.events.add_bytes(bytes as u64);
        }
    }

    async fn make_next(&mut self) -> Option<Bytes> {
        loop {
            // A watch that always has something to tell ends in time too.
            if self.alarm.is_over() {
                self.source = Source::Ended;
            }
            let watcher = match &mut self.source {
                Source::Ended => return None,
                Source::Failed(status) => {
                    let frame = error_frame(&self.shape, status);
                    self.source = Source::Ended;
                    return Some(frame);
                }
                Source::Watcher(watcher) => watcher,
            };
            let message = tokio::select! {
                biased;
                message = watcher.next() => message,
                due = self.alarm.rings() => {
                    if due == Due::End {
                        continue;
                    }
                    // Before all initial objects are told, no revision is complete.
                    let Some(revision) = watcher.progress() else { continue };
                    return Some(self.bookmark(revision, false));
                }
            };
            if let Some(frame) = self.frame(message) {
                return Some(frame);
            }
        }
    }

    /// The next frames, those that are already there together.
    pub(super) async fn next_chunk(&mut self) -> Option<Bytes> {
        let first = self.next().await?;
        let mut chunk = BytesMut::new();
        while chunk.len() + first.len() < CHUNK_BYTES {
            let Source::Watcher(watcher) = &mut self.source else {
                break;
            };
            let message = match watcher.try_next() {
                Ok(None) => break,
                Ok(Some(message)) => Ok(message),
                Err(end) => Err(end),
            };
            if chunk.is_empty() {
                chunk.extend_from_slice(&first);
            }
            if let Some(frame) = self.frame(message) {
                self.count(&frame);
                chunk.extend_from_slice(&frame);
            }
        }
        self.count_bytes();
        Some(if chunk.is_empty() {
            first
        } else {
            chunk.freeze()
        })
    }

    fn frame(&mut self, message: Result<Message, WatchEnd>) -> Option<Bytes> {
        match message {
            Ok(Message::Event(event)) => Some(self.event(&event)),
            Ok(Message::InitialEnd(revision)) => self
                .announces_initial_end
                .then(|| self.bookmark(revision, true)),
            Err(WatchEnd::Expired) => {
                self.source = Source::Ended;
                let status = Status::expired("the watch fell too far behind; list again");
                Some(error_frame(&self.shape, &status))
            }
            Err(WatchEnd::Closing | WatchEnd::Removed) => {
                self.source = Source::Ended;
                None
            }
        }
    }

    fn event(&mut self, event: &Event) -> Bytes {
        let kind = event.kind().as_str();
        let frame = if self.shape.accept.form == Form::Table {
            // Rows tell ages, and only the first table has columns: each watcher has its own.
            let table = self.table(&event.entry().json());
            table.map(|table| typed_line(kind, &table))
        } else if self.shape.accept.media == Media::Protobuf {
            event.form(&self.form, || {
                let object = self.shape.tree(event.entry().json_slice())?;
                self.sealed(kind, &object)
            })
        } else if self.shape.is_plain() {
            Ok(event.frame())
        } else {
            event.form(&self.form, || {
                let object = self
                    .shape
                    .object(&event.entry().json(), self.clock.wall())?;
                Ok(typed_line(kind, &object))
            })
        };
        frame.unwrap_or_else(|status| error_frame(&self.shape, &status))
    }

    /// A table of one row. Only the first has the columns.
    fn table(&mut self, json: &Bytes) -> Result<Bytes, Status> {
        let now = self.clock.wall();
        let table = self.shape.table_of_one(json, now, !self.columns_sent)?;
        self.columns_sent = true;
        serde_json::to_vec(&table)
            .map(Bytes::from)
            .map_err(Status::internal_error)
    }

    fn bookmark(&mut self, revision: Revision, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.shape.accept.form {
            Form::Object | Form::Table => (self.kind.as_str(), self.api_version.as_str()),
            Form::Metadata => ("PartialObjectMetadata", self.shape.accept.meta_version),
        };
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if self.shape.accept.form == Form::Table {
            // A row of an object that has nothing but its version, as upstream has it.
            return match self.table(&object.to_string().into()) {
                Ok(table) => typed_line("BOOKMARK", &table),
                Err(status) => error_frame(&self.shape, &status),
            };
        }
        match object {
            Value::Object(object) if self.shape.accept.media == Media::Protobuf => self
                .sealed("BOOKMARK", &object)
                .unwrap_or_else(|status| error_frame(&self.shape, &status)),
            object => line(&json!({"type": "BOOKMARK", "object": object})),
        }
    }

    fn sealed(&self, kind: &str, object: &Object) -> Result<Bytes, Status> {
        let object = self.shape.seal(object)?;
        Ok(watch_frame(kind, &object).into())
    }
}

/// An event with an object that is written already.
fn typed_line(kind: &str, object: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(object.len() + 40);
    frame.extend_from_slice(b"{\"type\":\"");
    frame.extend_from_slice(kind.as_bytes());
    frame.extend_from_slice(b"\",\"object\":");
    frame.extend_from_slice(object);
    frame.extend_from_slice(b"}\n");
    frame.freeze()
}

fn error_frame(shape: &Shape, status: &Status) -> Bytes {
    if shape.accept.media == Media::Protobuf
        && let Some(sealed) = protobuf_status(status)
    {
        return watch_frame("ERROR", &sealed).into();
    }
    line(&json!({"type": "ERROR", "object": status}))
}

fn line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What rings when, in seconds, until the end.
    async fn rings(timeout_seconds: u64, with_bookmarks: bool) -> Vec<(u64, Due)> {
        let begun = Instant::now();
        let mut alarm = Alarm::new(Duration::from_secs(timeout_seconds), with_bookmarks);
        let mut rung = Vec::new();
        while !alarm.is_over() {
            let due = alarm.rings().await;
            rung.push((begun.elapsed().as_secs(), due));
        }
        rung
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_tells_how_far_it_is_until_it_ends() {
        use Due::{Bookmark, End};
        assert_eq!(
            rings(150, true).await,
            [(60, Bookmark), (120, Bookmark), (150, End)]
        );
        assert_eq!(rings(150, false).await, [(150, End)]);
        assert_eq!(rings(30, true).await, [(30, End)]);
        assert_eq!(rings(0, true).await, []);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_late_bookmark_there_is_none_for_a_whole_interval() {
        let begun = Instant::now();
        let mut alarm = Alarm::new(Duration::from_secs(1000), true);
        tokio::time::advance(Duration::from_secs(190)).await;
        assert_eq!(alarm.rings().await, Due::Bookmark);
        assert_eq!(begun.elapsed().as_secs(), 190);
        assert_eq!(alarm.rings().await, Due::Bookmark);
        assert_eq!(begun.elapsed().as_secs(), 250);
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_listening_misses_nothing() {
        let mut alarm = Alarm::new(Duration::from_secs(1000), true);
        let patience = Duration::from_secs(59);
        let rung = tokio::time::timeout(patience, alarm.rings()).await;
        assert!(rung.is_err(), "it is not due yet");
        let rung = tokio::time::timeout(Duration::from_secs(2), alarm.rings()).await;
        assert_eq!(rung, Ok(Due::Bookmark));
    }
}
