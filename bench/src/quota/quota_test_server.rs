//! Server under test, with namespaces that have a given number of quotas.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::response_counts::message;
use crate::client::ApiConnection;
use crate::pods;
use crate::servers::{BenchServer, ServerProgram};

/// Time limit for a new quota to be enforced.
const NOTICE_PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for the deletion of a round's pods.
const CLEAR_PATIENCE: Duration = Duration::from_secs(300);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Limits that no load reaches, and that fit into 64 bits in bytes and milli-units.
const MANY_PODS: usize = 1_000_000_000;
const MANY_BYTES: &str = "4Ei";
const MANY_CORES: &str = "1000000000";
/// CPU limit of the last quota of a namespace, and the request of a pod that only this quota rejects: when the pod is
/// rejected, all quotas of the namespace are in force.
const LAST_CORES: &str = "900000000";
const GREEDY_CORES: &str = "950000000";

pub(super) struct QuotaTestServer<'a> {
    pub(super) server: BenchServer<'a>,
    connection: ApiConnection,
    /// Whether the benchmark writes the initial quota status instead of kube-controller-manager: kube-apiserver rejects
    /// all pods until `status.used` is set.
    writes_status: bool,
    is_enforced: bool,
}

impl<'a> QuotaTestServer<'a> {
    pub(super) async fn start(program: &'a ServerProgram) -> Result<Self> {
        let server = BenchServer::start(program).await?;
        let connection = server.endpoint.connect().await?;
        Ok(Self {
            server,
            connection,
            writes_status: matches!(program, ServerProgram::Kubernetes(_)),
            is_enforced: true,
        })
    }

    /// Whether every check so far found the quotas enforced.
    pub(super) fn is_enforced(&self) -> bool {
        self.is_enforced
    }

    /// Creates a namespace with enforced quotas that are never exhausted. Returns the path of its pods.
    pub(super) async fn namespace(&mut self, name: &str, quotas: usize) -> Result<String> {
        self.namespace_for(name, quotas, MANY_PODS).await
    }

    /// Creates a namespace whose quotas allow `pods_max` pods.
    pub(super) async fn namespace_for(
        &mut self,
        name: &str,
        quotas: usize,
        pods_max: usize,
    ) -> Result<String> {
        let namespace = json!({"metadata": {"name": name}}).to_string();
        let path = "/api/v1/namespaces";
        self.connection
            .execute(Method::POST, path, namespace.into())
            .await?;
        for number in 0..quotas {
            let cores = match number + 1 == quotas {
                true => LAST_CORES,
                false => MANY_CORES,
            };
            self.add_quota(name, number, pods_max, cores).await?;
        }
        let pods = format!("{path}/{name}/pods");
        if quotas > 0 {
            self.wait_for_quotas(&pods).await?;
        }
        Ok(pods)
    }

    async fn add_quota(
        &mut self,
        namespace: &str,
        number: usize,
        pods_max: usize,
        cores: &str,
    ) -> Result<()> {
        let name = format!("quota-{number:03}");
        let hard = json!({
            "pods": pods_max.to_string(),
            "requests.cpu": cores, "requests.memory": MANY_BYTES,
            "limits.cpu": MANY_CORES, "limits.memory": MANY_BYTES,
        });
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas");
        let quota = json!({"metadata": {"name": name}, "spec": {"hard": hard}}).to_string();
        self.connection
            .execute(Method::POST, &path, quota.into())
            .await?;
        if self.writes_status {
            let path = format!("{path}/{name}/status");
            let status = json!({"status": {"used": zeros(&hard), "hard": hard}}).to_string();
            self.connection.patch(&path, status.into()).await?;
        }
        Ok(())
    }

    /// Waits until a pod that exceeds the last quota is rejected. A server that does not enforce its quotas is
    /// still measured, and waited for only once.
    async fn wait_for_quotas(&mut self, pods: &str) -> Result<()> {
        let started = Instant::now();
        while self.is_enforced {
            let greedy = pods::limited(0, GREEDY_CORES);
            let (status, body) = self.connection.post(pods, greedy).await?;
            if status == StatusCode::FORBIDDEN && message(&body).contains("exceeded quota") {
                return Ok(());
            }
            self.clear(pods).await?;
            if started.elapsed() > NOTICE_PATIENCE {
                self.is_enforced = false;
                eprintln!("  quotas are not enforced");
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Deletes all pods with grace period 0, so that the store stays small.
    pub(super) async fn clear(&mut self, pods: &str) -> Result<()> {
        let started = Instant::now();
        let all = format!("{pods}?gracePeriodSeconds=0");
        loop {
            // A server may time out halfway: the next request deletes the rest.
            let asked = self.connection.execute(Method::DELETE, &all, Bytes::new());
            let answer = asked.await;
            if !self.has_pods(pods).await? {
                return Ok(());
            }
            ensure!(
                started.elapsed() < CLEAR_PATIENCE,
                "timed out waiting for pods to be deleted: {:?}",
                answer.err()
            );
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn has_pods(&mut self, pods: &str) -> Result<bool> {
        Ok(self.pods(&format!("{pods}?limit=1")).await? > 0)
    }

    /// Number of pods in the list at `path`.
    pub(super) async fn pods(&mut self, path: &str) -> Result<usize> {
        let list = self
            .connection
            .execute(Method::GET, path, Bytes::new())
            .await?;
        let list: Value = serde_json::from_slice(&list)?;
        Ok(list["items"]
            .as_array()
            .context("list response has no items")?
            .len())
    }
}

/// `status.used` with zero for every resource in `hard`.
fn zeros(hard: &Value) -> Value {
    let names = hard.as_object().into_iter().flatten();
    names.map(|(name, _)| (name.clone(), json!("0"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_usage_is_zero_for_every_resource() {
        let hard = json!({"pods": "5", "limits.cpu": "7"});
        assert_eq!(zeros(&hard), json!({"pods": "0", "limits.cpu": "0"}));
    }
}
