//! Start failures are reported in one line, with the remedy.

use std::path::Path;
use std::process::Command;

use crate::program::kubeconfig;
use crate::support::TestServer;

/// Starts a server that must fail, and checks its error.
fn check_start_fails(directory: &Path, flags: &[&str], expected: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_rhumb"))
        .args(["up", "--data-dir"])
        .arg(directory)
        .args(flags)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{flags:?} starts");
    for part in expected {
        assert!(
            text.contains(part),
            "{flags:?}: {part:?} is not in {text:?}"
        );
    }
    assert!(!text.contains("panicked"), "{text}");
    if text.starts_with("rhumb: ") {
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    }
}

#[test]
fn invalid_flags_and_files_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let tokens = file("tokens.csv", "only-a-token\n");
    let plain = file("plain", "");
    let missing = directory
        .path()
        .join("no/such/file")
        .to_str()
        .unwrap()
        .to_owned();
    let port = "--secure-port=0";
    check_start_fails(&data, &[port, "--no-such-flag"], &["--no-such-flag"]);
    check_start_fails(
        &data,
        &[port, "--request-timeout", "soon"],
        &["soon", "30s"],
    );
    check_start_fails(
        &data,
        &[port, "--feature-gates", "NoSuchGate=true"],
        &["NoSuchGate"],
    );
    check_start_fails(
        &data,
        &[port, "--token-auth-file", &tokens],
        &["tokens.csv"],
    );
    check_start_fails(
        &data,
        &[port, "--token-auth-file", &missing],
        &["no/such/file"],
    );
    check_start_fails(
        &data,
        &[port, "--audit-log-path", &missing],
        &["no/such/file", "--audit-log-path"],
    );
    check_start_fails(
        &data,
        &[port, "--bind-address", "192.0.2.1"],
        &["192.0.2.1", "--bind-address"],
    );
    check_start_fails(
        &data,
        &[
            port,
            "--index-labels=pods#a",
            "--index-labels=deployments#team",
        ],
        &["\"deployments#team\"", "did you mean \"deployments.apps\"?"],
    );
    check_start_fails(
        &data,
        &[port, "--index-labels=pods#a;b", "--index-labels=pods#b"],
        &["\"pods#b\" is a duplicate"],
    );
    let policy = ["--audit-log-path", "-", "--audit-policy-file", &plain];
    check_start_fails(
        &data,
        &[&[port], &policy[..]].concat(),
        &["audit policy", "plain"],
    );
    check_start_fails(Path::new(&plain), &[port], &["plain"]);
}

#[test]
fn invalid_critical_resources_file_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let path = directory.path().join("critical.yaml");
    let head = "apiVersion: admission.rhumb/v1\nkind: CriticalResources\n";
    let table = [
        ("", "the file is empty"),
        ("HEADrules: []", "rules is empty"),
        ("HEADrules:\n- {}", "line 4: the rule matches everything"),
        (
            "HEADrules:\n- resource: [pods]",
            "line 4, column 3: unknown field",
        ),
        (
            "HEADrules:\n- resources: pods",
            "line 4, column 14: expected sequence",
        ),
        // Rules that are invalid as exclusion rules of a webhook.
        (
            "HEADrules:\n- resources: [pods]\n- resources: [nodes]\n  operations: [READ]",
            "line 5: operations[0]: Unsupported value: \"READ\"",
        ),
        (
            "HEADrules:\n- resources: [nodes]\n  scope: Cluster\n  namespaces: [a]",
            "line 4: namespaces: Forbidden: may not be set when scope is Cluster",
        ),
        (
            "HEADrules:\n- resources: ['*', pods]",
            "line 4: resources: Invalid value",
        ),
        (
            "kind: Policy\napiVersion: audit.k8s.io/v1",
            "kind must be CriticalResources of admission.rhumb/v1, not Policy of audit.k8s.io/v1",
        ),
    ];
    for (text, expected) in table {
        std::fs::write(&path, text.replace("HEAD", head)).unwrap();
        let flag = format!("--critical-resources-file={}", path.display());
        let expected = ["the critical resources", "critical.yaml", expected];
        check_start_fails(&data, &["--secure-port=0", &flag], &expected);
    }
    check_start_fails(
        &data,
        &["--secure-port=0", "--critical-resources-file=/no/such/file"],
        &["the critical resources", "/no/such/file"],
    );
}

#[test]
fn plugins_that_enforce_nothing_cannot_be_enabled() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let missing = [
        "PodSecurity",
        "JobValidation",
        "NodeDeclaredFeatureValidator",
        "ClusterTrustBundleAttest",
        "PodGroupProtection",
        "PodGroupWorkloadExists",
    ];
    for plugin in missing {
        let flag = format!("--enable-admission-plugins=Priority,{plugin}");
        let expected = [plugin, "is not implemented in rhumb"];
        check_start_fails(&data, &["--secure-port=0", &flag], &expected);
    }
}

