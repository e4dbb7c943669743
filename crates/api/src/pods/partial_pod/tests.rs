//! Tests of total requests and limits. Those for quotas are compared with upstream in `rhumb-quota`.

use serde_json::{Value, json};

use super::{PartialPod, PodResourcesOptions};
use crate::partial_decode::ResourceList;

fn written(list: &ResourceList<'_>) -> String {
    let entries = list.iter();
    let mut entries: Vec<String> = entries
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    entries.sort();
    entries.join(" ")
}

/// Asserts requests and limits, as quotas and as limit ranges count them.
fn check(pod: &Value, quota: [&str; 2], limit_range: [&str; 2]) {
    let outline = PartialPod::from_object(pod.as_object().expect("an object"));
    for (basis, want) in [
        (PodResourcesOptions::QUOTA, quota),
        (PodResourcesOptions::LIMIT_RANGE, limit_range),
    ] {
        let got = [outline.requests(basis), outline.limits(basis)];
        assert_eq!(got.map(|list| written(&list)), want, "{basis:?}: {pod}");
    }
}

#[test]
fn empty_pod_has_no_requests() {
    check(&json!({}), ["", ""], ["", ""]);
    check(&json!({"spec": null, "status": null}), ["", ""], ["", ""]);
}

#[test]
fn requests_are_the_larger_of_container_sum_and_init_maximum() {
    let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
    for (init, want) in [("500m", "cpu=3"), ("3", "cpu=3"), ("4", "cpu=4")] {
        let spec = json!({"containers": [asks("1"), asks("2")], "initContainers": [asks(init), asks("1")]});
        check(&json!({"spec": spec}), [want, want], [want, want]);
    }
}

#[test]
fn sidecar_requests_add_to_later_containers() {
    let asks = |policy: Value, cpu: &str| json!({"restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
    let table = [
        // The sidecar runs beside the second init container and beside the containers.
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
fn limit_ranges_ignore_overhead() {
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
fn pod_level_resources_override_container_sums() {
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
fn limit_ranges_ignore_the_status() {
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
fn unescaped_strings_are_borrowed() {
    let json = br#"{"spec": {"containers": [{"name": "a"}, {"name": "\u0062"}]}}"#;
    let outline = PartialPod::from_json(json).expect("JSON");
    let names = outline.containers().iter().map(|c| &c.name.0);
    let is_borrowed =
        |name: &std::borrow::Cow<'_, str>| matches!(name, std::borrow::Cow::Borrowed(_));
    let names: Vec<_> = names.map(|name| (&**name, is_borrowed(name))).collect();
    assert_eq!(names, [("a", true), ("b", false)]);
}

#[test]
fn malformed_json_is_rejected() {
    for json in [
        "",
        "{",
        "[",
        "5",
        r#"{"spec": {"containers": 5}}"#,
        r#"{"spec": {"overhead": {"cpu": "x"}}}"#,
    ] {
        PartialPod::from_json(json.as_bytes()).expect_err(json);
    }
}
