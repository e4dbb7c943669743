use rhumb_api::JsonObject;
use serde_json::{Value, json};

use super::LimitRange;

fn object(value: Value) -> JsonObject {
    value.as_object().expect("JSON object").clone()
}

fn range(limits: Value) -> LimitRange {
    LimitRange::read(&object(json!({"spec": {"limits": limits}}))).expect("valid limit range")
}

/// A resource list: `cpu=1 memory=2Gi`.
fn amounts(text: &str) -> Value {
    let pairs = text.split_whitespace().map(|pair| {
        let (name, amount) = pair.split_once('=').expect("name=quantity");
        (name.to_owned(), json!(amount))
    });
    Value::Object(pairs.collect())
}

/// Requests and limits: `cpu=1 | cpu=2`.
fn resources(text: &str) -> Value {
    let (requests, limits) = text.split_once('|').expect("requests | limits");
    json!({"requests": amounts(requests), "limits": amounts(limits)})
}

fn containers(all: &[&str]) -> Value {
    let all = all.iter().enumerate();
    all.map(|(at, text)| {
        let stays = text.starts_with("always ");
        let text = text.trim_start_matches("always ");
        let mut container = json!({"name": format!("c{at}"), "resources": resources(text)});
        if stays {
            container["restartPolicy"] = json!("Always");
        }
        container
    })
    .collect()
}

fn pod(init: &[&str], main: &[&str]) -> JsonObject {
    object(json!({
        "metadata": {"name": "p"},
        "spec": {"initContainers": containers(init), "containers": containers(main)},
    }))
}

/// A limit: `min cpu=1; max cpu=2; maxLimitRequestRatio cpu=3`.
fn limit(kind: &str, text: &str) -> LimitRange {
    let mut limit = json!({"type": kind});
    for part in text.split(';') {
        let (field, list) = part.trim().split_once(' ').expect("field and list");
        limit[field] = amounts(list);
    }
    range(json!([limit]))
}

fn violation_text(result: Result<(), super::LimitRangeViolations>) -> String {
    result.err().map(|it| it.to_string()).unwrap_or_default()
}

