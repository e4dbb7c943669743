//! `rhumb netpol matrix`: JSON rows, the table, and the graph.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::command::{ManifestDirectory, namespace, pod, policy};

const HTTP: &str = "{name: http, containerPort: 8080}";

/// `web/one` and `web/two` may reach only the port of `db/sql`; they are not isolated themselves.
fn cluster() -> ManifestDirectory {
    let sql = "{name: sql, containerPort: 5432}, {name: metrics, containerPort: 9187}";
    ManifestDirectory::new(&[(
        "cluster.yaml",
        &[
            namespace("web", "tier: web"),
            namespace("db", ""),
            pod("web", "one", HTTP, &["10.0.0.1"]),
            pod("web", "two", HTTP, &["10.0.0.2"]),
            pod("db", "sql", sql, &["10.0.1.1"]),
            policy(
                "db",
                "in",
                "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {tier: web}}}], ports: [{port: sql}]}]",
            ),
        ]
        .concat(),
    )])
}

/// `from to port/protocol ingress egress combined`
fn short(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().expect(name).to_owned();
    format!(
        "{} {} {}/{} {} {} {}",
        text("from"),
        text("to"),
        row["port"].as_u64().expect("a number"),
        text("protocol"),
        text("ingress"),
        text("egress"),
        text("combined")
    )
}

fn rows(files: &ManifestDirectory, flags: &str) -> Vec<String> {
    let output = files.run(&format!("matrix -f . -o json {flags}"));
    output.rows().iter().map(short).collect()
}

#[test]
fn json_output_has_a_row_per_pair_and_port() {
    let output = cluster().run("matrix -f cluster.yaml -o json");
    let rows = output.rows();
    for row in &rows {
        let names: BTreeSet<&str> = row
            .as_object()
            .expect("a row")
            .keys()
            .map(String::as_str)
            .collect();
        let want = [
            "from", "to", "port", "protocol", "ingress", "egress", "combined",
        ];
        assert_eq!(names, want.into(), "{row}");
    }
    let rows: Vec<String> = rows.iter().map(short).collect();
    assert_eq!(
        rows,
        [
            "db/sql db/sql 5432/TCP allowed allowed allowed",
            "db/sql db/sql 9187/TCP allowed allowed allowed",
            "db/sql web/one 8080/TCP allowed allowed allowed",
            "db/sql web/two 8080/TCP allowed allowed allowed",
            "web/one db/sql 5432/TCP allowed allowed allowed",
            "web/one db/sql 9187/TCP denied allowed denied",
            "web/one web/one 8080/TCP allowed allowed allowed",
            "web/one web/two 8080/TCP allowed allowed allowed",
            "web/two db/sql 5432/TCP allowed allowed allowed",
            "web/two db/sql 9187/TCP denied allowed denied",
            "web/two web/one 8080/TCP allowed allowed allowed",
            "web/two web/two 8080/TCP allowed allowed allowed",
        ]
    );
}

#[test]
fn table_output_has_a_grid_and_sources_per_port() {
    assert_eq!(
        cluster().run("matrix -f cluster.yaml").success_stdout(),
        "3 pods in 2 namespaces, 1 policy\n\
         \n\
         \u{20}  FROM     1  2  3\n\
         1  db/sql   =  +  +\n\
         2  web/one  ~  =  +\n\
         3  web/two  ~  +  =\n\
         \n\
         + all ports   ~ some ports   = itself, always\n\
         \n\
         TO       PORT      FROM\n\
         db/sql   5432/TCP  all\n\
         \u{20}        9187/TCP  none\n\
         web/one  8080/TCP  all\n\
         web/two  8080/TCP  all\n"
    );
}

