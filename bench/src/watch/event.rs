//! Parses watch events as far as the checks need, and splits a response body into lines.

use std::borrow::Cow;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;

use crate::pods;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchEventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

/// Watch event with the time of its arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedWatchEvent {
    pub(super) kind: WatchEventType,
    /// Pod number; 0 for a bookmark.
    pub(super) pod: u32,
    /// Application in the pod's label.
    pub(super) app: Option<u32>,
    pub(super) version: u64,
    pub(super) at: Instant,
}

#[derive(Deserialize)]
struct WatchEventJson<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: EventObjectJson<'a>,
}

#[derive(Deserialize)]
struct EventObjectJson<'a> {
    #[serde(borrow, default)]
    metadata: EventMetadataJson<'a>,
    /// Message of an ERROR event.
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventMetadataJson<'a> {
    name: Option<&'a str>,
    resource_version: Option<&'a str>,
    #[serde(borrow, default)]
    labels: EventLabelsJson<'a>,
}

#[derive(Default, Deserialize)]
struct EventLabelsJson<'a> {
    #[serde(rename = "spark-app-selector")]
    app: Option<&'a str>,
}

pub(super) fn parse(line: &[u8], at: Instant) -> Result<TimedWatchEvent> {
    let line: WatchEventJson<'_> =
        serde_json::from_slice(line).context("failed to parse a watch event")?;
    let metadata = line.object.metadata;
    let kind = match line.kind {
        "ADDED" => WatchEventType::Added,
        "MODIFIED" => WatchEventType::Modified,
        "DELETED" => WatchEventType::Deleted,
        "BOOKMARK" => WatchEventType::Bookmark,
        other => {
            let message = line.object.message.unwrap_or_default();
            bail!("{other} in a watch: {message}")
        }
    };
    let version = metadata.resource_version.unwrap_or_default().parse();
    let pod = match kind {
        WatchEventType::Bookmark => 0,
        _ => pods::index_of(metadata.name.unwrap_or_default())
            .context("watch event of an unknown pod")?,
    };
    Ok(TimedWatchEvent {
        kind,
        pod,
        app: metadata.labels.app.and_then(pods::app_of),
        version: version.context("watch event without a resourceVersion")?,
        at,
    })
}

/// Reads a body line by line; buffers only an incomplete last line.
pub(crate) struct BodyLineReader {
    body: Incoming,
    partial: Vec<u8>,
}

impl BodyLineReader {
    pub(crate) fn new(body: Incoming) -> Self {
        Self {
            body,
            partial: Vec::new(),
        }
    }

    /// Reads the next frame and calls `each` for every complete line; false at the end of the body.
    pub(crate) async fn next(&mut self, each: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let Some(frame) = self.body.frame().await else {
            return Ok(false);
        };
        if let Ok(data) = frame?.into_data() {
            split(&mut self.partial, &data, each)?;
        }
        Ok(true)
    }
}

fn split(
    partial: &mut Vec<u8>,
    data: &Bytes,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    for piece in data.split_inclusive(|byte| *byte == b'\n') {
        if !piece.ends_with(b"\n") {
            partial.extend_from_slice(piece);
        } else if partial.is_empty() {
            each(piece)?;
        } else {
            partial.extend_from_slice(piece);
            each(&std::mem::take(partial))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_event_is_parsed() {
        let line = br#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"pod-0000012",
            "labels":{"other":"x","spark-app-selector":"app-00034"},"resourceVersion":"56"},"spec":{}}}"#;
        let seen = parse(line, Instant::now()).expect("an event");
        assert_eq!(
            (seen.kind, seen.pod, seen.app, seen.version),
            (WatchEventType::Modified, 12, Some(34), 56)
        );
        let bookmark = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#;
        let seen = parse(bookmark, Instant::now()).expect("a bookmark");
        assert_eq!((seen.kind, seen.version), (WatchEventType::Bookmark, 7));
    }

    #[test]
    fn invalid_events_are_errors_with_the_reason() {
        let check = |line: &str, expected: &str| {
            let problem = parse(line.as_bytes(), Instant::now()).expect_err(line);
            let problem = format!("{problem:#}");
            assert!(problem.contains(expected), "{problem}");
        };
        check(
            r#"{"type":"ERROR","object":{"message":"too old \"1\""}}"#,
            "too old",
        );
        check(
            r#"{"type":"ADDED","object":{}}"#,
            "watch event of an unknown pod",
        );
        check(
            r#"{"type":"BOOKMARK","object":{}}"#,
            "without a resourceVersion",
        );
        check("{", "failed to parse");
    }

    #[test]
    fn lines_are_reassembled_from_any_chunks() {
        let text = b"one\ntwo\nthree\n";
        for first in 0..text.len() {
            let (mut partial, mut lines) = (Vec::new(), Vec::new());
            for piece in [&text[..first], &text[first..]] {
                let each = |line: &[u8]| {
                    lines.push(line.to_vec());
                    Ok(())
                };
                split(&mut partial, &Bytes::copy_from_slice(piece), each).expect("lines");
            }
            assert_eq!(
                lines,
                [&b"one\n"[..], b"two\n", b"three\n"],
                "cut at {first}"
            );
        }
    }
}
