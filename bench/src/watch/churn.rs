//! Churn load: creates, updates, relabels and deletes pods at a constant rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::history::AcknowledgedWrite;
use super::load::{RateLimiter, WRITERS};
use crate::client::{ApiConnection, ServerEndpoint};
use crate::pods::{self, LABEL, NAMESPACES};

/// Maximum number of pods of a writer.
const PODS_MAX: usize = 16;

/// One relabel in this many removes the application label.
const LOST_SHARE: usize = 8;

/// Makes `changes` writes and returns them as acknowledged by the server.
pub(super) async fn run(
    endpoint: &ServerEndpoint,
    first_pod: usize,
    changes: usize,
    apps: usize,
    per_second: f64,
) -> Result<Vec<AcknowledgedWrite>> {
    let pace = RateLimiter::new(0..changes, per_second);
    let next_pod = Arc::new(AtomicUsize::new(first_pod));
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let mut writer = ChurnWriter {
            connection: endpoint.connect().await?,
            chance: fastrand::Rng::with_seed(number as u64 + 1),
            next_pod: next_pod.clone(),
            apps,
            pods: Vec::new(),
        };
        let pace = pace.clone();
        writers.spawn(async move {
            let mut changes = Vec::new();
            while let Some(next_index) = pace.next_index().await {
                changes.push(writer.change(next_index).await?);
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

/// Existing pod and its current application.
#[derive(Clone, Copy)]
struct ChurnPod {
    index: usize,
    /// Application it was created for, which determines its namespace.
    home: usize,
    app: Option<usize>,
}

struct ChurnWriter {
    connection: ApiConnection,
    chance: fastrand::Rng,
    next_pod: Arc<AtomicUsize>,
    apps: usize,
    /// Only this writer changes these pods, so there are no conflicts.
    pods: Vec<ChurnPod>,
}

impl ChurnWriter {
    async fn change(&mut self, next_index: usize) -> Result<AcknowledgedWrite> {
        let (count, kind) = (self.pods.len(), self.chance.usize(..100));
        match kind {
            _ if count == 0 => self.create().await,
            _ if count >= PODS_MAX => self.delete().await,
            0..30 => self.create().await,
            30..55 => self.relabel().await,
            55..75 => self.update(next_index).await,
            _ => self.delete().await,
        }
    }

    async fn create(&mut self) -> Result<AcknowledgedWrite> {
        let index = self.next_pod.fetch_add(1, Ordering::Relaxed);
        let app = self.chance.usize(..self.apps);
        let pod = ChurnPod {
            index,
            home: app,
            app: Some(app),
        };
        let (path, body) = (pods::collection(app), pods::pending(index, app));
        let answer = self.connection.execute(Method::POST, &path, body).await?;
        self.pods.push(pod);
        pod.changed(&answer)
    }

    /// Moves a pod to another application of the same namespace, or removes its label.
    async fn relabel(&mut self) -> Result<AcknowledgedWrite> {
        let chosen = self.chance.usize(..self.pods.len());
        let mut pod = self.pods[chosen];
        let first = pod.home % NAMESPACES;
        let neighbours = (self.apps - first).div_ceil(NAMESPACES);
        let other = first + NAMESPACES * self.chance.usize(..neighbours);
        let lost = self.chance.usize(..LOST_SHARE) == 0 || pod.app == Some(other);
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

    async fn update(&mut self, next_index: usize) -> Result<AcknowledgedWrite> {
        let pod = self.pods[self.chance.usize(..self.pods.len())];
        let annotations = json!({"example.com/turn": next_index.to_string()});
        self.patch(pod, json!({"metadata": {"annotations": annotations}}))
            .await
    }

    async fn patch(&mut self, pod: ChurnPod, patch: Value) -> Result<AcknowledgedWrite> {
        let patch = patch.to_string().into();
        let answer = self.connection.patch(&pod.path(), patch).await?;
        pod.changed(&answer)
    }

    async fn delete(&mut self) -> Result<AcknowledgedWrite> {
        let chosen = self.chance.usize(..self.pods.len());
        let pod = self.pods.swap_remove(chosen);
        let path = format!("{}?gracePeriodSeconds=0", pod.path());
        self.connection
            .execute(Method::DELETE, &path, Bytes::new())
            .await?;
        Ok(AcknowledgedWrite {
            pod: u32::try_from(pod.index)?,
            app: None,
            version: None,
        })
    }
}

impl ChurnPod {
    fn path(self) -> String {
        format!("{}/{}", pods::collection(self.home), pods::name(self.index))
    }

    fn changed(self, answer: &[u8]) -> Result<AcknowledgedWrite> {
        let answer: Value = serde_json::from_slice(answer)?;
        let version = answer["metadata"]["resourceVersion"].as_str();
        let version = version
            .context("response has no metadata.resourceVersion")?
            .parse()?;
        Ok(AcknowledgedWrite {
            pod: u32::try_from(self.index)?,
            app: self.app.map(u32::try_from).transpose()?,
            version: Some(version),
        })
    }
}
