//! The controllers in a process of their own, over HTTPS.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::DeleteParams;

use crate::program::NO_CONTROLLERS;
use crate::support::Server;
use crate::waiting::{found, gone, make_namespace, until};

/// `rhumb controllers`, for the time of a test.
struct Controllers(Child);

impl Controllers {
    fn start(kubeconfig: &Path, flags: &[&str]) -> Controllers {
        let process = Command::new(env!("CARGO_BIN_EXE_rhumb"))
            .args(["controllers", "--kubeconfig"])
            .arg(kubeconfig)
            .args(flags)
            .stdin(Stdio::null())
            .spawn();
        Controllers(process.expect("the program starts"))
    }

    /// Asks it to end, and waits until it has.
    fn stop(mut self) {
        let id = self.0.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status();
        assert!(told.expect("kill runs").success());
        assert!(self.0.wait().expect("it ended").success());
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn holder(leases: &Api<Lease>) -> Option<String> {
    let lease = leases.get_opt("rhumb-controllers").await.expect("a read")?;
    lease
        .spec?
        .holder_identity
        .filter(|holder| !holder.is_empty())
}

#[tokio::test]
async fn one_process_leads_and_another_goes_on_after_it() {
    let server = Server::start_with(&[NO_CONTROLLERS]);
    let client = server.client().await;
    let namespaces = make_namespace(&client, "a").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "a");
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    assert_eq!(
        holder(&leases).await,
        None,
        "nobody leads without controllers"
    );

    let first = Controllers::start(&server.kubeconfig(), &[]);
    found(&accounts, "default", |_| true).await;
    let leader = holder(&leases).await.expect("a leader");
    // With no rights but those that upstream gives its controllers.
    let least = server
        .kubeconfig()
        .with_file_name("controller-manager.kubeconfig");
    let second = Controllers::start(
        &least,
        &[
            "--use-service-account-credentials",
            "--controllers=*,-serviceaccount-controller",
        ],
    );
    first.stop();
    until("another leader", async || {
        holder(&leases).await.filter(|now| *now != leader)
    })
    .await;
    let deleted = namespaces.delete("a", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    gone(&namespaces, "a").await;
    // It acts as an account of its own, and the controller that was left out does not run.
    let system: Api<ServiceAccount> = Api::namespaced(client.clone(), "kube-system");
    found(&system, "namespace-controller", |_| true).await;
    assert_eq!(
        system
            .get_opt("service-account-controller")
            .await
            .expect("a read"),
        None
    );
    drop(second);
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let kubeconfig = file(
        "kubeconfig",
        r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {}}]}"#,
    );
    let tokens = file("tokens.csv", "secret,admin,1\n");
    let with_config = |flag: &str, value: &str| {
        vec![
            "--kubeconfig".to_owned(),
            kubeconfig.clone(),
            flag.to_owned(),
            value.to_owned(),
        ]
    };
    for (flags, says) in [
        (
            vec!["--kubeconfig".to_owned(), "/nowhere".to_owned()],
            "rhumb: --kubeconfig /nowhere: No such file or directory (os error 2)\n".to_owned(),
        ),
        (
            with_config("--controllers", "nonsense"),
            "rhumb: --controllers: there is no controller \"nonsense\"; there are namespace-controller, "
                .to_owned(),
        ),
        (
            with_config("--root-ca-file", &tokens),
            format!("rhumb: --root-ca-file {tokens}: no certificates in PEM\n"),
        ),
        (
            with_config("--leader-elect-resource-name", "Bad_Name"),
            "rhumb: --leader-elect-resource-name \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of "
                .to_owned(),
        ),
    ] {
        let ended = Command::new(env!("CARGO_BIN_EXE_rhumb"))
            .arg("controllers")
            .args(&flags)
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{flags:?}");
        assert!(said.starts_with(&says) && said.lines().count() == 1, "{said}");
    }
}
