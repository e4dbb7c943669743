//! The lines of a watch, read no further than the checks need.

use std::borrow::Cow;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;

use crate::pods;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

/// One line of a watch as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) kind: Kind,
    /// Which pod; a bookmark has none.
    pub(super) pod: u32,
    /// Whose pod its label says it is.
    pub(super) app: Option<u32>,
    pub(super) version: u64,
    pub(super) at: Instant,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    /// What an error has to say.
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: Option<&'a str>,
    resource_version: Option<&'a str>,
    #[serde(borrow, default)]
    labels: Labels<'a>,
}

#[derive(Default, Deserialize)]
struct Labels<'a> {
    #[serde(rename = "spark-app-selector")]
    app: Option<&'a str>,
}

pub(super) fn parse(line: &[u8], at: Instant) -> Result<Seen> {
    let line: Line<'_> = serde_json::from_slice(line).context("an event that cannot be read")?;
    let metadata = line.object.metadata;
    let kind = match line.kind {
        "ADDED" => Kind::Added,
        "MODIFIED" => Kind::Modified,
        "DELETED" => Kind::Deleted,
        "BOOKMARK" => Kind::Bookmark,
        other => {
            let message = line.object.message.unwrap_or_default();
            bail!("{other} in a watch: {message}")
        }
    };
    let version = metadata.resource_version.unwrap_or_default().parse();
    let pod = match kind {
        Kind::Bookmark => 0,
        _ => pods::index_of(metadata.name.unwrap_or_default()).context("a pod of no one here")?,
    };
    Ok(Seen {
        kind,
        pod,
        app: metadata.labels.app.and_then(pods::app_of),
        version: version.context("an event without a version")?,
        at,
    })
}

/// Reads a body line by line, and keeps nothing between whole lines.
pub(crate) struct Lines {
    body: Incoming,
    partial: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(body: Incoming) -> Self {
        Self {
            body,
            partial: Vec::new(),
        }
    }

    /// Hands on each line of the next piece; false is the end.
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
    fn an_event_is_read() {
        let line = br#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"pod-0000012",
            "labels":{"other":"x","spark-app-selector":"app-00034"},"resourceVersion":"56"},"spec":{}}}"#;
        let seen = parse(line, Instant::now()).expect("an event");
        assert_eq!(
            (seen.kind, seen.pod, seen.app, seen.version),
            (Kind::Modified, 12, Some(34), 56)
        );
        let bookmark = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#;
        let seen = parse(bookmark, Instant::now()).expect("a bookmark");
        assert_eq!((seen.kind, seen.version), (Kind::Bookmark, 7));
    }

    #[test]
    fn what_is_no_event_is_an_error_that_says_why() {
        let check = |line: &str, expected: &str| {
            let problem = parse(line.as_bytes(), Instant::now()).expect_err(line);
            let problem = format!("{problem:#}");
            assert!(problem.contains(expected), "{problem}");
        };
        check(
            r#"{"type":"ERROR","object":{"message":"too old \"1\""}}"#,
            "too old",
        );
        check(r#"{"type":"ADDED","object":{}}"#, "a pod of no one here");
        check(r#"{"type":"BOOKMARK","object":{}}"#, "without a version");
        check("{", "cannot be read");
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
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
