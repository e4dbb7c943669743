//! Files that can be read, and what is said of those that cannot.

use crate::command::{Files, namespace, netpol_with_input, pod, policy};

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
fn objects_are_found_in_files_lists_directories_and_standard_input() {
    let list = r#"{"apiVersion": "v1", "kind": "PodList", "items": [
        {"metadata": {"name": "one", "namespace": "a"},
         "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
         "status": {"podIPs": [{"ip": "10.0.0.1"}]}},
        {"metadata": {"name": "two", "namespace": "a"}, "status": {"podIP": "10.0.0.2"}}]}"#;
    let mixed = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
         "metadata": {"name": "deny", "namespace": "a"}, "spec": {"podSelector": {}}}]}"#;
    let files = Files::new(&[
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
        // What is the same is there once.
        "-f all.yaml all.yaml",
    ];
    for given in table {
        let ended = files.run(&format!("check {given} {ASK}"));
        assert_eq!(
            (ended.code, &*ended.errors),
            (Some(1), ""),
            "{given}: {ended:?}"
        );
    }
    let ended = netpol_with_input(files.path(), &format!("check -f - {ASK}"), &cluster());
    assert_eq!((ended.code, &*ended.errors), (Some(1), ""), "{ended:?}");
}

#[test]
fn what_says_no_namespace_is_in_default() {
    let files = Files::new(&[(
        "all.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: one}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: two}}\n---\n\
         {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny}, spec: {podSelector: {}}}\n",
    )]);
    let ended = files.run("check -f all.yaml --from default/one --to default/two:80");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("default/deny"), "{}", ended.out);
}

#[test]
fn other_kinds_are_named_and_left_alone() {
    let others = "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}\n\
                  ---\n{apiVersion: v1, kind: Service, metadata: {name: x}}\n\
                  ---\n{apiVersion: v1, kind: Service, metadata: {name: y}}\n\
                  ---\n{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {name: x}}\n";
    let files = Files::new(&[("all.yaml", &(cluster() + others))]);
    let ended = files.run(&format!("check -f all.yaml {ASK}"));
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.errors,
        "note: no pods are made of 1 Deployment: give the pods themselves, as in `kubectl get pods -A -o yaml`\n\
         note: only pods, namespaces and network policies are looked at, not 1 CiliumNetworkPolicy.cilium.io/v2, \
         2 Service\n"
    );
}

/// Each by itself: what is added to the cluster, what is asked, and what is said.
#[test]
fn what_cannot_be_answered_ends_with_2_and_a_line_that_says_why() {
    let misspelt = policy("a", "x", "podSelector: {}, ingres: []");
    let deeper = policy("a", "x", "podSelector: {}, ingress: [{form: []}]");
    let nobody = policy("a", "x", "podSelector: {}, ingress: [{from: [{}]}]");
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
            "neither an address nor a pod as in NAMESPACE/POD",
        ),
        (
            "",
            "--from a/two --to a/one:80/ICMP",
            "\"ICMP\" is none of TCP, UDP and SCTP",
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
            "document 5: pod a/three: status.podIPs: \"10.0.0.256\" is no address",
        ),
        ("---\n[1, 2\n", ASK, "all.yaml, document 5: yaml: "),
        (
            "---\n[1, 2]\n",
            ASK,
            "all.yaml, document 5: this is no object: it needs apiVersion and kind",
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
            &nobody,
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
        let files = Files::new(&[("all.yaml", &(cluster() + more))]);
        let ended = files.run(&format!("check -f all.yaml {asked}"));
        assert_eq!(ended.code, Some(2), "{more} {asked}: {ended:?}");
        assert!(
            ended.errors.contains(want),
            "{more} {asked}: {}",
            ended.errors
        );
        assert_eq!(ended.out, "", "{more} {asked}");
        if let Some(error) = ended.errors.strip_prefix("rhumb: ") {
            assert_eq!(error.trim_end().lines().count(), 1, "{error}");
        }
    }
}

#[test]
fn where_there_is_nothing_to_read_is_said() {
    let files = Files::new(&[
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
            "there is nothing to read; name files with -f, or a server",
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
        (
            "matrix -f policy.yaml".to_owned(),
            "there are no pods to ask about",
        ),
    ];
    for (words, want) in table {
        let ended = files.run(&words);
        assert_eq!(ended.code, Some(2), "{words}: {ended:?}");
        assert!(ended.errors.contains(want), "{words}: {}", ended.errors);
    }
}
