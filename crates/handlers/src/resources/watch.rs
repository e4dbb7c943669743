//! `watch`: the stream of changes of a collection, as JSON lines or length-prefixed protobuf frames, with bookmarks.
//!
//! Entry point: `open_watch`, which registers a watcher at the cache (upstream: `handlers/watch.go`).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use rhumb_api::JsonObject;
use rhumb_cache::{
    CacheWatcher, HistoryError, WatchEnd, WatchEvent, WatchMessage, WatchRequest, WatchScope,
    WatchStart,
};
use rhumb_meta::{Clock, Revision, Status};
use rhumb_schema::protobuf::watch_frame;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};

use super::ResourceRequest;
use super::field_selector::field_selector;
use super::get::parse_resource_version;
use super::render::ResponseFormat;
use crate::http::{Reply, ResponseBody, protobuf_status};
use crate::request::{ALL_REPRESENTATIONS, ListOptions, MediaType, ObjectRepresentation};
use rhumb_registry::{RequestContext, WatchEventCounters, history_error_status};

/// How often a watch with `allowWatchBookmarks` gets a bookmark.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The minimum duration of a watch without `timeoutSeconds`; it is randomized up to twice this to spread reconnects.
const TIMEOUT_SECONDS_MIN: u64 = 1800;

/// Queued events are sent in one chunk of up to about this size.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) async fn watch(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let watch_stream = open_watch(request).await?;
    let media = match watch_stream.format.accept.media {
        MediaType::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    let stream = futures_util::stream::unfold(watch_stream, |mut watch_stream| async {
        let chunk = watch_stream.next_chunk().await?;
        Some((chunk, watch_stream))
    });
    Ok(Reply::new(
        StatusCode::OK,
        media,
        ResponseBody::stream(stream),
    ))
}

/// Opens the watch of a request.
pub async fn open_watch(request: &ResourceRequest<'_>) -> Result<WatchStream, Status> {
    let storage = request.storage()?;
    let format = ResponseFormat::negotiate(request, ALL_REPRESENTATIONS)?;
    let options = ListOptions::parse(request.query, true)?;
    let fields = field_selector(request, &options.field_selector)?;
    let start = watch_start(request, &options).await?;
    let scope = match (request.namespace(), request.path.name.as_deref()) {
        (namespace, Some(name)) => WatchScope::Object {
            namespace: namespace.map(Into::into),
            name: name.into(),
        },
        (Some(namespace), None) => WatchScope::Namespace(namespace.into()),
        (None, None) => WatchScope::All,
    };
    let watcher = storage.cache.watch(WatchRequest {
        start,
        scope,
        labels: options.label_selector.clone(),
        fields,
    });
    let watcher = match watcher {
        Ok(watcher) => WatchSource::Watcher(watcher),
        Err(HistoryError::Expired { oldest, .. }) => {
            WatchSource::Failed(expired_status(&options.resource_version, oldest))
        }
        Err(other) => return Err(history_error_status(other)),
    };
    Ok(WatchStream {
        source: watcher,
        encoding_key: format.encoding_key().into(),
        format,
        kind: request.resource.kind.name.to_string(),
        api_version: request.version.api_version.clone(),
        clock: request.registry.clock.clone(),
        timer: WatchTimer::new(
            watch_timeout(options.timeout_seconds),
            options.allow_bookmarks,
        ),
        sends_initial_events_end: options.send_initial_events == Some(true)
            && options.allow_bookmarks,
        columns_sent: false,
        counters: request.version.watch_event_counters.clone(),
        uncounted_bytes: 0,
    })
}

fn watch_timeout(seconds: Option<i64>) -> Duration {
    let seconds = match seconds {
        Some(seconds) => u64::try_from(seconds).unwrap_or(0),
        None => {
            let jitter = u64::from(uuid::Uuid::new_v4().as_bytes()[0]);
            TIMEOUT_SECONDS_MIN + TIMEOUT_SECONDS_MIN * jitter / 256
        }
    };
    // Limited, so that adding it to an `Instant` cannot overflow.
    Duration::from_secs(seconds.min(u64::from(u32::MAX)))
}

async fn watch_start(
    context: &RequestContext<'_>,
    options: &ListOptions,
) -> Result<WatchStart, Status> {
    let version = options.resource_version.as_str();
    match (options.send_initial_events, version) {
        (Some(true), "") => {
            context.registry.await_consistent(context).await?;
            Ok(WatchStart::InitialList)
        }
        (Some(true), "0") | (None, "0") => Ok(WatchStart::InitialList),
        (Some(true), version) => {
            context
                .registry
                .await_revision(parse_resource_version(version)?)
                .await?;
            Ok(WatchStart::InitialList)
        }
        (Some(false), "" | "0") => Ok(WatchStart::Latest),
        (None, "") => {
            context.registry.await_consistent(context).await?;
            Ok(WatchStart::InitialList)
        }
        (_, version) => Ok(WatchStart::After(parse_resource_version(version)?)),
    }
}

fn expired_status(version: &str, oldest: Revision) -> Status {
    Status::expired(format!("too old resource version: {version} ({oldest})"))
}

