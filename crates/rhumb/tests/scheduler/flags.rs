//! Invalid flags and configurations.

use std::process::Command;

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
    let wrong = file(
        "wrong.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugin: {}\n",
    );
    for (flags, says) in [
        (
            ["--kubeconfig", "/nowhere"],
            "rhumb: --kubeconfig /nowhere: No such file or directory (os error 2)\n".to_owned(),
        ),
        (
            ["--config", "/nowhere"],
            "rhumb: scheduler configuration /nowhere: No such file or directory (os error 2)\n"
                .to_owned(),
        ),
        (
            ["--config", &wrong],
            format!("rhumb: scheduler configuration {wrong}: line 4, column 3: unknown field"),
        ),
        (
            ["--leader-elect-resource-name", "Bad_Name"],
            "rhumb: the name of the scheduler's lease \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of "
                .to_owned(),
        ),
        (
            ["--metrics-address", "nowhere"],
            "rhumb: --metrics-address nowhere: ".to_owned(),
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhumb"));
        command.arg("scheduler").args(flags);
        if flags[0] != "--kubeconfig" {
            command.args(["--kubeconfig", &kubeconfig]);
        }
        let process_output = command.output().expect("the program runs");
        let said = String::from_utf8_lossy(&process_output.stderr);
        assert!(!process_output.status.success(), "{flags:?}");
        assert!(said.starts_with(&says) && said.lines().count() == 1, "{said}");
    }
}
