//! `rhumb netpol check`: output and exit code.

use serde_json::{Value, json};

use crate::command::{ManifestDirectory, namespace, pod, policy};

/// `web/front` may reach `app/api` on its port `http` and 10.9.0.0/16, `app/api` accepts only that; `app/free` is not
/// isolated. All pods are dual-stack.
fn cluster() -> ManifestDirectory {
    let http = "{name: http, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}";
    ManifestDirectory::new(&[(
        "cluster.yaml",
        &[
            namespace("web", "tier: web"),
            namespace("app", "tier: app"),
            pod("web", "front", "", &["10.0.0.1", "fd00::1"]),
            pod("app", "api", http, &["10.0.1.1", "fd00::1:1"]),
            pod("app", "free", "", &["10.0.1.2", "fd00::1:2"]),
            policy(
                "web",
                "front-out",
                "podSelector: {}, policyTypes: [Egress], egress: [\
                 {to: [{namespaceSelector: {matchLabels: {tier: db}}}, {namespaceSelector: {matchLabels: {tier: app}}}],\
                  ports: [{port: http}]},\
                 {to: [{ipBlock: {cidr: 10.9.0.0/16}}]}]",
            ),
            policy("app", "nothing", "podSelector: {matchLabels: {app: api}}"),
            policy(
                "app",
                "api-in",
                "podSelector: {matchLabels: {app: api}}, ingress: [\
                 {from: [{namespaceSelector: {matchLabels: {tier: web}}}], ports: [{port: http}]}]",
            ),
        ]
        .concat(),
    )])
}

#[test]
fn exit_code_is_0_if_allowed_and_1_if_denied() {
    let files = cluster();
    let table = [
        ("web/front", "app/api:8080/TCP", 0),
        ("web/front", "app/api:8080", 0),
        ("web/front", "app/api:http/TCP", 0),
        ("web/front", "app/api:8080/UDP", 1),
        ("web/front", "app/api:8080/SCTP", 1),
        ("web/front", "app/api:dns/UDP", 1),
        ("web/front", "app/api:8081", 1),
        ("web/front", "app/free:8080", 1),
        ("app/free", "app/api:8080", 1),
        ("app/free", "app/free:1", 0),
        ("app/api", "web/front:1", 0),
        ("app/api", "8.8.8.8:443", 0),
        ("web/front", "8.8.8.8:443", 1),
        ("web/front", "10.9.1.1:443", 0),
        // An address may belong to a pod.
        ("10.0.0.1", "10.0.1.1:8080", 0),
        ("10.0.0.1", "10.0.1.1:http", 0),
        ("fd00::1", "[fd00::1:1]:8080/TCP", 0),
        ("10.0.0.2", "10.0.1.1:8080", 1),
        ("8.8.8.8", "app/free:80", 0),
        ("8.8.8.8", "app/api:8080", 1),
        ("8.8.8.8", "9.9.9.9:1", 0),
    ];
    for (from, to, want) in table {
        let output = files.run(&format!("check -f cluster.yaml --from {from} --to {to}"));
        assert_eq!(output.code, Some(want), "{from} {to}: {output:?}");
        let word = if want == 0 { "allowed: " } else { "denied: " };
        assert!(output.out.starts_with(word), "{from} {to}: {}", output.out);
        assert_eq!(output.errors, "", "{from} {to}");
    }
}

/// Unlike inverting the exit code, this does not treat an error as a denial.
#[test]
fn expect_flag_sets_the_successful_verdict() {
    let files = cluster();
    let table = [
        ("web/front", "app/api:8081", "denied", 0),
        ("web/front", "app/api:8080", "denied", 1),
        ("web/front", "app/api:8081", "allowed", 1),
        ("web/front", "app/api:8080", "allowed", 0),
        ("web/gone", "app/api:8080", "denied", 2),
    ];
    for (from, to, expected, want) in table {
        let arguments =
            format!("check -f cluster.yaml --from {from} --to {to} --expect {expected}");
        let output = files.run(&arguments);
        assert_eq!(output.code, Some(want), "{arguments}: {output:?}");
    }
}

#[test]
fn allowing_rule_is_named_with_peer_and_port() {
    let out = cluster()
        .run("check -f cluster.yaml --from web/front --to app/api:http")
        .success_stdout();
    assert_eq!(
        out,
        "allowed: web/front → app/api:8080/TCP (http)\n\
         \n\
         10.0.0.1 → 10.0.1.1\n\
         fd00::1 → fd00::1:1\n\
         DIRECTION  VERDICT  POLICY         WHY\n\
         egress     allowed  web/front-out  spec.egress[0]: to[1], ports[0]\n\
         ingress    allowed  app/api-in     spec.ingress[0]: from[0], ports[0]\n"
    );
    let out = cluster()
        .run("check -f cluster.yaml --from 8.8.8.8 --to app/free:80")
        .success_stdout();
    assert_eq!(
        out,
        "allowed: 8.8.8.8 → app/free:80/TCP\n\
         \n\
         8.8.8.8 → 10.0.1.2\n\
         DIRECTION  VERDICT  POLICY  WHY\n\
         egress     allowed  -       the source is not a pod that policies can select\n\
         ingress    allowed  -       no policy isolates the pod in this direction\n"
    );
}