/// Where the events of a watch come from.
#[derive(Debug)]
enum WatchSource {
    Watcher(CacheWatcher),
    /// The watch could not start; the stream consists of one ERROR event.
    Failed(Status),
    Ended,
}

/// The encoded events of one watch: each frame is a line of JSON or a length-prefixed protobuf message.
#[derive(Debug)]
pub struct WatchStream {
    source: WatchSource,
    format: ResponseFormat,
    /// Key of the encoding, under which watches with equal frames share the encoded event.
    encoding_key: Arc<str>,
    kind: String,
    api_version: String,
    clock: Arc<dyn Clock>,
    timer: WatchTimer,
    sends_initial_events_end: bool,
    columns_sent: bool,
    counters: Arc<WatchEventCounters>,
    /// Bytes of frames that are not yet added to the metrics.
    uncounted_bytes: usize,
}

/// The bookmark interval and the timeout of a watch, in one timer. Events do not reset it.
#[derive(Debug)]
struct WatchTimer {
    sleep: Pin<Box<Sleep>>,
    end: Instant,
    with_bookmarks: bool,
}

/// What a `WatchTimer` fired for.
#[derive(Debug, PartialEq)]
enum WatchTimerEvent {
    Bookmark,
    Timeout,
}

impl WatchTimer {
    fn new(timeout: Duration, with_bookmarks: bool) -> WatchTimer {
        let end = Instant::now() + timeout;
        let mut timer = WatchTimer {
            sleep: Box::pin(tokio::time::sleep_until(end)),
            end,
            with_bookmarks,
        };
        timer.reset_bookmark();
        timer
    }

    /// Schedules the next bookmark a whole interval from now.
    fn reset_bookmark(&mut self) {
        if self.with_bookmarks {
            let bookmark = Instant::now() + BOOKMARK_INTERVAL;
            self.sleep.as_mut().reset(bookmark.min(self.end));
        }
    }

    fn is_expired(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Waits for the next bookmark or the timeout. Cancel safe.
    async fn next_due(&mut self) -> WatchTimerEvent {
        self.sleep.as_mut().await;
        if self.is_expired() || !self.with_bookmarks {
            return WatchTimerEvent::Timeout;
        }
        self.reset_bookmark();
        WatchTimerEvent::Bookmark
    }
}

impl WatchStream {
    /// The media type of the frames.
    pub fn media(&self) -> MediaType {
        self.format.accept.media
    }

    /// The next frame; `None` when the watch is over.
    pub async fn next(&mut self) -> Option<Bytes> {
        let frame = self.next_uncounted().await?;
        self.count(&frame);
        self.count_bytes();
        Some(frame)
    }

    fn count(&mut self, frame: &Bytes) {
        self.counters.count_event(frame.len());
        self.uncounted_bytes += frame.len();
    }

    fn count_bytes(&mut self) {
        let bytes = std::mem::take(&mut self.uncounted_bytes);
        if bytes > 0 {
            self.counters.add_bytes(bytes as u64);
        }
    }

    async fn next_uncounted(&mut self) -> Option<Bytes> {
        loop {
            // Checked here too: with events always queued, the timer below would never be polled.
            if self.timer.is_expired() {
                self.source = WatchSource::Ended;
            }
            let watcher = match &mut self.source {
                WatchSource::Ended => return None,
                WatchSource::Failed(status) => {
                    let frame = error_frame(&self.format, status);
                    self.source = WatchSource::Ended;
                    return Some(frame);
                }
                WatchSource::Watcher(watcher) => watcher,
            };
            let message = tokio::select! {
                biased;
                message = watcher.next() => message,
                due = self.timer.next_due() => {
                    if due == WatchTimerEvent::Timeout {
                        continue;
                    }
                    // No progress can be reported before all initial events are sent.
                    let Some(revision) = watcher.progress() else { continue };
                    return Some(self.bookmark(revision, false));
                }
            };
            if let Some(frame) = self.frame(message) {
                return Some(frame);
            }
        }
    }