#[test]
fn invalid_admission_configuration_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";
    let quota = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n";
    let inline = format!(
        "HEAD- name: ResourceQuota\n  configuration:\n    {}",
        quota.replace('\n', "\n    ")
    );
    let expected = |text: &str, expected: &[&str]| {
        let path = write("admission.yaml", &text.replace("HEAD", head));
        let flag = format!("--admission-control-config-file={}", path.display());
        check_start_fails(&data, &["--secure-port=0", &flag], expected);
    };
    let table = [
        ("", "the file is empty"),
        ("plugins: [", "line 1, column "),
        (
            "kind: Policy\napiVersion: audit.k8s.io/v1",
            "line 1, column 7: kind must be AdmissionConfiguration of apiserver.config.k8s.io/v1, not Policy of audit.k8s.io/v1",
        ),
        (
            "HEAD- name: Quota",
            "line 4, column 9: there is no admission plugin \"Quota\"",
        ),
        (
            "HEAD- name: ResourceQuota\n  file: a",
            "line 5, column 3: unknown field",
        ),
        (
            "HEAD- name: PodSecurity\n  path: a",
            "line 4, column 9: PodSecurity cannot be configured in rhumb: only ResourceQuota can",
        ),
        (
            "HEAD- name: Priority\n- name: Priority",
            "line 5, column 9: plugin Priority is configured twice",
        ),
        (
            "HEAD- name: ResourceQuota\n  path: a\n  configuration: {}",
            "line 4, column 9: ResourceQuota has both a path and a configuration",
        ),
        (
            "INLINElimitedResources: [{}]",
            "line 8, column 24: resource: Required value",
        ),
        ("INLINElimited: []", "line 8, column 5: unknown field"),
        (
            "INLINElimitedResources: [{resource: pods, matchScopes: [{scopeName: Far}]}]",
            "scopeName: unknown scope \"Far\"",
        ),
    ];
    for (text, reason) in table {
        let text = text.replace("INLINE", &inline);
        expected(
            &text,
            &["the admission configuration", "admission.yaml: ", reason],
        );
    }
    // Relative paths are resolved against the file that contains them.
    let other = "HEAD- name: ResourceQuota\n  path: quota.yaml";
    expected(
        other,
        &[
            "the configuration of ResourceQuota",
            "quota.yaml: No such file",
        ],
    );
    write(
        "quota.yaml",
        &format!("{quota}limitedResources:\n- resource: pods/status\n"),
    );
    expected(
        other,
        &[
            "the configuration of ResourceQuota",
            "quota.yaml: line 4, column 13: resource: \"pods/status\" is not a plural resource name",
        ],
    );
    check_start_fails(
        &data,
        &[
            "--secure-port=0",
            "--admission-control-config-file=/no/such/file",
        ],
        &["the admission configuration", "/no/such/file"],
    );
}

#[test]
fn admission_configuration_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    write(
        "quota.yaml",
        "apiVersion: resourcequota.admission.k8s.io/v1beta1\nkind: Configuration\nlimitedResources:\n- resource: pods\n  matchContains: [cpu]\n",
    );
    let path = write(
        "admission.yaml",
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: ResourceQuota\n  path: quota.yaml\n",
    );
    let flag = format!("--admission-control-config-file={}", path.display());
    TestServer::start(&[&flag]);
}

#[test]
fn broken_certificate_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = TestServer::start(&[]);
    let created = server.directory.path().join("data");
    copy(&created, &data);
    let mut broken = 0;
    for entry in walk(&data) {
        if entry.extension().is_some_and(|it| it == "crt") {
            std::fs::write(&entry, "this is no certificate").unwrap();
            broken += 1;
        }
    }
    assert!(broken > 0, "there are certificates");
    check_start_fails(&data, &["--secure-port=0"], &[".crt"]);
}

fn walk(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(walk(&path)),
            false => files.push(path),
        }
    }
    files
}

fn copy(from: &Path, to: &Path) {
    for file in walk(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, target).unwrap();
    }
}

#[test]
fn second_server_fails_without_affecting_the_first() {
    let server = TestServer::start(&[]);
    let port = format!("--secure-port={}", server.address.port());
    let other = tempfile::tempdir().unwrap();
    check_start_fails(other.path(), &[&port], &["in use", "--secure-port"]);
    let data = server.directory.path().join("data");
    let before = std::fs::read_to_string(kubeconfig(server.directory.path())).unwrap();
    check_start_fails(&data, &["--secure-port=0"], &["in use"]);
    let after = std::fs::read_to_string(kubeconfig(server.directory.path())).unwrap();
    assert_eq!(before, after, "the kubeconfig is of the server that runs");
}
