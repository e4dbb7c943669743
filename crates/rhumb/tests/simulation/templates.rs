//! Node templates, and errors about invalid ones.

use std::process::Command;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};

use crate::program::NO_CONTROLLERS;
use crate::support::TestServer;
use crate::waiting::wait_for;

fn example() -> String {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/simulated-nodes.yaml"
    );
    file.to_owned()
}

#[tokio::test]
async fn template_defines_the_nodes() {
    let server = TestServer::start_with(&[
        NO_CONTROLLERS,
        "--nodes",
        "5",
        "--node-template",
        &example(),
    ]);
    let nodes: Api<Node> = Api::all(server.client().await);
    let node = wait_for(&nodes, "gpu-00001", |_| true).await;
    let status = node.status.clone().expect("a status");
    let capacity = status.capacity.expect("a capacity");
    assert_eq!(capacity["nvidia.com/gpu"].0, "8");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    assert!(taints.any(|taint| taint.key == "nvidia.com/gpu"));
    assert_eq!(node.labels()["simulation.rhumb/simulated"], "true");
    wait_for(&nodes, "general-00005", |_| true).await;
}

#[test]
fn invalid_flags_fail_with_a_one_line_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("template.yaml");
    let path = path.to_str().expect("a path");
    let head = "apiVersion: v1\nkind: Node\n";
    for (template, flags, says) in [
        (
            None,
            vec!["--nodes", "20000"],
            "rhumb: --nodes: 20000 nodes are too many: there can be 15000\n".to_owned(),
        ),
        (
            Some(format!("{head}spec: {{podCIDR: 10.0.0.0/8}}\n")),
            vec!["--nodes", "2", "--node-template", path],
            format!(
                "rhumb: --node-template {path}: line 3, column 8: unknown field `podCIDR`, expected "
            ),
        ),
        (
            Some(format!("{head}status: {{capacity: {{cpu: many}}}}\n")),
            vec!["--nodes", "2", "--node-template", path],
            format!(
                "rhumb: --node-template {path}: document 1 (\"\"): status.capacity[cpu]: quantities must match "
            ),
        ),
        (
            Some(head.to_owned()),
            vec!["--node-template", path],
            format!(
                "rhumb: --node-template {path}: one of its documents does not say how many nodes"
            ),
        ),
        (
            None,
            vec!["--node-template", "/nowhere"],
            "rhumb: --node-template /nowhere: No such file".to_owned(),
        ),
    ] {
        if let Some(template) = template {
            std::fs::write(path, template).expect("a file");
        }
        for command in ["up", "simulate-nodes"] {
            let process_output = Command::new(env!("CARGO_BIN_EXE_rhumb"))
                .arg(command)
                .args(&flags)
                .output()
                .expect("the program runs");
            let said = String::from_utf8_lossy(&process_output.stderr);
            assert!(!process_output.status.success(), "{flags:?}");
            assert!(
                said.starts_with(&says) && said.lines().count() == 1,
                "{said}"
            );
        }
    }
}