#[test]
fn container_limits_are_checked_per_container() {
    let table: &[(&str, &str, &str)] = &[
        // Minimum.
        ("min cpu=50m", "cpu=100m |", ""),
        ("min cpu=50m", "cpu=50m | cpu=200m", ""),
        ("min memory=50Mi", "memory=60Mi | memory=100Mi", ""),
        (
            "min cpu=50m",
            "cpu=40m | cpu=200m",
            "minimum cpu usage per Container is 50m, but request is 40m",
        ),
        (
            "min cpu=50m",
            "|",
            "minimum cpu usage per Container is 50m.  No request is specified",
        ),
        (
            "min cpu=50m",
            "| cpu=1",
            "minimum cpu usage per Container is 50m.  No request is specified",
        ),
        (
            "min memory=50Mi",
            "memory=60Mi | memory=40Mi",
            "minimum memory usage per Container is 50Mi, but limit is 40Mi",
        ),
        // Maximum.
        ("max cpu=2", "cpu=500m | cpu=1", ""),
        ("max cpu=2", "| cpu=2", ""),
        (
            "max cpu=2",
            "cpu=500m | cpu=2500m",
            "maximum cpu usage per Container is 2, but limit is 2500m",
        ),
        (
            "max cpu=2",
            "cpu=1 |",
            "maximum cpu usage per Container is 2.  No limit is specified",
        ),
        (
            "max cpu=2",
            "cpu=3 | cpu=1",
            "maximum cpu usage per Container is 2, but request is 3",
        ),
        (
            "max ephemeral-storage=1Gi",
            "| ephemeral-storage=2Gi",
            "maximum ephemeral-storage usage per Container is 1Gi, but limit is 2Gi",
        ),
        // Limit/request ratio.
        ("maxLimitRequestRatio cpu=1.5", "cpu=500m | cpu=750m", ""),
        (
            "maxLimitRequestRatio cpu=1",
            "cpu=1250m | cpu=2500m",
            "cpu max limit to request ratio per Container is 1, but provided ratio is 2.000000",
        ),
        (
            "maxLimitRequestRatio cpu=2",
            "cpu=3 | cpu=7",
            "cpu max limit to request ratio per Container is 2, but provided ratio is 2.333333",
        ),
        (
            "maxLimitRequestRatio cpu=2",
            "| cpu=7",
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            "maxLimitRequestRatio cpu=2",
            "cpu=0 | cpu=7",
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            "maxLimitRequestRatio cpu=2",
            "cpu=1 |",
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        // Comparison is in milli units, or in whole units if the quantities are too large.
        (
            "max cpu=1m",
            "| cpu=1100u",
            "maximum cpu usage per Container is 1m, but limit is 1100u",
        ),
        ("max cpu=1100u", "| cpu=1500u", ""),
        ("max memory=10Pi", "| memory=10Pi", ""),
        (
            "max memory=10Pi",
            "memory=1 | memory=11258999068426241",
            "maximum memory usage per Container is 10Pi, but limit is 11258999068426241",
        ),
        ("max memory=10Pi", "memory=500m | memory=10Pi", ""),
        // Several violations.
        (
            "max cpu=2 memory=1Gi; min cpu=1",
            "cpu=500m | memory=2Gi",
            "[minimum cpu usage per Container is 1, but request is 500m, \
             maximum cpu usage per Container is 2.  No limit is specified, \
             maximum memory usage per Container is 1Gi, but limit is 2Gi]",
        ),
    ];
    for (limits, container, want) in table {
        let range = limit("Container", limits);
        for pod in [pod(&[], &[container]), pod(&[container], &[])] {
            assert_eq!(
                violation_text(range.check_pod(&pod)),
                *want,
                "{limits}: {container}"
            );
        }
        // Equal violations are reported once.
        let twice = pod(&[container], &[container, container]);
        assert_eq!(
            violation_text(range.check_pod(&twice)),
            *want,
            "{limits}: {container}"
        );
    }
}

#[test]
fn pod_limits_are_checked_against_the_sum_of_containers() {
    let table: &[(&str, &[&str], &[&str], &str)] = &[
        ("min cpu=100m", &[], &["cpu=75m |", "cpu=75m |"], ""),
        (
            "min cpu=100m",
            &[],
            &["cpu=75m |"],
            "minimum cpu usage per Pod is 100m, but request is 75m",
        ),
        ("max cpu=2", &[], &["| cpu=1", "| cpu=1"], ""),
        (
            "max cpu=2",
            &[],
            &["cpu=500m | cpu=1", "cpu=500m | cpu=1", "cpu=500m | cpu=1"],
            "maximum cpu usage per Pod is 2, but limit is 3",
        ),
        // Init containers count with the largest of them.
        (
            "max cpu=2",
            &["| cpu=2", "| cpu=2"],
            &["| cpu=1", "| cpu=1"],
            "",
        ),
        (
            "max memory=1Gi",
            &["| memory=1.5Gi"],
            &["| memory=500Mi"],
            "maximum memory usage per Pod is 1Gi, but limit is 1536Mi",
        ),
        // Sidecar containers add to all others.
        (
            "max cpu=2",
            &["always | cpu=1"],
            &["| cpu=1", "| cpu=1"],
            "maximum cpu usage per Pod is 2, but limit is 3",
        ),
        (
            "max cpu=2",
            &["always | cpu=1", "| cpu=1500m"],
            &["| cpu=1"],
            "maximum cpu usage per Pod is 2, but limit is 2500m",
        ),
        (
            "max cpu=2",
            &["| cpu=1500m", "always | cpu=1"],
            &["| cpu=1"],
            "",
        ),
        (
            "max memory=2Gi; maxLimitRequestRatio memory=1.5",
            &[],
            &["memory=300Mi | memory=450Mi", "memory=300Mi | memory=450Mi"],
            "",
        ),
        (
            "max memory=2Gi; maxLimitRequestRatio memory=1.5",
            &[],
            &["memory=250Mi | memory=500Mi", "memory=250Mi | memory=500Mi"],
            "memory max limit to request ratio per Pod is 1500m, but provided ratio is 2.000000",
        ),
    ];
    for (limits, init, main, want) in table {
        let got = limit("Pod", limits).check_pod(&pod(init, main));
        assert_eq!(violation_text(got), *want, "{limits}: {init:?} {main:?}");
    }
}

#[test]
fn pod_level_resources_take_precedence_over_containers() {
    let main = ["cpu=100m memory=60Mi | cpu=200m memory=100Mi"; 3];
    let table = [
        (
            "max cpu=400m memory=200Mi",
            "cpu=200m memory=180Mi | cpu=400m memory=200Mi",
            "",
        ),
        ("min cpu=350m", "cpu=400m |", ""),
        (
            "max cpu=400m memory=200Mi",
            "| cpu=500m memory=200Mi",
            "maximum cpu usage per Pod is 400m, but limit is 500m",
        ),
        (
            "max memory=200Mi",
            "| cpu=400m",
            "maximum memory usage per Pod is 200Mi, but limit is 300Mi",
        ),
        // Only CPU and memory.
        (
            "max hugepages-2Mi=2Mi",
            "| hugepages-2Mi=2Mi",
            "maximum hugepages-2Mi usage per Pod is 2Mi.  No limit is specified",
        ),
    ];
    for (limits, own, want) in table {
        let mut pod = pod(&[], &main);
        pod["spec"]["resources"] = resources(own);
        assert_eq!(
            violation_text(limit("Pod", limits).check_pod(&pod)),
            want,
            "{own}"
        );
    }
}

#[test]
fn claim_limits_are_checked() {
    let table = [
        ("min storage=1Gi", "storage=1Gi", ""),
        ("max storage=1Gi", "storage=1Gi", ""),
        ("min storage=1Gi; max storage=10Gi", "storage=5Gi", ""),
        (
            "min storage=1Gi",
            "storage=500Mi",
            "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi",
        ),
        (
            "max storage=1Gi",
            "storage=100Gi",
            "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 100Gi",
        ),
        (
            "max storage=1Gi",
            "",
            "maximum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified",
        ),
        (
            "min storage=2Gi; max storage=1Gi",
            "storage=1.5Gi",
            "[minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1536Mi, \
             maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 1536Mi]",
        ),
        // A ratio needs limits, which claims do not have.
        (
            "max storage=1Gi; maxLimitRequestRatio storage=1",
            "storage=1Gi",
            "",
        ),
    ];
    for (limits, requests, want) in table {
        let claim = object(json!({"spec": {"resources": {"requests": amounts(requests)}}}));
        let range = limit("PersistentVolumeClaim", limits);
        assert_eq!(
            violation_text(range.check_claim(&claim)),
            want,
            "{limits}: {requests}"
        );
        assert_eq!(
            violation_text(range.check_pod(&claim)),
            "",
            "a claim is no pod"
        );
        let other = limit("Container", limits);
        assert_eq!(
            violation_text(other.check_claim(&claim)),
            "",
            "nor a container"
        );
    }
}

#[test]
fn containers_get_defaults_for_unspecified_resources() {
    let range = range(json!([
        {"type": "Pod", "max": amounts("cpu=200m")},
        {
            "type": "Container",
            "default": amounts("cpu=75m memory=10Mi"),
            "defaultRequest": amounts("cpu=50m memory=5Mi"),
        },
    ]));
    let all = "cpu=50m memory=5Mi | cpu=75m memory=10Mi";
    type DefaultsCase<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a str);
    let table: &[DefaultsCase<'_>] = &[
        (
            &[],
            &["|"],
            &[all],
            "cpu, memory request for container c0; cpu, memory limit for container c0",
        ),
        (
            &["| memory=1Gi"],
            &["memory=512Mi |"],
            &[
                "cpu=50m memory=5Mi | cpu=75m memory=1Gi",
                "cpu=50m memory=512Mi | cpu=75m memory=10Mi",
            ],
            "cpu request for container c0; cpu, memory limit for container c0; \
             cpu, memory request for init container c0; cpu limit for init container c0",
        ),
        (
            &[],
            &["cpu=1 memory=1 | cpu=1 memory=1"],
            &["cpu=1 memory=1 | cpu=1 memory=1"],
            "",
        ),
        (
            &[],
            &["cpu=1 memory=1 | cpu=1 memory=1", "cpu=1 | cpu=1 memory=1"],
            &[
                "cpu=1 memory=1 | cpu=1 memory=1",
                "cpu=1 memory=5Mi | cpu=1 memory=1",
            ],
            "memory request for container c1",
        ),
    ];
    for (init, main, want, annotated) in table {
        let mut pod = pod(init, main);
        range.apply_defaults(&mut pod);
        let spec = &pod["spec"];
        let lists = [&spec["initContainers"], &spec["containers"]];
        let got = lists.iter().filter_map(|list| list.as_array()).flatten();
        let got: Vec<&Value> = got.map(|container| &container["resources"]).collect();
        let want: Vec<Value> = want.iter().map(|text| resources(text)).collect();
        assert_eq!(got, want.iter().collect::<Vec<_>>());
        let annotation = &pod["metadata"]["annotations"];
        match *annotated {
            "" => assert_eq!(annotation, &Value::Null),
            text => assert_eq!(
                annotation["kubernetes.io/limit-ranger"],
                format!("LimitRanger plugin set: {text}")
            ),
        }
        let filled = pod.clone();
        range.apply_defaults(&mut pod);
        assert_eq!(pod, filled, "there is nothing left to add");
    }
    let mut bare = object(json!({"metadata": {}, "spec": {"containers": [{"name": "c"}]}}));
    range.apply_defaults(&mut bare);
    assert_eq!(bare["spec"]["containers"][0]["resources"], resources(all));
}

