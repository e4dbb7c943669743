//! Tests of the validation errors of jobs and cron jobs.

use serde_json::{Value, json};

use super::{cron_job, job};
use crate::validation_helpers::testing::{
    check_create, check_status_update, check_update, created, warnings, with,
};

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "sum"}},
        "spec": {
            "containers": [{
                "name": "sum",
                "image": "sum:1",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "restartPolicy": "Never",
            "dnsPolicy": "ClusterFirst",
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
            "securityContext": {},
        },
    })
}

fn a_job() -> Value {
    json!({
        "metadata": {"name": "sum", "namespace": "default", "uid": "u-1"},
        "spec": {"template": template()},
    })
}

fn a_cron_job() -> Value {
    json!({
        "metadata": {"name": "sums", "namespace": "default"},
        "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template()}}},
    })
}

/// A stored job.
fn stored(object: &Value) -> Value {
    Value::Object(created(&job::kind(), object))
}

#[test]
fn job_selector_is_generated_from_its_uid() {
    let job = stored(&a_job());
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    assert_eq!(
        labels,
        &json!({
            "app": "sum",
            "job-name": "sum",
            "batch.kubernetes.io/job-name": "sum",
            "controller-uid": "u-1",
            "batch.kubernetes.io/controller-uid": "u-1",
        })
    );
    assert_eq!(
        job["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}})
    );
    assert_eq!(&job["metadata"]["labels"], labels);
    let own = with(&a_job(), "metadata.labels", json!({"mine": "yes"}));
    assert_eq!(stored(&own)["metadata"]["labels"], json!({"mine": "yes"}));
}

#[test]
fn labels_of_another_job_are_rejected() {
    let object = with(
        &a_job(),
        "spec.template.metadata.labels",
        json!({"job-name": "other"}),
    );
    let labels = "{\"batch.kubernetes.io/controller-uid\":\"u-1\",\"batch.kubernetes.io/job-name\":\"sum\",\
                  \"controller-uid\":\"u-1\",\"job-name\":\"other\"}";
    let expect =
        format!("spec.template.metadata.labels[job-name]: Invalid value: {labels}: must be 'sum'");
    check_create(&job::kind(), &object, &[&expect]);
    let manual = with(&a_job(), "spec.manualSelector", json!(true));
    check_create(
        &job::kind(),
        &manual,
        &[
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"sum\"}: `selector` does not match template `labels`",
        ],
    );
}

#[test]
fn jobs_are_validated_on_create() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        check_create(&job::kind(), &with(&a_job(), path, value), expect);
    };
    check("spec.suspend", json!(true), &[]);
    check(
        "spec.backoffLimit",
        json!(-1),
        &["spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"],
    );
    check(
        "spec.completionMode",
        json!("Sorted"),
        &[
            "spec.completionMode: Unsupported value: \"Sorted\": supported values: \"NonIndexed\", \"Indexed\"",
        ],
    );
    check(
        "spec.backoffLimitPerIndex",
        json!(1),
        &["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
    );
    check(
        "spec.managedBy",
        json!("me"),
        &[
            "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ],
    );
    check(
        "spec.template.spec.restartPolicy",
        json!("Always"),
        &[
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ],
    );
    check(
        "spec.podReplacementPolicy",
        json!("Never"),
        &[
            "spec.podReplacementPolicy: Unsupported value: \"Never\": supported values: \"Failed\", \"TerminatingOrFailed\"",
        ],
    );
}

#[test]
fn indexed_jobs_have_additional_limits() {
    let indexed = with(&a_job(), "spec.completionMode", json!("Indexed"));
    let check = |spec: Value, expect: &[&str]| {
        let mut object = indexed.clone();
        for (name, value) in spec.as_object().unwrap() {
            object["spec"][name] = value.clone();
        }
        check_create(&job::kind(), &object, expect);
    };
    check(json!({"completions": 3}), &[]);
    check(
        json!({"parallelism": 1}),
        &["spec.completions: Required value: when completion mode is Indexed"],
    );
    check(
        json!({"completions": 200_000, "parallelism": 20_000, "backoffLimitPerIndex": 1}),
        &[
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
            "spec.parallelism: Invalid value: 20000: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
        ],
    );
    check(
        json!({"completions": 3, "maxFailedIndexes": 4}),
        &[
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions",
        ],
    );
    check(
        json!({"completions": 3, "successPolicy": {"rules": [
            {"succeededIndexes": "0-1", "succeededCount": 3},
            {"succeededIndexes": "5"},
            {},
        ]}}),
        &[
            "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
            "spec.successPolicy.rules[1].succeededIndexes: Invalid value: \"5\": error parsing succeededIndexes: too large index: \"5\"",
            "spec.successPolicy.rules[2]: Required value: at least one of succeededCount or succeededIndexes must be specified",
        ],
    );
    let name = "a".repeat(62);
    let long = with(&indexed, "metadata.name", json!(name));
    let long = with(&long, "spec.completions", json!(11));
    let expect = format!(
        "metadata.name: Invalid value: \"{name}\": will not able to create pod with invalid DNS label: {name}-10"
    );
    check_create(&job::kind(), &long, &[&expect]);
}

#[test]
fn pod_failure_policy_rules_are_validated() {
    let check = |rule: Value, expect: &[&str]| {
        let policy = json!({"rules": [rule]});
        let object = with(&a_job(), "spec.podFailurePolicy", policy);
        check_create(&job::kind(), &object, expect);
    };
    let at = "spec.podFailurePolicy.rules[0]";
    check(
        json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 42]}}),
        &[],
    );
    check(
        json!({"onExitCodes": {"operator": "In", "values": [2, 0, 2], "containerName": "x"}}),
        &[
            &format!(
                "{at}.action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"
            ),
            &format!(
                "{at}.onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer names in the pod template"
            ),
            &format!(
                "{at}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator"
            ),
            &format!("{at}.onExitCodes.values[2]: Duplicate value: 2"),
            &format!("{at}.onExitCodes.values: Invalid value: [2,0,2]: must be ordered"),
        ],
    );
    check(
        json!({"action": "FailIndex", "onPodConditions": [{"type": "Disrupted", "status": "Maybe"}]}),
        &[
            &format!(
                "{at}.action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"
            ),
            &format!(
                "{at}.onPodConditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\""
            ),
        ],
    );
    check(
        json!({"action": "Count"}),
        &[&format!(
            "{at}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
        )],
    );
}