/// Ports declared by the pod, named by policies that may apply to it, given by the user, or 80/TCP.
#[test]
fn queried_ports_are_declared_or_named_by_policies() {
    let out = "podSelector: {}, policyTypes: [Egress], egress: [\
               {to: [{namespaceSelector: {matchLabels: {team: b}}}], ports: [{port: 1000, endPort: 1010}]},\
               {to: [{ipBlock: {cidr: 10.0.2.0/24}}], ports: [{port: 7, protocol: SCTP}]}]";
    let within = "podSelector: {matchLabels: {app: two}}, ingress: [{ports: [{port: 53, protocol: UDP}, {port: http}]}]";
    let files = ManifestDirectory::new(&[(
        "all.yaml",
        &[
            namespace("b", "team: b"),
            pod("a", "one", "", &["10.0.0.1"]),
            pod("a", "two", HTTP, &["10.0.0.2"]),
            pod("b", "three", "", &["10.0.1.1"]),
            pod("c", "four", "", &["10.0.2.1"]),
            policy("a", "out", out),
            policy("a", "in", within),
        ]
        .concat(),
    )]);
    let asked = |flags: &str, of: &str| {
        let rows = rows(&files, flags);
        let of = rows
            .iter()
            .filter(|row| row.starts_with(&format!("{of} {of} ")));
        let ports = of.map(|row| row.split(' ').nth(2).expect("a port").to_owned());
        ports.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(asked("", "a/one"), "80/TCP");
    assert_eq!(asked("", "a/two"), "53/UDP 8080/TCP");
    assert_eq!(asked("", "b/three"), "1000/TCP 1010/TCP");
    assert_eq!(asked("", "c/four"), "7/SCTP");
    assert_eq!(asked("--port 443 --port 53/udp", "a/one"), "53/UDP 443/TCP");
    assert_eq!(
        asked("--port 443,53/udp", "c/four"),
        "7/SCTP 53/UDP 443/TCP"
    );
}

#[test]
fn namespace_flag_filters_pods_but_not_policies() {
    let files = cluster();
    assert_eq!(rows(&files, "--namespace web").len(), 4);
    assert_eq!(rows(&files, "-n web -n db").len(), 12);
    let output = files.run("matrix -f . -n nowhere");
    assert_eq!(output.code, Some(2));
    assert_eq!(
        output.errors,
        "rhumb: there is no pod in the namespace \"nowhere\"; there are some in db, web\n"
    );
}

#[test]
fn terminated_pods_are_excluded_from_the_matrix() {
    let files = cluster();
    let done =
        pod("web", "done", HTTP, &["10.0.0.1"]).replace("podIPs", "phase: Succeeded, podIPs");
    files.write("done.yaml", &done);
    let output = files.run("matrix -f . -o json");
    assert_eq!(output.rows().len(), 12);
    assert_eq!(output.errors, "note: 1 pod has terminated and is ignored\n");
    let asked = files.run("check -f . --from web/done --to db/sql:5432");
    assert_eq!(asked.code, Some(2));
    assert!(
        asked.errors.contains("pod web/done has terminated"),
        "{}",
        asked.errors
    );
}

#[test]
fn pods_without_a_common_ip_family_are_not_paired() {
    let files = cluster();
    files.write("six.yaml", &pod("web", "six", HTTP, &["fd00::1"]));
    let output = files.run("matrix -f . -o json");
    assert_eq!(output.rows().len(), 12 + 1);
    assert_eq!(
        output.errors,
        "note: 6 pairs are left out: one end has only IPv4 addresses, the other only IPv6 addresses\n"
    );
    let table = files.run("matrix -f .").out;
    assert!(table.contains("? no address of the same family"), "{table}");
}

#[test]
fn duplicate_pod_addresses_are_noted() {
    let files = cluster();
    files.write("later.yaml", &pod("web", "zwei", HTTP, &["10.0.0.2"]));
    let output = files.run("matrix -f . -o json");
    assert_eq!(
        output.errors,
        "note: 1 address is not of the pod that claims it, as another has it by now: web/two (web/zwei has 10.0.0.2)\n"
    );
    assert_eq!(
        output.rows().len(),
        12,
        "there is nothing to say of web/two"
    );
    let table = files.run("matrix -f .").out;
    assert!(table.contains("! another pod has the address"), "{table}");
    assert!(!table.contains("family"), "{table}");
    let picture = files.run("matrix -f . -o svg").out;
    assert!(picture.contains("another pod has the address of one of them by now"));
    let asked = files.run("check -f . --from web/two --to db/sql:5432");
    assert_eq!(asked.code, Some(2));
    let why = "web/zwei has the address 10.0.0.2 of web/two by now";
    assert!(asked.errors.contains(why), "{}", asked.errors);
}

#[test]
fn host_network_pods_may_share_an_address() {
    let files = cluster();
    let on_host = |name: &str| {
        let pod = pod("web", name, HTTP, &["10.9.0.1"]);
        pod.replace("spec: {", "spec: {hostNetwork: true, nodeName: node-a, ")
    };
    files.write("host.yaml", &[on_host("h1"), on_host("h2")].concat());
    let output = files.run("matrix -f . -n web");
    assert_eq!(output.errors, "");
    assert!(
        !output.out.contains('!') && !output.out.contains('?'),
        "{}",
        output.out
    );
}

/// One of two addresses may be lost to another pod.
#[test]
fn pod_keeps_its_other_address_after_losing_one() {
    let files = cluster();
    let both = pod("web", "a", HTTP, &["10.0.0.2", "fd00::1"]);
    let six = pod("web", "b", HTTP, &["fd00::2"]);
    files.write("more.yaml", &[both, six].concat());
    let table = files.run("matrix -f . -n web");
    assert!(
        table.errors.contains("web/a (web/two has 10.0.0.2)"),
        "{}",
        table.errors
    );
    // web/b and web/one have no family in common; web/a and web/one would have.
    let signs = |name: &str| {
        let mut lines = table.out.lines();
        let line = lines.find(|line| line.contains(name)).expect(name);
        line.split_whitespace().skip(2).collect::<String>()
    };
    assert_eq!(signs("web/a"), "=+!!", "{}", table.out);
    assert_eq!(signs("web/b"), "+=??", "{}", table.out);
}

#[test]
fn policy_lint_findings_are_noted() {
    let files = cluster();
    let never =
        "podSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}";
    files.write("never.yaml", &policy("web", "never", never));
    let output = files.run("matrix -f .");
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.errors.starts_with("note: policy web/never: "),
        "{}",
        output.errors
    );
}

