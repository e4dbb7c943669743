//! Pods that come, change, move from one application to another and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::history::Change;
use super::load::{Pace, WRITERS};
use crate::client::{Connection, Endpoint};
use crate::pods::{self, LABEL, NAMESPACES};

/// A writer keeps about this many pods.
const PODS_MAX: usize = 16;

/// One pod of this many that move is left without an application.
const LOST_SHARE: usize = 8;

/// Makes so many changes, and gives them back as the server answered them.
pub(super) async fn run(
    endpoint: &Endpoint,
    first_pod: usize,
    changes: usize,
    apps: usize,
    per_second: f64,
) -> Result<Vec<Change>> {
    let pace = Pace::new(0..changes, per_second);
    let next_pod = Arc::new(AtomicUsize::new(first_pod));
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let mut writer = Writer {
            connection: endpoint.connect().await?,
            chance: Chance(number as u64 + 1),
            next_pod: next_pod.clone(),
            apps,
            pods: Vec::new(),
        };
        let pace = pace.clone();
        writers.spawn(async move {
            let mut changes = Vec::new();
            while let Some(turn) = pace.turn().await {
                changes.push(writer.change(turn).await?);
            }
            anyhow::Ok(changes)
        });
    }
    let mut all = Vec::new();
    while let Some(changes) = writers.join_next().await {
        all.extend(changes??);
    }
    Ok(all)
}

/// The same numbers in each run, well mixed.
struct Chance(u64);

impl Chance {
    /// A number below this one, which is not zero.
    fn below(&mut self, end: usize) -> usize {
        // The finalizer of splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// A pod that is there, and whose it is now.
#[derive(Clone, Copy)]
struct Pod {
    index: usize,
    /// Its namespace is that of the application it was made for.
    home: usize,
    app: Option<usize>,
}

struct Writer {
    connection: Connection,
    chance: Chance,
    next_pod: Arc<AtomicUsize>,
    apps: usize,
    /// Nobody else changes them, so there are no conflicts.
    pods: Vec<Pod>,
}

impl Writer {
    async fn change(&mut self, turn: usize) -> Result<Change> {
        let (count, kind) = (self.pods.len(), self.chance.below(100));
        match kind {
            _ if count == 0 => self.create().await,
            _ if count >= PODS_MAX => self.delete().await,
            0..30 => self.create().await,
            30..55 => self.relabel().await,
            55..75 => self.update(turn).await,
            _ => self.delete().await,
        }
    }

    async fn create(&mut self) -> Result<Change> {
        let index = self.next_pod.fetch_add(1, Ordering::Relaxed);
        let app = self.chance.below(self.apps);
        let pod = Pod {
            index,
            home: app,
            app: Some(app),
        };
        let (path, body) = (pods::collection(app), pods::pending(index, app));
        let answer = self.connection.ask(Method::POST, &path, body).await?;
        self.pods.push(pod);
        pod.changed(&answer)
    }

    /// To another application of the same namespace, or to none.
    async fn relabel(&mut self) -> Result<Change> {
        let chosen = self.chance.below(self.pods.len());
        let mut pod = self.pods[chosen];
        let first = pod.home % NAMESPACES;
        let neighbours = (self.apps - first).div_ceil(NAMESPACES);
        let other = first + NAMESPACES * self.chance.below(neighbours);
        let lost = self.chance.below(LOST_SHARE) == 0 || pod.app == Some(other);
        pod.app = match (lost, pod.app) {
            (true, Some(_)) => None,
            _ => Some(other),
        };
        let label: Value = pod.app.map(pods::app_name).into();
        let change = self
            .patch(pod, json!({"metadata": {"labels": {LABEL: label}}}))
            .await?;
        self.pods[chosen] = pod;
        Ok(change)
    }

    async fn update(&mut self, turn: usize) -> Result<Change> {
        let pod = self.pods[self.chance.below(self.pods.len())];
        let annotations = json!({"example.com/turn": turn.to_string()});
        self.patch(pod, json!({"metadata": {"annotations": annotations}}))
            .await
    }

    async fn patch(&mut self, pod: Pod, patch: Value) -> Result<Change> {
        let patch = patch.to_string().into();
        let answer = self.connection.patch(&pod.path(), patch).await?;
        pod.changed(&answer)
    }

    async fn delete(&mut self) -> Result<Change> {
        let chosen = self.chance.below(self.pods.len());
        let pod = self.pods.swap_remove(chosen);
        let path = format!("{}?gracePeriodSeconds=0", pod.path());
        self.connection
            .ask(Method::DELETE, &path, Bytes::new())
            .await?;
        Ok(Change {
            pod: u32::try_from(pod.index)?,
            app: None,
            version: None,
        })
    }
}

impl Pod {
    fn path(self) -> String {
        format!("{}/{}", pods::collection(self.home), pods::name(self.index))
    }

    fn changed(self, answer: &[u8]) -> Result<Change> {
        let answer: Value = serde_json::from_slice(answer)?;
        let version = answer["metadata"]["resourceVersion"].as_str();
        let version = version.context("an answer without a version")?.parse()?;
        Ok(Change {
            pod: u32::try_from(self.index)?,
            app: self.app.map(u32::try_from).transpose()?,
            version: Some(version),
        })
    }
}
