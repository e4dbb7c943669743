//! Compares merges with upstream's results, recorded in `cases.jsonl`.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    r#type: String,
    object: Object,
    patch: Object,
    result: Option<Object>,
    error: Option<String>,
}

#[test]
fn patches_are_applied_as_upstream_does() {
    let table = Table::builtin();
    let mut wrong = Vec::new();
    for line in include_str!("cases.jsonl").lines() {
        let case: Case = serde_json::from_str(line).expect(line);
        let type_id = table.type_id(&case.r#type).expect("a built-in type");
        let ours = strategic_merge(table, type_id, &case.object, case.patch);
        let theirs = case
            .result
            .ok_or_else(|| PatchError(case.error.expect("an answer")));
        if ours != theirs {
            wrong.push(format!(
                "{line}\n  upstream: {theirs:?}\n  ours:     {ours:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A quadratic merge would take minutes.
#[test]
fn long_lists_are_merged_in_linear_time() {
    let table = Table::builtin();
    let pod = table.type_id("io.k8s.api.core.v1.Pod").expect("exists");
    let list = |from: u32| -> Value {
        let items = (from..from + 20_000).map(|n| serde_json::json!({"name": format!("c{n}")}));
        serde_json::json!({"containers": items.collect::<Vec<_>>()})
    };
    let wrap = |spec: Value| Object::from_iter([("spec".to_owned(), spec)]);
    let started = std::time::Instant::now();
    let merged = strategic_merge(table, pod, &wrap(list(0)), wrap(list(10_000))).expect("merged");
    assert_eq!(
        merged["spec"]["containers"].as_array().map(Vec::len),
        Some(30_000)
    );
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
}
