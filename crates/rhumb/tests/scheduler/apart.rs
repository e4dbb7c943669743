//! The scheduler in processes of their own, over HTTPS: one leads, and whatever happens to it, nothing is placed twice
//! or against what pods ask for.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

use crate::cluster::{all_apart, apart, make_node, make_pod, placed, pod, until};
use crate::program::FEW_CONTROLLERS;
use crate::support::Server;

/// `rhumb scheduler`, for the time of a test.
pub(crate) struct Scheduler(Child);

impl Scheduler {
    /// With no rights but those that upstream gives its scheduler.
    pub(crate) fn start(server: &Server, flags: &[&str]) -> Scheduler {
        let kubeconfig = server.kubeconfig();
        let process = Command::new(env!("CARGO_BIN_EXE_rhumb"))
            .args(["scheduler", "--kubeconfig"])
            .arg(kubeconfig.with_file_name("scheduler.kubeconfig"))
            .args(flags)
            .stdin(Stdio::null())
            .spawn();
        Scheduler(process.expect("the program starts"))
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        let told = Command::new("kill").args([signal, &id]).status();
        assert!(told.expect("kill runs").success());
    }

    /// Asks it to end, and waits until it has.
    fn stop(mut self) {
        self.signal("-TERM");
        assert!(self.0.wait().expect("it ended").success());
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Cluster {
    server: Server,
    client: Client,
    pods: Api<Pod>,
    leases: Api<Lease>,
    config: PathBuf,
    _directory: tempfile::TempDir,
}

impl Cluster {
    /// A server that schedules nothing itself, and a configuration by which leaders follow each other fast.
    async fn start(nodes: usize) -> Cluster {
        let server = Server::start_with(&[FEW_CONTROLLERS]);
        let client = server.client_for_pods().await;
        let directory = tempfile::tempdir().expect("a directory");
        let config = directory.path().join("scheduler.yaml");
        let text = "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  plugins:
    score: {disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]}
";
        std::fs::write(&config, text).expect("a file");
        for node in 0..nodes {
            make_node(&client, &format!("n{node}"), "4").await;
        }
        Cluster {
            pods: Api::default_namespaced(client.clone()),
            leases: Api::namespaced(client.clone(), "kube-system"),
            server,
            client,
            config,
            _directory: directory,
        }
    }

    fn scheduler(&self) -> Scheduler {
        let config = self.config.display().to_string();
        Scheduler::start(&self.server, &["--metrics-address=", "--config", &config])
    }

    async fn holder(&self) -> Option<String> {
        let lease = self
            .leases
            .get_opt("kube-scheduler")
            .await
            .expect("a read")?;
        lease
            .spec?
            .holder_identity
            .filter(|holder| !holder.is_empty())
    }

    async fn new_leader(&self, last: Option<&str>) -> String {
        until("another leader", async || {
            self.holder().await.filter(|now| Some(now.as_str()) != last)
        })
        .await
    }

    async fn make_pods(&self, from: usize, to: usize) {
        for index in from..to {
            make_pod(&self.pods, &pod(&format!("p{index}"), "x", apart("x"))).await;
        }
    }

    async fn all_placed(&self, count: usize) {
        until("all placed", async || {
            (all_apart(&self.pods, "x").await.len() == count).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn another_goes_on_at_once_after_one_that_ends() {
    let cluster = Cluster::start(3).await;
    let first = cluster.scheduler();
    let leader = cluster.new_leader(None).await;
    let second = cluster.scheduler();
    cluster.make_pods(0, 1).await;
    cluster.all_placed(1).await;
    first.stop();
    cluster.new_leader(Some(&leader)).await;
    cluster.make_pods(1, 3).await;
    cluster.all_placed(3).await;
    // Profiles go by the name of the scheduler: this one fills nodes up.
    let request = json!({"requests": {"cpu": "1"}});
    let packed = json!({
        "schedulerName": "packing",
        "containers": [{"name": "c", "image": "i", "resources": request}],
    });
    make_pod(&cluster.pods, &pod("q0", "y", packed.clone())).await;
    let node = placed(&cluster.pods, "q0").await;
    for name in ["q1", "q2", "q3"] {
        make_pod(&cluster.pods, &pod(name, "y", packed.clone())).await;
        assert_eq!(placed(&cluster.pods, name).await, node);
    }
    second.stop();
}

#[tokio::test]
async fn one_that_is_killed_leaves_nothing_behind_that_does_harm() {
    let cluster = Cluster::start(40).await;
    let mut leader = cluster.scheduler();
    let mut holder = cluster.new_leader(None).await;
    for round in 0..3 {
        let next = cluster.scheduler();
        let begin = round * 10;
        cluster.make_pods(begin, begin + 5).await;
        leader.signal("-KILL");
        cluster.make_pods(begin + 5, begin + 10).await;
        holder = cluster.new_leader(Some(&holder)).await;
        leader = next;
    }
    cluster.all_placed(30).await;
    drop(leader);
}

#[tokio::test]
async fn one_that_was_stopped_and_goes_on_does_not_lead() {
    let cluster = Cluster::start(20).await;
    let first = cluster.scheduler();
    let leader = cluster.new_leader(None).await;
    let second = cluster.scheduler();
    cluster.make_pods(0, 5).await;
    first.signal("-STOP");
    cluster.make_pods(5, 10).await;
    let leader = cluster.new_leader(Some(&leader)).await;
    cluster.all_placed(10).await;
    cluster.make_pods(10, 15).await;
    first.signal("-CONT");
    cluster.make_pods(15, 20).await;
    cluster.all_placed(20).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.holder().await, Some(leader));
    // Both are still there, and the first goes on after the second.
    second.stop();
    make_node(&cluster.client, "last", "4").await;
    cluster.make_pods(20, 21).await;
    cluster.all_placed(21).await;
    first.stop();
}
