//! Watches bound pods and records when each measured pod got its node.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use super::objects::{self, MEASURED, ROLE};
use crate::client::{HttpVersion, ServerEndpoint};
use crate::watch::BodyLineReader;

/// Capacity of the channel of bound pods.
const WAITING_MAX: usize = 4096;

#[derive(Deserialize)]
struct PodWatchEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    #[serde(borrow)]
    object: WatchedPod<'a>,
}

#[derive(Deserialize)]
struct WatchedPod<'a> {
    #[serde(borrow, default)]
    metadata: WatchedPodMetadata<'a>,
    #[serde(borrow, default)]
    spec: WatchedPodSpec<'a>,
}

#[derive(Default, Deserialize)]
struct WatchedPodMetadata<'a> {
    name: Option<&'a str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchedPodSpec<'a> {
    node_name: Option<&'a str>,
}

pub(super) struct BindingWatcher {
    seen: mpsc::Receiver<(usize, Instant)>,
    reader: JoinHandle<Result<Infallible>>,
}

impl Drop for BindingWatcher {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl BindingWatcher {
    /// Starts the watch.
    pub(super) async fn watch(endpoint: &ServerEndpoint) -> Result<Self> {
        let first = open(endpoint).await?;
        let endpoint = endpoint.clone();
        let (sender, seen) = mpsc::channel(WAITING_MAX);
        let reader = tokio::spawn(async move {
            forward_bindings(first, &sender).await?;
            // A server may end the watch of a slow client. A new watch starts with all bound pods.
            loop {
                forward_bindings(open(&endpoint).await?, &sender).await?;
            }
        });
        Ok(Self { seen, reader })
    }

    /// Waits for `count` pods and returns the time from `begun` to each binding, ascending, up to the limit.
    pub(super) async fn collect(
        &mut self,
        pods: usize,
        started: Instant,
        limit: Duration,
    ) -> Result<Vec<Duration>> {
        let mut is_bound = vec![false; pods];
        let mut times = Vec::with_capacity(pods);
        let end = (started + limit).into();
        while times.len() < pods {
            let Ok(next) = timeout_at(end, self.seen.recv()).await else {
                break;
            };
            let Some((number, at)) = next else {
                match (&mut self.reader).await?? {}
            };
            let bound = is_bound
                .get_mut(number)
                .context("watch event of an unknown pod")?;
            if !std::mem::replace(bound, true) {
                times.push(at.saturating_duration_since(started));
            }
        }
        Ok(times)
    }
}

async fn open(endpoint: &ServerEndpoint) -> Result<BodyLineReader> {
    let path = format!(
        "/api/v1/pods?watch=true&labelSelector={}%3D{MEASURED}&fieldSelector=spec.nodeName%21%3D",
        ROLE.replace('/', "%2F")
    );
    Ok(BodyLineReader::new(
        endpoint.watch(&path, HttpVersion::Two).await?,
    ))
}

/// Forwards bound pods until the watch ends.
async fn forward_bindings(
    mut lines: BodyLineReader,
    to: &mpsc::Sender<(usize, Instant)>,
) -> Result<()> {
    let mut found = Vec::new();
    while lines
        .next(|line| {
            found.extend(parse(line)?);
            Ok(())
        })
        .await?
    {
        let at = Instant::now();
        for number in found.drain(..) {
            to.send((number, at)).await?;
        }
    }
    Ok(())
}

/// Number of the bound pod in a watch line, if any.
fn parse(line: &[u8]) -> Result<Option<usize>> {
    let line: PodWatchEvent<'_> =
        serde_json::from_slice(line).context("failed to parse a watch event")?;
    match line.kind {
        "ADDED" | "MODIFIED" => {}
        "DELETED" | "BOOKMARK" => return Ok(None),
        other => bail!("{other} in the watch of bound pods"),
    }
    if line.object.spec.node_name.is_none_or(str::is_empty) {
        return Ok(None);
    }
    let name = line.object.metadata.name.unwrap_or_default();
    let number = objects::number_of(name).context("watch event of an unknown pod")?;
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_counts_when_it_has_a_node() {
        let check = |kind: &str, spec: &str, expected| {
            let line = format!(
                r#"{{"type":"{kind}","object":{{"metadata":{{"name":"measured-000007"}},"spec":{spec}}}}}"#
            );
            assert_eq!(parse(line.as_bytes()).expect(&line), expected, "{line}");
        };
        check("ADDED", r#"{"nodeName":"n"}"#, Some(7));
        check("MODIFIED", r#"{"a":[1],"nodeName":"n"}"#, Some(7));
        check("ADDED", "{}", None);
        check("ADDED", r#"{"nodeName":""}"#, None);
        check("DELETED", r#"{"nodeName":"n"}"#, None);
        parse(br#"{"type":"ERROR","object":{"message":"too old"}}"#).expect_err("an error");
    }
}
