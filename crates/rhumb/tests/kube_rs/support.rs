//! Starts a server for a test.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tempfile::TempDir;

use crate::program::{self, FEW_CONTROLLERS, RhumbUpProcess, poll_until};

/// `rhumb up` on a free port, with its own data directory.
#[derive(Debug)]
pub(crate) struct TestServer {
    program: RhumbUpProcess,
    flags: Vec<String>,
    directory: TempDir,
}

impl TestServer {
    /// Returns when the server is ready. Runs only the controllers that many tests need.
    pub(crate) fn start() -> TestServer {
        TestServer::start_with(&[FEW_CONTROLLERS])
    }

    /// Starts the server with only these flags.
    pub(crate) fn start_with(flags: &[&str]) -> TestServer {
        let directory = tempfile::tempdir().expect("a directory");
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        TestServer {
            program: RhumbUpProcess::start(directory.path(), 0, &flags),
            flags,
            directory,
        }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        program::kubeconfig(self.directory.path())
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.program.id()
    }

    pub(crate) fn kill(&mut self) {
        self.program.kill();
    }

    /// Stops the server with SIGTERM and waits for its exit.
    pub(crate) fn stop(&mut self) {
        self.program.terminate();
        let ended = self.program.process.wait().expect("it ended");
        let log = self.program.log();
        assert!(ended.success(), "the server ended with {ended}: {log}");
    }

    /// Starts the server on the same data and port.
    pub(crate) fn start_again(&mut self) {
        self.program = RhumbUpProcess::start(self.directory.path(), self.program.port, &self.flags);
    }

    /// Restarts the server on the same data with other flags.
    pub(crate) fn restart_with(&mut self, flags: &[&str]) {
        self.stop();
        self.start_again_with(flags);
    }

    /// Starts the server on the same data and port with other flags.
    pub(crate) fn start_again_with(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        self.start_again();
    }

    /// A client with administrator credentials.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(|_| {}).await
    }

    /// Like `client`, after the default service account in `default` exists, which pods need.
    pub(crate) async fn client_for_pods(&self) -> Client {
        let client = self.client().await;
        wait_for_service_account(&client, "default").await;
        client
    }

    /// A client with a changed configuration and without retries.
    pub(crate) async fn client_with(&self, change: impl FnOnce(&mut Config)) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .expect("a configuration");
        config.default_retry = false;
        change(&mut config);
        Client::try_from(config).expect("a client")
    }
}

/// Waits for the default service account of a namespace: before it exists, pods are rejected.
pub(crate) async fn wait_for_service_account(client: &Client, namespace: &str) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let what = format!("the default service account of {namespace}");
    poll_until(&what, async || {
        accounts.get_opt("default").await.expect("an answer")
    })
    .await;
}
