//! `rhumb scheduler explain`: what stands between a pod and each node.

use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use crate::cluster::{about_team, make_namespace, make_node, make_pod, on, placed, pod};
use crate::program::FEW_CONTROLLERS;
use crate::support::Server;

/// What it says to whom: to those who asked, and to those who watch.
fn explain(server: &Server, flags: &str) -> (bool, String, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_rhumb"))
        .args(["scheduler", "explain", "--kubeconfig"])
        .arg(server.kubeconfig())
        .args(flags.split(' '))
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        ended.status.success(),
        text(ended.stdout),
        text(ended.stderr),
    )
}

#[track_caller]
fn explained(server: &Server, flags: &str) -> String {
    let (is_well, answer, notes) = explain(server, flags);
    assert!(is_well && notes.is_empty(), "{flags}: {notes}");
    answer
}

/// Two nodes. `db` is on the first; `web` may go there only, and stands no `db` of a namespace with the label `team=x`.
async fn cluster() -> Server {
    let server = Server::start_with(&[FEW_CONTROLLERS, "--scheduler"]);
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

const ASKED: &str = "spec.nodeSelector: asked for is kubernetes.io/hostname=n1, and the node has kubernetes.io/hostname=n2";
const WHO: &str = "pod other/db is in kubernetes.io/hostname=n1, and the pod's anti-affinity is about it (app=db)";

#[tokio::test]
async fn a_pod_is_explained_node_by_node() {
    let server = cluster().await;
    let n1 = format!(
        "n1    no    -      InterPodAffinity: node(s) didn't match pod anti-affinity rules: {WHO}\n"
    );
    let head = "pod default/web waits for a node\n0 of 2 nodes fit\n\nNODE  FITS  SCORE  WHY\n";
    let n2 = format!(
        "n2    no    -      NodeAffinity: node(s) didn't match Pod's node affinity/selector: {ASKED}\n"
    );
    assert_eq!(explained(&server, "pod/web"), format!("{head}{n1}{n2}"));
    assert_eq!(explained(&server, "web --node n1"), format!("{head}{n1}"));

    // As a scheduler sees it that does not look at labels of namespaces.
    let gates = "PodAffinityNamespaceSelector=false";
    let (is_well, answer, _) = explain(&server, &format!("web --feature-gates {gates}"));
    assert!(is_well && answer.contains("1 of 2 nodes fit\n"), "{answer}");

    let answer = explained(&server, "web -o json");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
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
    });
    assert_eq!(answer, expected);

    let answer = explained(&server, "gated");
    let says =
        "pod default/gated is held back by its scheduling gates: wait, longer\n2 of 2 nodes fit\n";
    assert!(answer.starts_with(says), "{answer}");

    // One that has a node is not in its own way.
    let answer = explained(&server, "po/db -n other");
    let says = "pod other/db is on n1\n1 of 2 nodes fit\n\nNODE  FITS  SCORE  WHY\nn1    yes   ";
    assert!(answer.starts_with(says), "{answer}");
    let answer = explained(&server, "db -n other -o json");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["node"], "n1");
    let [n1, n2] = answer["nodes"].as_array().expect("nodes").as_slice() else {
        panic!("{answer}");
    };
    let parts = n1["scores"].as_array().expect("scores").iter();
    let sum: i64 = parts.filter_map(|part| part["score"].as_i64()).sum();
    assert_eq!(n1["score"].as_i64(), Some(sum));
    assert!(sum > 0 && n2["score"].is_null(), "{answer}");
}

#[tokio::test]
async fn what_cannot_be_explained_is_said_in_one_line() {
    let server = cluster().await;
    for (flags, says) in [
        (
            "nobody",
            "there is no pod \"nobody\" in the namespace \"default\" that has not come to its end",
        ),
        (
            "db",
            "there is no pod \"db\" in the namespace \"default\" that has not come to its end",
        ),
        (
            "deployment/web",
            "\"deployment\" is no pod: only pods are scheduled",
        ),
        ("web --node n1 --node n3", "there is no node \"n3\""),
        (
            "foreign",
            "the pod is scheduled by \"another\", which is no profile of the configuration; name the file of its \
             scheduler with --config",
        ),
        (
            "web --config /nowhere",
            "the configuration of the scheduler /nowhere: No such file or directory (os error 2)",
        ),
    ] {
        let (is_well, answer, problem) = explain(&server, flags);
        assert_eq!(
            (is_well, answer.as_str(), problem),
            (false, "", format!("rhumb: {says}\n"))
        );
    }
}
