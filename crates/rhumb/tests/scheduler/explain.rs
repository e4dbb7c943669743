//! `rhumb scheduler explain`: why each node is feasible or not.

use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use crate::cluster::{about_team, make_namespace, make_node, make_pod, on, placed, pod};
use crate::program::FEW_CONTROLLERS;
use crate::support::TestServer;

/// Whether it succeeded, standard output and standard error.
fn explain(server: &TestServer, flags: &str) -> (bool, String, String) {
    let process_output = Command::new(env!("CARGO_BIN_EXE_rhumb"))
        .args(["scheduler", "explain", "--kubeconfig"])
        .arg(server.kubeconfig())
        .args(flags.split(' '))
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        process_output.status.success(),
        text(process_output.stdout),
        text(process_output.stderr),
    )
}

#[track_caller]
fn explained(server: &TestServer, flags: &str) -> String {
    let (is_well, response, notes) = explain(server, flags);
    assert!(is_well && notes.is_empty(), "{flags}: {notes}");
    response
}

/// Two nodes. `db` runs on the first; `web` may run only there, and has anti-affinity to `db` in namespaces with the
/// label `team=x`.
async fn cluster() -> TestServer {
    let server = TestServer::start_with(&[FEW_CONTROLLERS, "--scheduler"]);
    let client = server.client_for_pods().await;
    for node in ["n1", "n2"] {
        make_node(&client, node, "4").await;
    }
    make_namespace(&client, "other", json!({"team": "x"})).await;
    let others: Api<Pod> = Api::namespaced(client.clone(), "other");
    make_pod(&others, &pod("db", "db", on("n1"))).await;
    assert_eq!(placed(&others, "db").await, "n1");
    let pods: Api<Pod> = Api::default_namespaced(client);
    let mut web = on("n1");
    web["affinity"] = json!({"podAntiAffinity": about_team("db", "x")});
    make_pod(&pods, &pod("web", "web", web)).await;
    let gates = json!({"schedulingGates": [{"name": "wait"}, {"name": "longer"}]});
    make_pod(&pods, &pod("gated", "y", gates)).await;
    let elsewhere = json!({"schedulerName": "another"});
    make_pod(&pods, &pod("foreign", "y", elsewhere)).await;
    server
}

const ASKED: &str = "spec.nodeSelector: requires kubernetes.io/hostname=n1, but the node has kubernetes.io/hostname=n2";
const WHO: &str = "pod other/db in kubernetes.io/hostname=n1 matches the pod's anti-affinity (app=db in namespaces with team=x)";
const TERMS: &str = "
affinity terms of the pod:
  required anti-affinity per kubernetes.io/hostname: app=db in namespaces with team=x
    namespaces by selector: other
    pods that match: other/db on n1
";

#[tokio::test]
async fn explain_lists_a_verdict_for_every_node() {
    let server = cluster().await;
    let n1 = format!(
        "n1    no    -      InterPodAffinity: node(s) didn't match pod anti-affinity rules: {WHO}\n"
    );
    let head = "pod default/web waits for a node\n0 of 2 nodes fit\n\nNODE  FITS  SCORE  WHY\n";
    let n2 = format!(
        "n2    no    -      NodeAffinity: node(s) didn't match Pod's node affinity/selector: {ASKED}\n"
    );
    assert_eq!(
        explained(&server, "pod/web"),
        format!("{head}{n1}{n2}{TERMS}")
    );
    assert_eq!(
        explained(&server, "web --node n1"),
        format!("{head}{n1}{TERMS}")
    );

    // Like a scheduler without namespace selectors.
    let gates = "PodAffinityNamespaceSelector=false";
    let (is_well, response, _) = explain(&server, &format!("web --feature-gates {gates}"));
    assert!(
        is_well && response.contains("1 of 2 nodes fit\n"),
        "{response}"
    );

    let response = explained(&server, "web -o json");
    let response: Value = serde_json::from_str(&response).expect("JSON");
    let expected = json!({
        "namespace": "default",
        "name": "web",
        "schedulerName": "default-scheduler",
        "nodes": [
            {"name": "n1", "fits": false, "against": [{
                "plugin": "InterPodAffinity",
                "reasons": ["node(s) didn't match pod anti-affinity rules"],
                "detail": WHO,
                "isResolvable": true,
            }]},
            {"name": "n2", "fits": false, "against": [{
                "plugin": "NodeAffinity",
                "reasons": ["node(s) didn't match Pod's node affinity/selector"],
                "detail": ASKED,
                "isResolvable": false,
            }]},
        ],
        "affinityTerms": [{
            "kind": "requiredAntiAffinity",
            "topologyKey": "kubernetes.io/hostname",
            "matches": "app=db in namespaces with team=x",
            "labelSelector": "app=db",
            "namespaces": [],
            "namespaceSelector": "team=x",
            "selectedNamespaces": ["other"],
            "matchesItself": false,
            "matchingPods": [{"namespace": "other", "name": "db", "node": "n1"}],
            "podsInOtherNamespaces": [],
        }],
    });
    assert_eq!(response, expected);
    let response = explained(&server, "web -o json --node n2");
    let response: Value = serde_json::from_str(&response).expect("JSON");
    let names = response["nodes"].as_array().expect("nodes").iter();
    let names: Vec<&Value> = names.map(|node| &node["name"]).collect();
    assert_eq!(names, ["n2"]);

    let response = explained(&server, "gated");
    let says =
        "pod default/gated is held back by its scheduling gates: wait, longer\n2 of 2 nodes fit\n";
    assert!(response.starts_with(says), "{response}");

    // A bound pod does not conflict with itself.
    let response = explained(&server, "po/db -n other");
    let says = "pod other/db is on n1\n1 of 2 nodes fit\n\nNODE  FITS  SCORE  WHY\nn1    yes   ";
    assert!(response.starts_with(says), "{response}");
    let says = "
affinity terms of other pods that match the pod:
  required anti-affinity per kubernetes.io/hostname: app=db in namespaces with team=x
    pods with this term: default/web without a node
";
    assert!(response.ends_with(says), "{response}");
    let response = explained(&server, "db -n other -o json");
    let response: Value = serde_json::from_str(&response).expect("JSON");
    assert_eq!(response["node"], "n1");
    let [n1, n2] = response["nodes"].as_array().expect("nodes").as_slice() else {
        panic!("{response}");
    };
    let parts = n1["scores"].as_array().expect("scores").iter();
    let sum: i64 = parts.filter_map(|part| part["score"].as_i64()).sum();
    assert_eq!(n1["score"].as_i64(), Some(sum));
    assert!(sum > 0 && n2["score"].is_null(), "{response}");
}

