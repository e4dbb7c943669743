use serde_json::{Value, json};

use super::*;

fn report(applied: &[(&str, i64)]) -> Value {
    let applied = applied.iter();
    let applied = applied.map(|(uid, generation)| json!({"uid": uid, "generation": generation}));
    json!({"versions": ["1.3"], "applied": applied.collect::<Value>()})
}

fn set(agents: &mut Agents, node: &str, report: Value) -> Change {
    agents.set_report(node.to_owned(), serde_json::from_value(report).unwrap())
}

fn change(uids: &[&str], is_for_all: bool) -> Change {
    Change {
        uids: uids.iter().map(|&uid| uid.into()).collect(),
        is_for_all,
    }
}

fn with_node() -> Agents {
    let mut agents = Agents::default();
    agents.set_node("a".to_owned(), "");
    agents
}

#[test]
fn a_report_concerns_the_policies_of_which_it_says_something_new() {
    let mut agents = with_node();
    let first = report(&[("x", 1), ("y", 1)]);
    assert_eq!(
        set(&mut agents, "a", first.clone()),
        change(&["x", "y"], true)
    );
    assert_eq!(set(&mut agents, "a", first), change(&[], false));
    let next = report(&[("y", 2), ("z", 1)]);
    assert_eq!(
        set(&mut agents, "a", next.clone()),
        change(&["x", "y", "z"], false)
    );
    for (field, value) in [
        ("problem", json!("no room")),
        ("problem", json!(null)),
        ("versions", json!(["1.3", "1.8"])),
        (
            "unimplemented",
            json!([{"feature": "SCTP", "message": "none"}]),
        ),
    ] {
        let mut next = next.clone();
        next[field] = value;
        assert_eq!(
            set(&mut agents, "a", next),
            change(&["y", "z"], true),
            "{field}"
        );
    }
    assert_eq!(agents.remove_report("a"), change(&["y", "z"], true));
    assert!(agents.is_empty());
}

#[test]
fn a_report_counts_while_its_node_is_there() {
    let mut agents = Agents::default();
    let said = report(&[("x", 1)]);
    assert_eq!(set(&mut agents, "a", said.clone()), change(&[], false));
    assert!(agents.is_empty() && agents.report("a").is_none());
    assert!(agents.stray("a").is_some());
    assert_eq!(
        agents.set_node("a".to_owned(), ""),
        Some(change(&["x"], true))
    );
    assert_eq!(agents.set_node("a".to_owned(), ""), None);
    assert!(!agents.is_empty() && agents.report("a").is_some());
    assert_eq!(agents.stray("a"), None);
    assert_eq!(agents.remove_node("a"), change(&["x"], true));
    assert!(agents.is_empty() && agents.report("a").is_none());
    assert_eq!(agents.remove_report("a"), change(&[], false));
    assert_eq!(agents.stray("a"), None);
    // A node may come before its agent.
    agents.set_node("a".to_owned(), "");
    assert!(agents.is_empty());
    assert_eq!(set(&mut agents, "a", said), change(&["x"], true));
}

#[test]
fn agents_are_found_by_what_they_can_do() {
    let mut agents = Agents::default();
    let can = |version: &str| json!({"versions": [version]});
    for (node, version) in [("a", "1.3"), ("b", "1.8"), ("c", "1.3")] {
        agents.set_node(node.to_owned(), "");
        set(&mut agents, node, can(version));
    }
    let old = |agents: &Agents| -> Vec<String> {
        let old = agents.that(|ability| ability.versions == ["1.3"]);
        old.map(|(node, _)| node.to_owned()).collect()
    };
    assert_eq!(old(&agents), ["a", "c"]);
    set(&mut agents, "b", can("1.3"));
    set(&mut agents, "c", can("1.8"));
    assert_eq!(old(&agents), ["a", "b"]);
    agents.remove_node("a");
    assert_eq!(old(&agents), ["b"]);
    agents.remove_report("b");
    assert_eq!(old(&agents), [""; 0]);
}

#[test]
fn a_stray_report_is_known_by_its_version() {
    let mut agents = Agents::default();
    set(
        &mut agents,
        "a",
        json!({"metadata": {"name": "a", "uid": "1", "resourceVersion": "7"}}),
    );
    let stray = agents.stray("a").unwrap();
    assert_eq!(stray.uid.as_deref(), Some("1"));
    assert_eq!(stray.version.as_deref(), Some("7"));
}

#[test]
fn a_report_of_before_a_reboot_counts_for_nothing() {
    let of_boot = |boot: &str| {
        let mut report = report(&[("x", 1)]);
        report["bootID"] = json!(boot);
        report
    };
    let mut agents = Agents::default();
    agents.set_node("a".to_owned(), "1");
    assert_eq!(set(&mut agents, "a", of_boot("1")), change(&["x"], true));
    assert_eq!(agents.set_node("a".to_owned(), "1"), None);
    assert!(!agents.is_of_another_boot("a"));
    // The node was started anew, and its agent was not.
    let whole = Some(change(&["x"], true));
    assert_eq!(agents.set_node("a".to_owned(), "2"), whole);
    assert!(agents.is_empty() && agents.report("a").is_none());
    assert!(agents.is_of_another_boot("a"));
    assert_eq!(agents.stray("a"), None, "it is not deleted");
    assert_eq!(set(&mut agents, "a", of_boot("1")), change(&[], false));
    assert_eq!(set(&mut agents, "a", of_boot("2")), change(&["x"], true));
    assert!(!agents.is_empty() && !agents.is_of_another_boot("a"));
    // The agent may be faster than who tells of the node.
    assert_eq!(set(&mut agents, "a", of_boot("3")), change(&["x"], true));
    assert!(agents.is_empty());
    assert_eq!(agents.set_node("a".to_owned(), "3"), whole);
    assert!(!agents.is_empty());
    // Where one of them does not say, it counts.
    assert_eq!(agents.set_node("a".to_owned(), ""), None);
    assert_eq!(
        set(&mut agents, "a", report(&[("x", 1)])),
        change(&[], false)
    );
    assert_eq!(agents.set_node("a".to_owned(), "4"), None);
    assert!(!agents.is_empty());
}