#[test]
fn denial_lists_the_mismatch_of_every_rule() {
    let output = cluster().run("check -f cluster.yaml --from 10.0.1.2 --to app/api:8080");
    assert_eq!(
        output.out,
        "denied: 10.0.1.2 → app/api:8080/TCP\n\
         \n\
         10.0.1.2 → 10.0.1.1\n\
         DIRECTION  VERDICT  POLICY       WHY\n\
         egress     allowed  -            no policy isolates the pod in this direction\n\
         ingress    denied   app/api-in   spec.ingress[0]: no peer is 10.0.1.2 (pod app/free)\n\
         \u{20}                   app/nothing  it has no ingress rules: nothing may come in\n"
    );
}

/// A CIDR of one family does not match the other: the address pairs differ, and one allowed pair suffices.
#[test]
fn verdicts_are_separate_per_ip_family() {
    let files = ManifestDirectory::new(&[(
        "cluster.yaml",
        &[
            pod("a", "from", "", &["10.0.0.1", "fd00::1"]),
            pod("a", "to", "", &["10.0.1.1", "fd00::1:1"]),
            policy(
                "a",
                "v4",
                "podSelector: {matchLabels: {app: to}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/24}}]}]",
            ),
        ]
        .concat(),
    )]);
    let out = files
        .run("check -f cluster.yaml --from a/from --to a/to:80")
        .success_stdout();
    assert_eq!(
        out,
        "allowed over IPv4, denied over IPv6: a/from → a/to:80/TCP\n\
         \n\
         10.0.0.1 → 10.0.1.1\n\
         DIRECTION  VERDICT  POLICY  WHY\n\
         egress     allowed  -       no policy isolates the pod in this direction\n\
         ingress    allowed  a/v4    spec.ingress[0]: from[0]\n\
         \n\
         fd00::1 → fd00::1:1\n\
         DIRECTION  VERDICT  POLICY  WHY\n\
         egress     allowed  -       no policy isolates the pod in this direction\n\
         ingress    denied   a/v4    spec.ingress[0]: no peer is fd00::1 (pod a/from)\n"
    );
    let v6 = files.run("check -f cluster.yaml --from fd00::1 --to [fd00::1:1]:80");
    assert_eq!(v6.code, Some(1), "{v6:?}");
    let matrix = files.run("matrix -f cluster.yaml -o json");
    let row = matrix
        .rows()
        .into_iter()
        .find(|row| row["from"] == "a/from" && row["to"] == "a/to");
    assert_eq!(row.expect("a row")["combined"], "allowed");
    assert!(
        matrix
            .errors
            .contains("IPv4 and IPv6 differ for some pairs"),
        "{}",
        matrix.errors
    );
}

#[test]
fn json_output_has_the_field_names_of_matrix_rows() {
    let output = cluster().run("check -f cluster.yaml --from 10.0.1.2 --to app/api:8080 -o json");
    assert_eq!(output.code, Some(1));
    let report: Value = serde_json::from_str(&output.out).expect("JSON");
    assert_eq!(
        report,
        json!({
            "from": "10.0.1.2", "to": "app/api", "port": 8080, "protocol": "TCP",
            "ingress": "denied", "egress": "allowed", "combined": "denied",
            "pairs": [{
                "from": "10.0.1.2", "to": "10.0.1.1", "combined": "denied",
                "egress": {"verdict": "allowed", "because": "notIsolated"},
                "ingress": {"verdict": "denied", "because": "denied", "policies": [
                    {"policy": {"namespace": "app", "name": "api-in"},
                     "rules": ["spec.ingress[0]: no peer is 10.0.1.2 (pod app/free)"]},
                    {"policy": {"namespace": "app", "name": "nothing"}, "rules": []},
                ]},
            }],
        })
    );
}

/// Pods in manifests have no addresses: their labels decide, and placeholder addresses are not shown.
#[test]
fn pods_without_an_address_are_judged_by_their_labels() {
    let files = ManifestDirectory::new(&[(
        "cluster.yaml",
        &[
            pod("a", "from", "", &[]),
            pod("a", "to", "", &[]),
            policy(
                "a",
                "to",
                "podSelector: {matchLabels: {app: to}}, ingress: [{from: [{podSelector: {matchLabels: {app: x}}}]}]",
            ),
        ]
        .concat(),
    )]);
    let output = files.run("check -f cluster.yaml --from a/from --to a/to:80");
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(
        output.out,
        "denied: a/from → a/to:80/TCP\n\
         \n\
         DIRECTION  VERDICT  POLICY  WHY\n\
         egress     allowed  -       no policy isolates the pod in this direction\n\
         ingress    denied   a/to    spec.ingress[0]: no peer is pod a/from\n"
    );
    assert_eq!(output.errors, "");
    let block = "podSelector: {matchLabels: {app: other}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]";
    files.write("block.yaml", &policy("a", "block", block));
    let output = files.run("check -f . --from a/from --to a/to:80");
    assert_eq!(
        output.errors,
        "note: 2 pods have no address yet, so that rules by address (ipBlock) say nothing reliable about them: a/from, \
         a/to\n"
    );
}
