//! When each measured pod got its node, as a watch tells it.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use super::objects::{self, MEASURED, ROLE};
use crate::client::{Endpoint, Http};
use crate::watch::Lines;

/// Pods that were seen and not looked at yet.
const WAITING_MAX: usize = 4096;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
struct Metadata<'a> {
    name: Option<&'a str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    node_name: Option<&'a str>,
}

pub(super) struct Bindings {
    seen: mpsc::Receiver<(usize, Instant)>,
    reader: JoinHandle<Result<Infallible>>,
}

impl Drop for Bindings {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Bindings {
    /// Watches from now on.
    pub(super) async fn watch(endpoint: &Endpoint) -> Result<Self> {
        let first = open(endpoint).await?;
        let endpoint = endpoint.clone();
        let (sender, seen) = mpsc::channel(WAITING_MAX);
        let reader = tokio::spawn(async move {
            tell(first, &sender).await?;
            // A server may end the watch of a client that it thinks is slow. A new one tells everything again.
            loop {
                tell(open(&endpoint).await?, &sender).await?;
            }
        });
        Ok(Self { seen, reader })
    }

    /// How long after `begun` each of so many pods was bound, in the order of that, up to the limit.
    pub(super) async fn collect(
        &mut self,
        pods: usize,
        begun: Instant,
        limit: Duration,
    ) -> Result<Vec<Duration>> {
        let mut is_bound = vec![false; pods];
        let mut times = Vec::with_capacity(pods);
        let end = (begun + limit).into();
        while times.len() < pods {
            let Ok(next) = timeout_at(end, self.seen.recv()).await else {
                break;
            };
            let Some((number, at)) = next else {
                match (&mut self.reader).await?? {}
            };
            let bound = is_bound.get_mut(number).context("a pod of no one here")?;
            if !std::mem::replace(bound, true) {
                times.push(at.saturating_duration_since(begun));
            }
        }
        Ok(times)
    }
}

async fn open(endpoint: &Endpoint) -> Result<Lines> {
    let path = format!(
        "/api/v1/pods?watch=true&labelSelector={}%3D{MEASURED}&fieldSelector=spec.nodeName%21%3D",
        ROLE.replace('/', "%2F")
    );
    Ok(Lines::new(endpoint.watch(&path, Http::Two).await?))
}

/// Tells what a watch says until it ends.
async fn tell(mut lines: Lines, to: &mpsc::Sender<(usize, Instant)>) -> Result<()> {
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

/// Which pod a line says has a node, if it says so.
fn parse(line: &[u8]) -> Result<Option<usize>> {
    let line: Line<'_> = serde_json::from_slice(line).context("an event that cannot be read")?;
    match line.kind {
        "ADDED" | "MODIFIED" => {}
        "DELETED" | "BOOKMARK" => return Ok(None),
        other => bail!("{other} in the watch of bound pods"),
    }
    if line.object.spec.node_name.is_none_or(str::is_empty) {
        return Ok(None);
    }
    let name = line.object.metadata.name.unwrap_or_default();
    let number = objects::number_of(name).context("a pod of no one here")?;
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_counts_when_it_has_a_node() {
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
