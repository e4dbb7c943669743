//! The controllers as a separate process, over HTTPS.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::DeleteParams;

use crate::program::{NO_CONTROLLERS, poll_until};
use crate::support::TestServer;
use crate::waiting::{make_namespace, wait_for, wait_until_deleted};

/// `rhumb controllers`, killed on drop.
pub(crate) struct ControllersProcess(Child);

impl ControllersProcess {
    /// Without a metrics address, since tests run at the same time, unless the flags have one.
    pub(crate) fn start(kubeconfig: &Path, flags: &[&str]) -> ControllersProcess {
        let has_address = |flag: &&str| flag.starts_with("--metrics-address");
        let no_metrics = (!flags.iter().any(has_address)).then_some("--metrics-address=");
        let process = Command::new(env!("CARGO_BIN_EXE_rhumb"))
            .args(["controllers", "--kubeconfig"])
            .arg(kubeconfig)
            .args(flags)
            .args(no_metrics)
            .stdin(Stdio::null())
            .spawn();
        ControllersProcess(process.expect("the program starts"))
    }

    /// Terminates the process and waits for its exit.
    pub(crate) fn stop(mut self) {
        let id = self.0.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &id]).status();
        assert!(killed.expect("kill runs").success());
        assert!(self.0.wait().expect("it ended").success());
    }
}

impl Drop for ControllersProcess {
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
async fn standby_takes_over_from_the_leader() {
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let client = server.client().await;
    let namespaces = make_namespace(&client, "a").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "a");
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    assert_eq!(
        holder(&leases).await,
        None,
        "there is no leader without controllers"
    );

    let first = ControllersProcess::start(&server.kubeconfig(), &[]);
    wait_for(&accounts, "default", |_| true).await;
    let leader = holder(&leases).await.expect("a leader");
    // Only upstream's permissions of the controller manager.
    let least = server
        .kubeconfig()
        .with_file_name("controller-manager.kubeconfig");
    let second = ControllersProcess::start(
        &least,
        &[
            "--use-service-account-credentials",
            "--controllers=*,-serviceaccount-controller",
        ],
    );
    first.stop();
    poll_until("another leader", async || {
        holder(&leases).await.filter(|now| *now != leader)
    })
    .await;
    let deleted = namespaces.delete("a", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    wait_until_deleted(&namespaces, "a").await;
    // It uses its own service account, and the excluded controller does not run.
    let system: Api<ServiceAccount> = Api::namespaced(client.clone(), "kube-system");
    wait_for(&system, "namespace-controller", |_| true).await;
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
fn invalid_flags_fail_with_a_one_line_error() {
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
            with_config("--metrics-address", "nowhere"),
            "rhumb: --metrics-address nowhere: ".to_owned(),
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
        let process_output = Command::new(env!("CARGO_BIN_EXE_rhumb"))
            .arg("controllers")
            .args(&flags)
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&process_output.stderr);
        assert!(!process_output.status.success(), "{flags:?}");
        assert!(said.starts_with(&says) && said.lines().count() == 1, "{said}");
    }
}