    /// The next frame, together with those that are already queued.
    pub(super) async fn next_chunk(&mut self) -> Option<Bytes> {
        let first = self.next().await?;
        let mut chunk = BytesMut::new();
        while chunk.len() + first.len() < CHUNK_BYTES {
            let WatchSource::Watcher(watcher) = &mut self.source else {
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

    fn frame(&mut self, message: Result<WatchMessage, WatchEnd>) -> Option<Bytes> {
        match message {
            Ok(WatchMessage::Event(event)) => Some(self.event(&event)),
            Ok(WatchMessage::InitialEventsEnd(revision)) => self
                .sends_initial_events_end
                .then(|| self.bookmark(revision, true)),
            Err(WatchEnd::Expired) => {
                self.source = WatchSource::Ended;
                let status = Status::expired("the watch fell too far behind; list again");
                Some(error_frame(&self.format, &status))
            }
            Err(WatchEnd::Closing | WatchEnd::Removed) => {
                self.source = WatchSource::Ended;
                None
            }
        }
    }

    fn event(&mut self, event: &WatchEvent) -> Bytes {
        let kind = event.kind().as_str();
        let frame = if self.format.accept.representation == ObjectRepresentation::Table {
            // Tables cannot be shared: rows contain ages, and only the first table of a watch has columns.
            let table = self.table(&event.entry().json());
            table.map(|table| event_line(kind, &table))
        } else if self.format.accept.media == MediaType::Protobuf {
            event.get_or_encode(&self.encoding_key, || {
                let object = self.format.decoded(event.entry().json_slice())?;
                self.protobuf_frame(kind, &object)
            })
        } else if self.format.sends_cached_bytes() {
            Ok(event.frame())
        } else {
            event.get_or_encode(&self.encoding_key, || {
                let object = self
                    .format
                    .render_json(&event.entry().json(), self.clock.wall())?;
                Ok(event_line(kind, &object))
            })
        };
        frame.unwrap_or_else(|status| error_frame(&self.format, &status))
    }

    /// A table with one row. Only the first table of the watch has column definitions.
    fn table(&mut self, json: &Bytes) -> Result<Bytes, Status> {
        let now = self.clock.wall();
        let table = self
            .format
            .single_row_table(json, now, !self.columns_sent)?;
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
        let (kind, api_version) = match self.format.accept.representation {
            ObjectRepresentation::Object | ObjectRepresentation::Table => {
                (self.kind.as_str(), self.api_version.as_str())
            }
            ObjectRepresentation::PartialObjectMetadata => {
                ("PartialObjectMetadata", self.format.accept.meta_version)
            }
        };
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if self.format.accept.representation == ObjectRepresentation::Table {
            // As upstream does, a row of an object with nothing but a resourceVersion.
            return match self.table(&object.to_string().into()) {
                Ok(table) => event_line("BOOKMARK", &table),
                Err(status) => error_frame(&self.format, &status),
            };
        }
        match object {
            Value::Object(object) if self.format.accept.media == MediaType::Protobuf => self
                .protobuf_frame("BOOKMARK", &object)
                .unwrap_or_else(|status| error_frame(&self.format, &status)),
            object => json_line(&json!({"type": "BOOKMARK", "object": object})),
        }
    }

    fn protobuf_frame(&self, kind: &str, object: &JsonObject) -> Result<Bytes, Status> {
        let object = self.format.encode_protobuf(object)?;
        Ok(watch_frame(kind, &object).into())
    }
}

/// A watch event as a JSON line, around an encoded object.
fn event_line(kind: &str, object: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(object.len() + 40);
    frame.extend_from_slice(b"{\"type\":\"");
    frame.extend_from_slice(kind.as_bytes());
    frame.extend_from_slice(b"\",\"object\":");
    frame.extend_from_slice(object);
    frame.extend_from_slice(b"}\n");
    frame.freeze()
}

fn error_frame(format: &ResponseFormat, status: &Status) -> Bytes {
    if format.accept.media == MediaType::Protobuf
        && let Some(sealed) = protobuf_status(status)
    {
        return watch_frame("ERROR", &sealed).into();
    }
    json_line(&json!({"type": "ERROR", "object": status}))
}

fn json_line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events of a timer until its timeout, with their times in seconds.
    async fn timer_events(
        timeout_seconds: u64,
        with_bookmarks: bool,
    ) -> Vec<(u64, WatchTimerEvent)> {
        let started = Instant::now();
        let mut timer = WatchTimer::new(Duration::from_secs(timeout_seconds), with_bookmarks);
        let mut events = Vec::new();
        while !timer.is_expired() {
            let event = timer.next_due().await;
            events.push((started.elapsed().as_secs(), event));
        }
        events
    }

    #[tokio::test(start_paused = true)]
    async fn bookmarks_are_due_every_interval_until_the_timeout() {
        use WatchTimerEvent::{Bookmark, Timeout};
        assert_eq!(
            timer_events(150, true).await,
            [(60, Bookmark), (120, Bookmark), (150, Timeout)]
        );
        assert_eq!(timer_events(150, false).await, [(150, Timeout)]);
        assert_eq!(timer_events(30, true).await, [(30, Timeout)]);
        assert_eq!(timer_events(0, true).await, []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_bookmark_restarts_the_interval() {
        let started = Instant::now();
        let mut timer = WatchTimer::new(Duration::from_secs(1000), true);
        tokio::time::advance(Duration::from_secs(190)).await;
        assert_eq!(timer.next_due().await, WatchTimerEvent::Bookmark);
        assert_eq!(started.elapsed().as_secs(), 190);
        assert_eq!(timer.next_due().await, WatchTimerEvent::Bookmark);
        assert_eq!(started.elapsed().as_secs(), 250);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_a_wait_does_not_lose_the_bookmark() {
        let mut timer = WatchTimer::new(Duration::from_secs(1000), true);
        let timeout = Duration::from_secs(59);
        let event = tokio::time::timeout(timeout, timer.next_due()).await;
        assert!(event.is_err(), "no bookmark before the interval has passed");
        let event = tokio::time::timeout(Duration::from_secs(2), timer.next_due()).await;
        assert_eq!(event, Ok(WatchTimerEvent::Bookmark));
    }
}
