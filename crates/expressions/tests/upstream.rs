//! Upstream's answers to a table of expressions, which `interop/tests/expressions.rs` has recorded, and ours.

mod support;

use serde_json::Value as Json;
use support::World;

#[test]
fn expressions_are_answered_as_upstream_does() {
    let world = World::read(include_str!("upstream/inputs.json"));
    let differences = support::differences(include_str!("upstream/differences.txt"));
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("upstream/recorded.jsonl").lines() {
        let theirs: Json = serde_json::from_str(line).expect("JSON");
        let expression = theirs["expression"].as_str().expect("a string").to_owned();
        let theirs = support::recorded(theirs);
        let ours = world.reply(&expression);
        count += 1;
        match (ours == theirs, differences.contains_key(&*expression)) {
            (false, false) => wrong.push(format!(
                "{expression}\n  upstream {theirs}\n  ours     {ours}"
            )),
            (true, true) => wrong.push(format!("{expression}\n  is no difference any more")),
            _ => {}
        }
    }
    assert!(count > 900, "only {count} expressions");
    assert!(
        wrong.is_empty(),
        "{} of {count} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
