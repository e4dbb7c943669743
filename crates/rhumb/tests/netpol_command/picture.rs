//! The picture: XML that can be read, and a cell for each pair.

use std::collections::BTreeMap;

use crate::command::{Files, pod, policy};

/// How many of each element there are, by name and class. Fails if the text is not well-formed.
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

/// Checks that attributes are names with quoted values, each there once.
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

fn cluster(pods: usize) -> Files {
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
    Files::new(&[("all.yaml", &pods.chain(policies).collect::<String>())])
}

#[test]
fn a_picture_is_well_formed_and_has_a_cell_for_each_pair() {
    for pods in [2, 8, 20, 60] {
        let svg = cluster(pods).run("matrix -f all.yaml -o svg").well();
        let found = elements(&svg);
        assert_eq!(count(&found, "svg"), 1, "{pods}");
        assert_eq!(count(&found, "g.cell"), pods * pods, "{pods}");
        // Each cell, each name in a row and above a column, and the whole have a text to show.
        assert_eq!(count(&found, "title"), pods * pods + 2 * pods + 1, "{pods}");
        let half = pods / 2;
        // Everyone reaches one port of who is in a, nobody the first of b, everyone the others.
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
fn of_more_pods_those_that_behave_the_same_are_one_in_a_picture() {
    let svg = cluster(100).run("matrix -f all.yaml -o svg").well();
    let found = elements(&svg);
    // Those of a, the first of b, the others of b.
    assert_eq!(count(&found, "g.cell"), 9);
    assert!(svg.contains("</tspan>* (50)</text>"), "{svg}");
}

#[test]
fn a_cell_tells_all_ports_and_who_is_against_them() {
    let svg = cluster(2).run("matrix -f all.yaml -o svg").well();
    let tip = "<title>b/p1 → a/p0&#10;allowed: 8080/TCP&#10;denied: 9090/TCP (ingress)</title>";
    assert!(svg.contains(tip), "{svg}");
}

#[test]
fn names_cannot_break_a_picture() {
    let files = Files::new(&[(
        "all.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: \"<a&b>\\\"\\x01\", namespace: ns}}\n",
    )]);
    let svg = files.run("matrix -f all.yaml -o svg").well();
    elements(&svg);
    assert!(svg.contains("&lt;a&amp;b&gt;&quot;\u{fffd}"), "{svg}");
}
