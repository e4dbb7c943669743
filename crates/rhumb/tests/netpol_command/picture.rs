//! `rhumb netpol matrix -o svg`: well-formed XML with a cell per pair.

use std::collections::BTreeMap;

use crate::command::{ManifestDirectory, pod, policy};

/// The number of elements by name and class. Fails if the text is not well-formed.
fn elements(xml: &str) -> BTreeMap<String, usize> {
    let mut open: Vec<String> = Vec::new();
    let mut found = BTreeMap::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at]);
        let end = at + rest[at..].find('>').expect("a tag that ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "what ends was open");
            continue;
        }
        let (tag, is_empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let class = class_of(attributes);
        *found.entry(format!("{name}{class}")).or_default() += 1;
        if !is_empty {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    found
}

/// Checks that attributes are unique names with quoted values.
fn class_of(attributes: &str) -> String {
    let (mut rest, mut class, mut seen) = (attributes.trim(), String::new(), Vec::new());
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").expect("a quoted value");
        let (value, after) = after.split_once('"').expect("a value that ends");
        check_text(value);
        assert!(!seen.contains(&name), "{attributes}");
        seen.push(name);
        if name == "class" {
            class = format!(".{}", value.replace(' ', "."));
        }
        rest = after.trim_start();
    }
    class
}

fn check_text(text: &str) {
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#10;"];
        assert!(
            known.iter().any(|entity| text[at..].starts_with(entity)),
            "{text}"
        );
    }
    assert!(!text.contains('>'), "{text}");
}

fn count(found: &BTreeMap<String, usize>, name: &str) -> usize {
    let of = found
        .iter()
        .filter(|(element, _)| element.starts_with(name));
    of.map(|(_, count)| count).sum()
}

fn cluster(pods: usize) -> ManifestDirectory {
    let http = "{name: http, containerPort: 8080}, {name: metrics, containerPort: 9090}";
    let pods =
        (0..pods).map(|number| pod(["a", "b"][number % 2], &format!("p{number}"), http, &[]));
    let policies = [
        policy(
            "a",
            "some",
            "podSelector: {}, ingress: [{ports: [{port: http}]}]",
        ),
        policy("b", "none", "podSelector: {matchLabels: {app: p1}}"),
    ];
    ManifestDirectory::new(&[("all.yaml", &pods.chain(policies).collect::<String>())])
}

#[test]
fn svg_is_well_formed_with_a_cell_per_pair() {
    for pods in [2, 8, 20, 60] {
        let svg = cluster(pods)
            .run("matrix -f all.yaml -o svg")
            .success_stdout();
        let found = elements(&svg);
        assert_eq!(count(&found, "svg"), 1, "{pods}");
        assert_eq!(count(&found, "g.cell"), pods * pods, "{pods}");
        // Every cell, every row and column name, and the whole image have a title.
        assert_eq!(count(&found, "title"), pods * pods + 2 * pods + 1, "{pods}");
        let half = pods / 2;
        // All pods reach one port of the pods in a, no port of the first pod in b, and all ports of the other pods in
        // b.
        assert_eq!(count(&found, "g.cell.itself"), pods, "{pods}");
        assert_eq!(count(&found, "g.cell.partly"), half * (pods - 1), "{pods}");
        assert_eq!(count(&found, "g.cell.denied"), pods - 1, "{pods}");
        assert_eq!(
            count(&found, "g.cell.allowed"),
            (half - 1) * (pods - 1),
            "{pods}"
        );
    }
}

#[test]
fn svg_groups_many_pods_by_reachability() {
    let svg = cluster(100)
        .run("matrix -f all.yaml -o svg")
        .success_stdout();
    let found = elements(&svg);
    // The groups: pods of a, the first pod of b, the other pods of b.
    assert_eq!(count(&found, "g.cell"), 9);
    assert!(svg.contains("</tspan>* (50)</text>"), "{svg}");
}

#[test]
fn svg_cell_title_lists_ports_and_denying_direction() {
    let svg = cluster(2).run("matrix -f all.yaml -o svg").success_stdout();
    let tip = "<title>b/p1 → a/p0&#10;allowed: 8080/TCP&#10;denied: 9090/TCP (ingress)</title>";
    assert!(svg.contains(tip), "{svg}");
}

#[test]
fn names_are_escaped_in_svg() {
    let files = ManifestDirectory::new(&[(
        "all.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: \"<a&b>\\\"\\x01\", namespace: ns}}\n",
    )]);
    let svg = files.run("matrix -f all.yaml -o svg").success_stdout();
    elements(&svg);
    assert!(svg.contains("&lt;a&amp;b&gt;&quot;\u{fffd}"), "{svg}");
}