#[tokio::test]
async fn explain_failures_are_reported_in_one_line() {
    let server = cluster().await;
    for (flags, says) in [
        (
            "nobody",
            "no pod \"nobody\" in namespace \"default\", or it has terminated",
        ),
        (
            "db",
            "no pod \"db\" in namespace \"default\", or it has terminated",
        ),
        (
            "deployment/web",
            "unsupported resource \"deployment\": only pods are scheduled",
        ),
        ("web --node n1 --node n3", "node \"n3\" not found"),
        (
            "foreign",
            "the configuration has no profile for the pod's scheduler \"another\"; set --config to the file of that \
             scheduler",
        ),
        (
            "web --config /nowhere",
            "scheduler configuration /nowhere: No such file or directory (os error 2)",
        ),
    ] {
        let (is_well, response, problem) = explain(&server, flags);
        assert_eq!(
            (is_well, response.as_str(), problem),
            (false, "", format!("rhumb: {says}\n"))
        );
    }
}

/// Writes a pod with the affinity `web` to a file.
fn pod_file(directory: &std::path::Path, name: &str, affinity: &Value) -> std::path::PathBuf {
    let mut manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "new"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}]},
    });
    manifest["spec"]["affinity"] = affinity.clone();
    let path = directory.join(format!("{name}.json"));
    std::fs::write(&path, manifest.to_string()).expect("a file");
    path
}

#[tokio::test]
async fn a_pod_is_explained_before_it_is_created() {
    let server = cluster().await;
    let directory = tempfile::tempdir().expect("a directory");
    let affinity = json!({"podAffinity": about_team("db", "y")});
    let file = pod_file(directory.path(), "new", &affinity);
    let flags = format!("-f {}", file.display());
    let expected = "pod default/new is not created yet
0 of 2 nodes fit

NODE  FITS  SCORE  WHY
n1    no    -      InterPodAffinity: node(s) didn't match pod affinity rules: no pod matching the affinity (app=db in namespaces with team=y) is in kubernetes.io/hostname=n1
n2    no    -      InterPodAffinity: node(s) didn't match pod affinity rules: no pod matching the affinity (app=db in namespaces with team=y) is in kubernetes.io/hostname=n2

affinity terms of the pod:
  required affinity per kubernetes.io/hostname: app=db in namespaces with team=y
    namespaces by selector: no namespace has team=y
    pods that match: no pod
    pods with these labels in namespaces that are not selected: other/db on n1
";
    assert_eq!(explained(&server, &flags), expected);
    // Nothing was created.
    let (is_well, _, problem) = explain(&server, "new");
    assert!(!is_well && problem.contains("no pod \"new\""), "{problem}");

    for (flags, says) in [
        (
            format!("-f {} -n nowhere", file.display()),
            "the server would not create the pod: namespaces \"nowhere\" not found",
        ),
        (
            format!(
                "-f {}",
                pod_file(directory.path(), "web", &affinity).display()
            ),
            "pods \"web\" already exists; to explain the existing pod, name it instead of the file",
        ),
        (
            format!(
                "-f {}",
                pod_file(directory.path(), "odd", &json!({"podAfinity": {}})).display()
            ),
            "unknown field \"spec.affinity.podAfinity\"",
        ),
    ] {
        let (is_well, response, problem) = explain(&server, &flags);
        assert!(!is_well && response.is_empty(), "{response}");
        assert!(problem.contains(says), "{flags}: {problem}");
    }
}
