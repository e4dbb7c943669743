//! A server with namespaces, each with as many quotas as it is to have.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::answers::message;
use crate::client::Connection;
use crate::pods;
use crate::servers::{Program, Server};

/// How long a server may take to notice a quota.
const NOTICE_PATIENCE: Duration = Duration::from_secs(10);
/// How long the pods of a turn may take to go.
const CLEAR_PATIENCE: Duration = Duration::from_secs(300);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Amounts that no load comes near to, and that still fit into 64 bits: a server may count in bytes and thousandths.
const MANY_PODS: usize = 1_000_000_000;
const MANY_BYTES: &str = "4Ei";
const MANY_CORES: &str = "1000000000";
/// What the last quota of a namespace allows instead, and what a pod asks for that only this one refuses: whoever
/// refuses that pod knows all quotas of the namespace.
const LAST_CORES: &str = "900000000";
const GREEDY_CORES: &str = "950000000";

pub(super) struct Site<'a> {
    pub(super) server: Server<'a>,
    connection: Connection,
    /// Whether the benchmark does what is a kube-controller-manager's: a kube-apiserver refuses all pods until someone
    /// wrote into a quota what is used of it.
    writes_status: bool,
    is_enforced: bool,
}

impl<'a> Site<'a> {
    pub(super) async fn start(program: &'a Program) -> Result<Self> {
        let server = Server::start(program).await?;
        let connection = server.endpoint.connect().await?;
        Ok(Self {
            server,
            connection,
            writes_status: matches!(program, Program::Kubernetes(_)),
            is_enforced: true,
        })
    }

    /// Whether pods that a quota does not allow were refused, wherever that was tried.
    pub(super) fn is_enforced(&self) -> bool {
        self.is_enforced
    }

    /// A namespace whose quotas are in force, none of them anywhere near its limits. Returns where its pods are.
    pub(super) async fn namespace(&mut self, name: &str, quotas: usize) -> Result<String> {
        self.namespace_for(name, quotas, MANY_PODS).await
    }

    /// A namespace whose quotas allow so many pods.
    pub(super) async fn namespace_for(
        &mut self,
        name: &str,
        quotas: usize,
        pods_max: usize,
    ) -> Result<String> {
        let namespace = json!({"metadata": {"name": name}}).to_string();
        let path = "/api/v1/namespaces";
        self.connection
            .ask(Method::POST, path, namespace.into())
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
            .ask(Method::POST, &path, quota.into())
            .await?;
        if self.writes_status {
            let path = format!("{path}/{name}/status");
            let status = json!({"status": {"used": zeros(&hard), "hard": hard}}).to_string();
            self.connection.patch(&path, status.into()).await?;
        }
        Ok(())
    }

    /// Returns when a pod is refused that the last quota does not allow. A server that does not enforce its quotas is
    /// measured nevertheless, and waited for only once.
    async fn wait_for_quotas(&mut self, pods: &str) -> Result<()> {
        let begun = Instant::now();
        while self.is_enforced {
            let greedy = pods::limited(0, GREEDY_CORES);
            let (status, body) = self.connection.post(pods, greedy).await?;
            if status == StatusCode::FORBIDDEN && message(&body).contains("exceeded quota") {
                return Ok(());
            }
            self.clear(pods).await?;
            if begun.elapsed() > NOTICE_PATIENCE {
                self.is_enforced = false;
                eprintln!("  quotas are not enforced");
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Deletes all pods at once, so that what is stored stays small.
    pub(super) async fn clear(&mut self, pods: &str) -> Result<()> {
        let begun = Instant::now();
        let all = format!("{pods}?gracePeriodSeconds=0");
        loop {
            // A server may stop halfway because it took too long: the rest goes next time.
            let asked = self.connection.ask(Method::DELETE, &all, Bytes::new());
            let answer = asked.await;
            if !self.has_pods(pods).await? {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < CLEAR_PATIENCE,
                "pods do not go: {:?}",
                answer.err()
            );
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn has_pods(&mut self, pods: &str) -> Result<bool> {
        Ok(self.pods(&format!("{pods}?limit=1")).await? > 0)
    }

    /// How many pods a list has.
    pub(super) async fn pods(&mut self, path: &str) -> Result<usize> {
        let list = self.connection.ask(Method::GET, path, Bytes::new()).await?;
        let list: Value = serde_json::from_slice(&list)?;
        Ok(list["items"].as_array().context("no list")?.len())
    }
}

/// Nothing of everything that is limited.
fn zeros(hard: &Value) -> Value {
    let names = hard.as_object().into_iter().flatten();
    names.map(|(name, _)| (name.clone(), json!("0"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_used_at_first() {
        let hard = json!({"pods": "5", "limits.cpu": "7"});
        assert_eq!(zeros(&hard), json!({"pods": "0", "limits.cpu": "0"}));
    }
}
