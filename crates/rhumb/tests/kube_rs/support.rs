//! A server of the built program, for the time of a test.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tempfile::TempDir;

use crate::program::{self, FEW_CONTROLLERS, Program};

/// `rhumb up` on a free port, with a data directory of its own.
#[derive(Debug)]
pub(crate) struct Server {
    program: Program,
    flags: Vec<String>,
    directory: TempDir,
}

impl Server {
    /// Returns when the server says that it is ready. Of controllers it has only those that many tests need.
    pub(crate) fn start() -> Server {
        Server::start_with(&[FEW_CONTROLLERS])
    }

    /// With these flags alone.
    pub(crate) fn start_with(flags: &[&str]) -> Server {
        let directory = tempfile::tempdir().expect("a directory");
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        Server {
            program: Program::start(directory.path(), 0, &flags),
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

    /// As a person would stop it; waits until it is gone.
    pub(crate) fn stop(&mut self) {
        self.program.terminate();
        let ended = self.program.process.wait().expect("it ended");
        let log = self.program.log();
        assert!(ended.success(), "the server ended with {ended}: {log}");
    }

    /// On the same data and port as before.
    pub(crate) fn start_again(&mut self) {
        self.program = Program::start(self.directory.path(), self.program.port, &self.flags);
    }

    /// Stops it, and starts it on the same data with other flags.
    pub(crate) fn restart_with(&mut self, flags: &[&str]) {
        self.stop();
        self.start_again_with(flags);
    }

    /// On the same data and port as before, with other flags.
    pub(crate) fn start_again_with(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        self.start_again();
    }

    /// A client of the administrator.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(|_| {}).await
    }

    /// The same, once pods can be made in the namespace `default`: what they run as is there a moment after the start.
    pub(crate) async fn client_for_pods(&self) -> Client {
        let client = self.client().await;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        for _ in 0..1500 {
            if accounts
                .get_opt("default")
                .await
                .expect("an answer")
                .is_some()
            {
                return client;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the namespace gets no account");
    }

    /// A client whose configuration the test changes. Nothing is tried again unless the test does.
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
