//! Input of `rhumb netpol`: readable files, and errors about others.

use crate::command::{ManifestDirectory, namespace, netpol_with_input, pod, policy};

fn cluster() -> String {
    let http = "{name: http, containerPort: 8080}, {containerPort: 53, protocol: UDP}";
    [
        namespace("a", ""),
        pod("a", "one", http, &["10.0.0.1"]),
        pod("a", "two", "", &["10.0.0.2"]),
        policy("a", "deny", "podSelector: {}"),
    ]
    .concat()
}

const ASK: &str = "--from a/two --to a/one:http";

#[test]
fn objects_are_read_from_files_lists_directories_and_stdin() {
    let list = r#"{"apiVersion": "v1", "kind": "PodList", "items": [
        {"metadata": {"name": "one", "namespace": "a"},
         "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
         "status": {"podIPs": [{"ip": "10.0.0.1"}]}},
        {"metadata": {"name": "two", "namespace": "a"}, "status": {"podIP": "10.0.0.2"}}]}"#;
    let mixed = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
         "metadata": {"name": "deny", "namespace": "a"}, "spec": {"podSelector": {}}}]}"#;
    let files = ManifestDirectory::new(&[
        ("all.yaml", &cluster()),
        ("parts/pods.json", list),
        ("parts/rest.yml", mixed),
        ("parts/README.md", "no object"),
        ("parts/deeper/other.yaml", "no object either"),
    ]);
    let table = [
        "-f all.yaml",
        "-f parts",
        "-f parts/pods.json parts/rest.yml",
        "-f parts/pods.json -f parts/rest.yml",
        // Equal objects are deduplicated.
        "-f all.yaml all.yaml",
    ];
    for given in table {
        let output = files.run(&format!("check {given} {ASK}"));
        assert_eq!(
            (output.code, &*output.errors),
            (Some(1), ""),
            "{given}: {output:?}"
        );
    }
    let output = netpol_with_input(files.path(), &format!("check -f - {ASK}"), &cluster());
    assert_eq!((output.code, &*output.errors), (Some(1), ""), "{output:?}");
}

#[test]
fn objects_without_a_namespace_are_in_default() {
    let files = ManifestDirectory::new(&[(
        "all.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: one}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: two}}\n---\n\
         {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny}, spec: {podSelector: {}}}\n",
    )]);
    let output = files.run("check -f all.yaml --from default/one --to default/two:80");
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.out.contains("default/deny"), "{}", output.out);
}

#[test]
fn other_kinds_are_noted_and_skipped() {
    let others = "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}\n\
                  ---\n{apiVersion: v1, kind: Service, metadata: {name: x}}\n\
                  ---\n{apiVersion: v1, kind: Service, metadata: {name: y}}\n\
                  ---\n{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {name: x}}\n";
    let files = ManifestDirectory::new(&[("all.yaml", &(cluster() + others))]);
    let output = files.run(&format!("check -f all.yaml {ASK}"));
    assert_eq!(output.code, Some(1));
    assert_eq!(
        output.errors,
        "note: no pods are generated from 1 Deployment: pass the pods themselves, as from `kubectl get pods -A -o yaml`\n\
         note: only pods, namespaces and network policies are evaluated; ignored: 1 CiliumNetworkPolicy.cilium.io/v2, \
         2 Service\n"
    );
}

