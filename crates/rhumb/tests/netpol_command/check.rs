//! One connection: what is said, and how the program ends.

use serde_json::{Value, json};

use crate::command::{Files, namespace, pod, policy};

/// `web/front` may go to `app/api` on its port `http` and to 10.9.0.0/16, `app/api` takes only that; `app/free` is not
/// isolated. All have both families.
fn cluster() -> Files {
    let http = "{name: http, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}";
    Files::new(&[(
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
fn allowed_is_0_and_denied_is_1() {
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
        // An address may be a pod's.
        ("10.0.0.1", "10.0.1.1:8080", 0),
        ("10.0.0.1", "10.0.1.1:http", 0),
        ("fd00::1", "[fd00::1:1]:8080/TCP", 0),
        ("10.0.0.2", "10.0.1.1:8080", 1),
        ("8.8.8.8", "app/free:80", 0),
        ("8.8.8.8", "app/api:8080", 1),
        ("8.8.8.8", "9.9.9.9:1", 0),
    ];
    for (from, to, want) in table {
        let ended = files.run(&format!("check -f cluster.yaml --from {from} --to {to}"));
        assert_eq!(ended.code, Some(want), "{from} {to}: {ended:?}");
        let word = if want == 0 { "allowed: " } else { "denied: " };
        assert!(ended.out.starts_with(word), "{from} {to}: {}", ended.out);
        assert_eq!(ended.errors, "", "{from} {to}");
    }
}

/// Unlike turning the exit code around, this does not take an error for a denial.
#[test]
fn a_denial_can_be_what_is_expected() {
    let files = cluster();
    let table = [
        ("web/front", "app/api:8081", "denied", 0),
        ("web/front", "app/api:8080", "denied", 1),
        ("web/front", "app/api:8081", "allowed", 1),
        ("web/front", "app/api:8080", "allowed", 0),
        ("web/gone", "app/api:8080", "denied", 2),
    ];
    for (from, to, expected, want) in table {
        let words = format!("check -f cluster.yaml --from {from} --to {to} --expect {expected}");
        let ended = files.run(&words);
        assert_eq!(ended.code, Some(want), "{words}: {ended:?}");
    }
}

#[test]
fn what_allows_a_connection_is_named_down_to_the_peer_and_the_port() {
    let out = cluster()
        .run("check -f cluster.yaml --from web/front --to app/api:http")
        .well();
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
        .well();
    assert_eq!(
        out,
        "allowed: 8.8.8.8 → app/free:80/TCP\n\
         \n\
         8.8.8.8 → 10.0.1.2\n\
         DIRECTION  VERDICT  POLICY  WHY\n\
         egress     allowed  -       it does not come from a pod that policies are about\n\
         ingress    allowed  -       no policy isolates the pod in this direction\n"
    );
}

#[test]
fn what_stands_against_a_connection_is_named_rule_by_rule() {
    let ended = cluster().run("check -f cluster.yaml --from 10.0.1.2 --to app/api:8080");
    assert_eq!(
        ended.out,
        "denied: 10.0.1.2 → app/api:8080/TCP\n\
         \n\
         10.0.1.2 → 10.0.1.1\n\
         DIRECTION  VERDICT  POLICY       WHY\n\
         egress     allowed  -            no policy isolates the pod in this direction\n\
         ingress    denied   app/api-in   spec.ingress[0]: no peer is 10.0.1.2 (pod app/free)\n\
         \u{20}                   app/nothing  it has no ingress rules: nothing may come in\n"
    );
}

/// A block of one family says nothing about the other: the pairs differ, and one that is allowed is enough.
#[test]
fn families_that_differ_are_told_apart() {
    let files = Files::new(&[(
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
        .well();
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
fn programs_get_the_same_with_the_names_of_a_row() {
    let ended = cluster().run("check -f cluster.yaml --from 10.0.1.2 --to app/api:8080 -o json");
    assert_eq!(ended.code, Some(1));
    let answer: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(
        answer,
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

/// Manifests have no addresses: selectors say all, and what is made up is not shown.
#[test]
fn pods_without_an_address_are_judged_by_their_labels() {
    let files = Files::new(&[(
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
    let ended = files.run("check -f cluster.yaml --from a/from --to a/to:80");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(
        ended.out,
        "denied: a/from → a/to:80/TCP\n\
         \n\
         DIRECTION  VERDICT  POLICY  WHY\n\
         egress     allowed  -       no policy isolates the pod in this direction\n\
         ingress    denied   a/to    spec.ingress[0]: no peer is pod a/from\n"
    );
    assert_eq!(ended.errors, "");
    let block = "podSelector: {matchLabels: {app: other}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]";
    files.write("block.yaml", &policy("a", "block", block));
    let ended = files.run("check -f . --from a/from --to a/to:80");
    assert_eq!(
        ended.errors,
        "note: 2 pods have no address yet, so that rules by address (ipBlock) say nothing reliable about them: a/from, \
         a/to\n"
    );
}