#[test]
fn only_some_job_fields_are_mutable() {
    let old = stored(&a_job());
    let check = |old: &Value, path: &str, value: Value, expect: &[&str]| {
        check_update(&job::kind(), &with(old, path, value), old, expect);
    };
    check(&old, "spec.parallelism", json!(5), &[]);
    let stored_form = with(&old, "spec.template.spec.containers.0.resources", json!({}));
    check_update(&job::kind(), &old, &stored_form, &[]);
    check(
        &old,
        "spec.completions",
        json!(5),
        &["spec.completions: Invalid value: 5: field is immutable"],
    );
    let image = "spec.template.spec.containers.0.resources";
    let resources = json!({"requests": {"cpu": "1"}});
    let changed = with(&old, image, resources.clone());
    let text = serde_json::to_string(&changed["spec"]["template"]).unwrap();
    let expect = format!("spec.template: Invalid value: {text}: field is immutable");
    check(&old, image, resources.clone(), &[&expect]);

    let idle = with(&old, "spec.suspend", json!(true));
    let idle = with(
        &idle,
        "status",
        json!({"conditions": [{"type": "Suspended", "status": "True"}]}),
    );
    check(&idle, image, resources, &[]);
    check(
        &idle,
        "spec.template.spec.nodeSelector",
        json!({"a": "b"}),
        &[],
    );
}

#[test]
fn completions_change_only_in_tandem_with_parallelism() {
    let old = with(&a_job(), "spec.completionMode", json!("Indexed"));
    let old = stored(&with(&old, "spec.completions", json!(2)));
    let grown = with(&old, "spec.completions", json!(3));
    let expect =
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism";
    check_update(&job::kind(), &grown, &old, &[expect]);
    let grown = with(&grown, "spec.parallelism", json!(3));
    check_update(&job::kind(), &grown, &old, &[]);
}