/// Each case: an addition to the cluster, the arguments, and the expected error.
#[test]
fn errors_exit_with_2_and_a_one_line_message() {
    let misspelt = policy("a", "x", "podSelector: {}, ingres: []");
    let deeper = policy("a", "x", "podSelector: {}, ingress: [{form: []}]");
    let invalid = policy("a", "x", "podSelector: {}, ingress: [{from: [{}]}]");
    let reversed = policy(
        "a",
        "x",
        "podSelector: {}, ingress: [{ports: [{port: 80, endPort: 79}]}]",
    );
    let newer = policy("a", "x", "podSelector: {}, minVersion: '1.3', egress: [{}]");
    let table: &[(&str, &str, &str)] = &[
        (
            "",
            "--from a/none --to a/one:80",
            "there is no pod a/none; in that namespace there is one, two",
        ),
        (
            "",
            "--from a/one --to b/one:80",
            "there is no pod b/one, nor any other in the namespace \"b\"",
        ),
        (
            "",
            "--from a/two --to a/one",
            "--to needs a port, as in a/one:8080/TCP; it declares http (8080/TCP), 53/UDP",
        ),
        (
            "",
            "--from a/one --to a/two",
            "--to needs a port, as in a/two:80/TCP; it declares none",
        ),
        (
            "",
            "--from a/two --to a/one:web",
            "a/one has no port \"web\" of TCP; it declares http (8080/TCP), 53/UDP",
        ),
        (
            "",
            "--from a/two --to a/one:http/UDP",
            "a/one has no port \"http\" of UDP",
        ),
        (
            "",
            "--from a/two --to 8.8.8.8:http",
            "8.8.8.8 has no port \"http\" of TCP; it declares none",
        ),
        (
            "",
            "--from two --to a/one:80",
            "neither an address nor a pod as NAMESPACE/POD",
        ),
        (
            "",
            "--from a/two --to a/one:80/ICMP",
            "unknown protocol \"ICMP\": expected TCP, UDP or SCTP",
        ),
        (
            "",
            "--from a/two --to fd00::1",
            "an IPv6 address needs brackets before its port: [fd00::1]:80/TCP",
        ),
        (
            "",
            "--from a/two --to [fd00::1]:80",
            "they have no addresses of the same family",
        ),
        (
            &pod("a", "one", "", &["10.0.0.9"]),
            ASK,
            "all.yaml, document 5: there is another pod a/one in all.yaml, document 2",
        ),
        (
            &pod("a", "three", "", &["10.0.0.256"]),
            ASK,
            "document 5: pod a/three: status.podIPs: \"10.0.0.256\" is not an address",
        ),
        ("---\n[1, 2\n", ASK, "all.yaml, document 5: yaml: "),
        (
            "---\n[1, 2]\n",
            ASK,
            "all.yaml, document 5: not an object with apiVersion and kind",
        ),
        (
            "---\n{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Service}, {metadata: {name: x}}]}\n",
            ASK,
            "all.yaml, document 5, item 2: apiVersion and kind are missing",
        ),
        (
            "---\n{apiVersion: v1, kind: List, items: [{kind: Pod, metadata: {name: x}}]}\n",
            ASK,
            "all.yaml, document 5, item 1: apiVersion is missing",
        ),
        (
            "---\n{apiVersion: v1, kind: Pod}\n",
            ASK,
            "document 5: this Pod has no metadata.name",
        ),
        (
            &misspelt,
            ASK,
            "all.yaml, document 5: unknown field \"spec.ingres\"",
        ),
        (
            &deeper,
            ASK,
            "all.yaml, document 5: unknown field \"spec.ingress[0].form\"",
        ),
        (
            &invalid,
            ASK,
            "document 5: networkpolicy a/x: spec.ingress[0].from[0]: Required value: must specify a peer",
        ),
        (
            &reversed,
            ASK,
            "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
        ),
        (&newer, ASK, "document 5: networkpolicy a/x: spec."),
    ];
    for (more, asked, want) in table {
        let files = ManifestDirectory::new(&[("all.yaml", &(cluster() + more))]);
        let output = files.run(&format!("check -f all.yaml {asked}"));
        assert_eq!(output.code, Some(2), "{more} {asked}: {output:?}");
        assert!(
            output.errors.contains(want),
            "{more} {asked}: {}",
            output.errors
        );
        assert_eq!(output.out, "", "{more} {asked}");
        if let Some(error) = output.errors.strip_prefix("rhumb: ") {
            assert_eq!(error.trim_end().lines().count(), 1, "{error}");
        }
    }
}

#[test]
fn missing_input_is_reported() {
    let files = ManifestDirectory::new(&[
        ("empty/note.txt", ""),
        ("policy.yaml", &policy("a", "deny", "podSelector: {}")),
    ]);
    let table = [
        (
            format!("check -f nowhere.yaml {ASK}"),
            "nowhere.yaml: No such file",
        ),
        (
            format!("check -f empty {ASK}"),
            "empty: there is no *.yaml, *.yml or *.json in it",
        ),
        (
            format!("check {ASK}"),
            "no input; pass files with -f, or a server with --kubeconfig",
        ),
        (
            format!("check {ASK} --kubeconfig nowhere"),
            "--kubeconfig nowhere: No such file",
        ),
        (
            format!("check {ASK} -f policy.yaml --kubeconfig x"),
            "cannot be used with",
        ),
        (
            format!("check -f policy.yaml {ASK}"),
            "there is no pod a/two, nor any other in the namespace",
        ),
        ("matrix -f policy.yaml".to_owned(), "there are no pods"),
    ];
    for (arguments, want) in table {
        let output = files.run(&arguments);
        assert_eq!(output.code, Some(2), "{arguments}: {output:?}");
        assert!(
            output.errors.contains(want),
            "{arguments}: {}",
            output.errors
        );
    }
}