#[test]
fn limits_of_unknown_types_are_ignored() {
    let range = range(json!([
        {"type": "example.com/other", "max": amounts("cpu=1"), "default": amounts("cpu=1")},
    ]));
    assert_eq!(range, LimitRange::default());
    let unreadable = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "much"}}]}});
    assert!(LimitRange::read(&object(unreadable)).is_err());
}

#[test]
fn the_number_of_reported_violations_is_bounded() {
    let many: Vec<String> = (2..3000).map(|at| format!("| cpu={at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let text = violation_text(limit("Container", "max cpu=1").check_pod(&pod(&[], &many)));
    assert_eq!(text.split(", but").count() - 1, super::VIOLATIONS_MAX);
}

/// Upstream reads only the requests of a claim and ignores its limits.
#[test]
fn limits_of_a_claim_are_ignored() {
    let range = json!({"spec": {"limits": [
        {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "8Gi"}},
    ]}});
    let claim = json!({"spec": {"resources": {
        "requests": {"storage": "5Gi"}, "limits": {"storage": "1Gi"},
    }}});
    let (Value::Object(range), Value::Object(claim)) = (range, claim) else {
        panic!("no objects");
    };
    let range = LimitRange::read(&range).expect("valid limit range");
    assert_eq!(range.check_claim(&claim), Ok(()));
}
