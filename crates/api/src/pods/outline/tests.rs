//! What pods ask for, on either basis. `rhumb-quota` holds that of quotas against upstream.

use serde_json::{Value, json};

use super::{Basis, Outline};
use crate::partial::ResourceList;

fn written(list: &ResourceList<'_>) -> String {
    let entries = list.iter();
    let mut entries: Vec<String> = entries
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    entries.sort();
    entries.join(" ")
}

/// Checks requests and limits, as quotas and as limit ranges count them.
fn check(pod: &Value, quota: [&str; 2], limit_range: [&str; 2]) {
    let outline = Outline::of(pod.as_object().expect("an object"));
    for (basis, want) in [(Basis::QUOTA, quota), (Basis::LIMIT_RANGE, limit_range)] {
        let got = [outline.requests(basis), outline.limits(basis)];
        assert_eq!(got.map(|list| written(&list)), want, "{basis:?}: {pod}");
    }
}

#[test]
fn nothing_asks_for_nothing() {
    check(&json!({}), ["", ""], ["", ""]);
    check(&json!({"spec": null, "status": null}), ["", ""], ["", ""]);
}

#[test]
fn containers_add_up_and_the_largest_init_container_counts() {
    let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
    for (init, want) in [("500m", "cpu=3"), ("3", "cpu=3"), ("4", "cpu=4")] {
        let spec = json!({"containers": [asks("1"), asks("2")], "initContainers": [asks(init), asks("1")]});
        check(&json!({"spec": spec}), [want, want], [want, want]);
    }
}

#[test]
fn sidecars_run_beside_all_that_start_after_them() {
    let asks = |policy: Value, cpu: &str| json!({"restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
    let table = [
        // The sidecar is there when the second init container runs, and when the containers do.
        (vec![(json!("Always"), "2"), (json!(null), "5")], "cpu=7"),
        (vec![(json!(null), "5"), (json!("Always"), "2")], "cpu=5"),
        (vec![(json!(null), "2"), (json!("Always"), "2")], "cpu=3"),
        (
            vec![(json!("Always"), "2"), (json!("Always"), "3")],
            "cpu=6",
        ),
    ];
    for (init, want) in table {
        let init: Vec<Value> = init.into_iter().map(|(p, cpu)| asks(p, cpu)).collect();
        let spec = json!({"containers": [asks(json!(null), "1")], "initContainers": init});
        check(&json!({"spec": spec}), [want, ""], [want, ""]);
    }
}

#[test]
fn overhead_is_not_for_limit_ranges() {
    let container =
        json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "0"}}});
    let overhead = json!({"cpu": "100m", "memory": "1Mi", "example.com/a": "1"});
    check(
        &json!({"spec": {"containers": [container], "overhead": overhead}}),
        ["cpu=1100m example.com/a=1 memory=1Mi", "cpu=2100m memory=0"],
        ["cpu=1", "cpu=2 memory=0"],
    );
}

#[test]
fn a_pod_as_a_whole_asks_for_some_resources() {
    let container = json!({"resources": {
        "requests": {"cpu": "1", "hugepages-2Mi": "2Mi", "example.com/a": "1"},
        "limits": {"cpu": "9"},
    }});
    let whole = json!({
        "requests": {"cpu": "5", "hugepages-2Mi": "4Mi", "example.com/a": "7"},
        "limits": {"memory": "1Gi"},
    });
    check(
        &json!({"spec": {"containers": [container], "resources": whole}}),
        [
            "cpu=5 example.com/a=1 hugepages-2Mi=4Mi",
            "cpu=9 memory=1Gi",
        ],
        [
            "cpu=5 example.com/a=1 hugepages-2Mi=2Mi",
            "cpu=9 memory=1Gi",
        ],
    );
}

#[test]
fn a_status_is_not_for_limit_ranges() {
    let container =
        json!({"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}});
    let status = json!({
        "name": "a",
        "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}},
        "allocatedResources": {"cpu": "5"},
    });
    check(
        &json!({"spec": {"containers": [container]}, "status": {"containerStatuses": [status]}}),
        ["cpu=5", "cpu=4"],
        ["cpu=1", "cpu=2"],
    );
}

#[test]
fn json_is_borrowed_from() {
    let json = br#"{"spec": {"containers": [{"name": "a"}, {"name": "\u0062"}]}}"#;
    let outline = Outline::from_json(json).expect("JSON");
    let names = outline.containers().iter().map(|c| &c.name.0);
    let is_borrowed =
        |name: &std::borrow::Cow<'_, str>| matches!(name, std::borrow::Cow::Borrowed(_));
    let names: Vec<_> = names.map(|name| (&**name, is_borrowed(name))).collect();
    assert_eq!(names, [("a", true), ("b", false)]);
}

#[test]
fn broken_json_is_refused() {
    for json in [
        "",
        "{",
        "[",
        "5",
        r#"{"spec": {"containers": 5}}"#,
        r#"{"spec": {"overhead": {"cpu": "x"}}}"#,
    ] {
        Outline::from_json(json.as_bytes()).expect_err(json);
    }
}