#[test]
fn job_status_is_validated() {
    let check = |old: Value, status: Value, expect: &[&str]| {
        let spec = json!({"completions": 3, "parallelism": 1});
        let object = |status: Value| json!({"spec": spec, "status": status});
        check_status_update(&job::kind(), &object(status), &object(old), expect);
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let complete = json!({
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        "startTime": "2024-01-01T00:00:00Z",
        "completionTime": "2024-01-01T00:00:01Z",
        "succeeded": 3,
    });
    check(json!({}), complete.clone(), &[]);
    check(
        json!({}),
        json!({"conditions": [condition("Complete")], "active": 1, "ready": 2}),
        &[
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
            "status.startTime: Required value: startTime is required for finished job",
            "status.ready: Invalid value: 2: cannot set more ready pods than active",
        ],
    );
    check(
        complete.clone(),
        json!({"startTime": "2024-01-01T00:00:00Z", "succeeded": 2}),
        &[
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
            "status.succeeded: Invalid value: 2: cannot decrease the succeeded counter",
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ],
    );
    check(
        json!({}),
        json!({"completedIndexes": "0,7", "uncountedTerminatedPods": {"failed": ["", "a", "a"]}}),
        &[
            "status.uncountedTerminatedPods.failed[0]: Invalid value: \"\": must not be empty",
            "status.uncountedTerminatedPods.failed[2]: Duplicate value: \"a\"",
            "status.completedIndexes: Invalid value: \"0,7\": error parsing completedIndexes: too large index: \"7\"",
            "status.completedIndexes: Invalid value: \"0,7\": cannot set non-empty completedIndexes when non-indexed completion mode",
        ],
    );
    check(
        complete.clone(),
        with(&complete, "completionTime", json!("2023-01-01T00:00:00Z")),
        &[
            "status.completionTime: Invalid value: \"2023-01-01T00:00:00Z\": must be equal to or after `startTime`",
            "status.completionTime: Invalid value: \"2023-01-01T00:00:00Z\": field is immutable",
        ],
    );
}

#[test]
fn cron_jobs_are_validated_on_create() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        check_create(&cron_job::kind(), &with(&a_cron_job(), path, value), expect);
    };
    check("spec.timeZone", json!("Europe/Berlin"), &[]);
    check(
        "spec.schedule",
        json!(""),
        &["spec.schedule: Required value"],
    );
    check(
        "spec.schedule",
        json!("often"),
        &["spec.schedule: Invalid value: \"often\": expected exactly 5 fields, found 1: [often]"],
    );
    check(
        "spec.schedule",
        json!("TZ=UTC 0 * * * *"),
        &[
            "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        ],
    );
    check(
        "spec.timeZone",
        json!("Moon/Base"),
        &["spec.timeZone: Invalid value: \"Moon/Base\": unknown time zone Moon/Base"],
    );
    check(
        "spec.timeZone",
        json!("Local"),
        &[
            "spec.timeZone: Invalid value: \"Local\": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        ],
    );
    check(
        "spec.concurrencyPolicy",
        json!("Some"),
        &[
            "spec.concurrencyPolicy: Unsupported value: \"Some\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
        ],
    );
    check(
        "spec.jobTemplate.spec.selector",
        json!({}),
        &["spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated"],
    );
    check(
        "spec.jobTemplate.spec.manualSelector",
        json!(true),
        &[
            "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
        ],
    );
    let name = "c".repeat(53);
    let expect =
        format!("metadata.name: Invalid value: \"{name}\": must be no more than 52 characters");
    check("metadata.name", json!(name), &[&expect]);
}

#[test]
fn existing_time_zone_in_schedule_is_accepted() {
    let old = with(&a_cron_job(), "spec.schedule", json!("TZ=UTC 0 * * * *"));
    check_update(&cron_job::kind(), &old, &old, &[]);
    let both = with(&old, "spec.timeZone", json!("Europe/Berlin"));
    let expect = "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use both timeZone field and TZ or \
                  CRON_TZ in schedule";
    check_update(&cron_job::kind(), &both, &old, &[expect]);
}

#[test]
fn jobs_with_many_indexes_cause_a_warning() {
    let spec = json!({"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001});
    let object = json!({"metadata": {"name": "wide"}, "spec": spec});
    let expect = "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher \
                  than 10^4, Kubernetes might not be able to track completedIndexes when a big number of \
                  indexes fail";
    assert_eq!(warnings(&job::kind(), &object), [expect]);
}
