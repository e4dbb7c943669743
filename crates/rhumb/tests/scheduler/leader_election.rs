//! The scheduler as separate processes, over HTTPS: one leads, and whatever happens to it, no pod is bound twice or
//! against its constraints.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

use crate::cluster::{anti_affinity_to_app, check_anti_affinity, make_node, make_pod, placed, pod};
use crate::program::{FEW_CONTROLLERS, poll_until};
use crate::support::TestServer;

/// `rhumb scheduler`, killed on drop.
pub(crate) struct SchedulerProcess(Child);

impl SchedulerProcess {
    /// Only upstream's permissions of the scheduler.
    pub(crate) fn start(server: &TestServer, flags: &[&str]) -> SchedulerProcess {
        let kubeconfig = server.kubeconfig();
        let process = Command::new(env!("CARGO_BIN_EXE_rhumb"))
            .args(["scheduler", "--kubeconfig"])
            .arg(kubeconfig.with_file_name("scheduler.kubeconfig"))
            .args(flags)
            .stdin(Stdio::null())
            .spawn();
        SchedulerProcess(process.expect("the program starts"))
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        let told = Command::new("kill").args([signal, &id]).status();
        assert!(told.expect("kill runs").success());
    }

    /// Terminates the process and waits for its exit.
    fn stop(mut self) {
        self.signal("-TERM");
        assert!(self.0.wait().expect("it ended").success());
    }
}

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct LeaderElectionCluster {
    server: TestServer,
    client: Client,
    pods: Api<Pod>,
    leases: Api<Lease>,
    config: PathBuf,
    _directory: tempfile::TempDir,
}

impl LeaderElectionCluster {
    /// A server without scheduler, and a configuration with short lease durations.
    async fn start(nodes: usize) -> LeaderElectionCluster {
        let server = TestServer::start_with(&[FEW_CONTROLLERS]);
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
        LeaderElectionCluster {
            pods: Api::default_namespaced(client.clone()),
            leases: Api::namespaced(client.clone(), "kube-system"),
            server,
            client,
            config,
            _directory: directory,
        }
    }

    fn scheduler(&self) -> SchedulerProcess {
        let config = self.config.display().to_string();
        SchedulerProcess::start(&self.server, &["--metrics-address=", "--config", &config])
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
        poll_until("another leader", async || {
            self.holder().await.filter(|now| Some(now.as_str()) != last)
        })
        .await
    }

    async fn make_pods(&self, from: usize, to: usize) {
        for index in from..to {
            make_pod(
                &self.pods,
                &pod(&format!("p{index}"), "x", anti_affinity_to_app("x")),
            )
            .await;
        }
    }

    async fn all_placed(&self, count: usize) {
        poll_until("all placed", async || {
            (check_anti_affinity(&self.pods, "x").await.len() == count).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn standby_takes_over_immediately_after_a_clean_exit() {
    let cluster = LeaderElectionCluster::start(3).await;
    let first = cluster.scheduler();
    let leader = cluster.new_leader(None).await;
    let second = cluster.scheduler();
    cluster.make_pods(0, 1).await;
    cluster.all_placed(1).await;
    first.stop();
    cluster.new_leader(Some(&leader)).await;
    cluster.make_pods(1, 3).await;
    cluster.all_placed(3).await;
    // Profiles are selected by scheduler name: this one packs nodes.
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
async fn standby_takes_over_after_the_leader_is_killed() {
    let cluster = LeaderElectionCluster::start(40).await;
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
async fn paused_leader_does_not_lead_after_resuming() {
    let cluster = LeaderElectionCluster::start(20).await;
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
    // Both processes are running, and the first takes over from the second.
    second.stop();
    make_node(&cluster.client, "last", "4").await;
    cluster.make_pods(20, 21).await;
    cluster.all_placed(21).await;
    first.stop();
}