/// Many pods with labels that no policy uses are evaluated once, and shown once if their reachability is equal.
#[test]
fn many_pods_are_grouped_by_reachability() {
    let mut text = namespace("web", "tier: web");
    for number in 0..300 {
        let pod = pod("web", &format!("front-{number}"), HTTP, &[]);
        text.push_str(&pod.replace(
            &format!("app: front-{number}"),
            &format!("app: front, hash: h{number}"),
        ));
    }
    text.push_str(&pod("db", "sql", "{containerPort: 5432}", &[]));
    let open = "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {tier: web}}, podSelector: {matchLabels: \
                {app: front}}}]}]";
    text.push_str(&policy("db", "in", open));
    text.push_str(&policy("web", "closed", "podSelector: {}"));
    let files = ManifestDirectory::new(&[("all.yaml", &text)]);
    assert_eq!(
        files.run("matrix -f all.yaml").success_stdout(),
        "301 pods in 2 namespaces, 2 policies; pods that behave the same are shown as one\n\
         \n\
         \u{20}  FROM               1  2\n\
         1  db/sql             =  .\n\
         2  web/front-* (300)  +  .\n\
         \n\
         + all ports   . no port   = itself, always\n\
         \n\
         TO                 PORT      FROM\n\
         db/sql             5432/TCP  all\n\
         web/front-* (300)  8080/TCP  none\n"
    );
    let output = files.run("matrix -f all.yaml -o json");
    assert_eq!(output.out.lines().count(), 301 * 301 + 2);
}

#[test]
fn dot_output_has_an_edge_per_pair_with_allowed_ports() {
    let out = cluster()
        .run("matrix -f cluster.yaml -o dot")
        .success_stdout();
    assert!(
        out.starts_with("digraph reach {\n") && out.ends_with("}\n"),
        "{out}"
    );
    let edges: Vec<&str> = out.lines().filter(|line| line.contains(" -> ")).collect();
    assert_eq!(
        edges,
        [
            "  \"db/sql\" -> \"web/one\" [label=\"8080/TCP\"];",
            "  \"db/sql\" -> \"web/two\" [label=\"8080/TCP\"];",
            "  \"web/one\" -> \"db/sql\" [label=\"5432/TCP\", style=dashed, color=\"#bf8700\"];",
            "  \"web/one\" -> \"web/two\" [label=\"8080/TCP\"];",
            "  \"web/two\" -> \"db/sql\" [label=\"5432/TCP\", style=dashed, color=\"#bf8700\"];",
            "  \"web/two\" -> \"web/one\" [label=\"8080/TCP\"];",
        ]
    );
    for namespace in ["web", "db"] {
        assert!(
            out.contains(&format!("subgraph \"cluster_{namespace}\"")),
            "{out}"
        );
    }
}
