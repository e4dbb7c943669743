//! What owns pods.

use serde_json::{Value, json};

use crate::{Object, edit};

pub(super) fn deployment(object: &mut Object) {
    edit::within(object, &["spec"], |spec| {
        edit::default(spec, "replicas", 1);
        edit::default(spec, "revisionHistoryLimit", 10);
        edit::default(spec, "progressDeadlineSeconds", 600);
        rolling_update(spec, "strategy", &json!("25%"), &json!("25%"));
    });
}

pub(super) fn daemon_set(object: &mut Object) {
    edit::within(object, &["spec"], |spec| {
        edit::default(spec, "revisionHistoryLimit", 10);
        rolling_update(spec, "updateStrategy", &json!(1), &json!(0));
    });
}

fn rolling_update(spec: &mut Object, strategy: &str, unavailable: &Value, surge: &Value) {
    edit::within(spec, &[strategy], |strategy| {
        edit::default_text(strategy, "type", "RollingUpdate");
        if edit::text(strategy, "type") == "RollingUpdate" {
            edit::within(strategy, &["rollingUpdate"], |rolling| {
                edit::default(rolling, "maxUnavailable", unavailable.clone());
                edit::default(rolling, "maxSurge", surge.clone());
            });
        }
    });
}

pub(super) fn replica_set(object: &mut Object) {
    edit::within(object, &["spec"], |spec| edit::default(spec, "replicas", 1));
}

pub(super) fn stateful_set(object: &mut Object) {
    edit::within(object, &["spec"], |spec| {
        edit::default_text(spec, "podManagementPolicy", "OrderedReady");
        edit::within(spec, &["updateStrategy"], |strategy| {
            if edit::text(strategy, "type").is_empty() {
                edit::default_text(strategy, "type", "RollingUpdate");
                edit::default(strategy, "rollingUpdate", json!({}));
            }
            let is_rolling = edit::text(strategy, "type") == "RollingUpdate";
            if let Some(rolling) = edit::find(strategy, &["rollingUpdate"])
                && is_rolling
            {
                edit::default(rolling, "partition", 0);
            }
        });
        edit::within(spec, &["persistentVolumeClaimRetentionPolicy"], |policy| {
            edit::default_text(policy, "whenDeleted", "Retain");
            edit::default_text(policy, "whenScaled", "Retain");
        });
        edit::default(spec, "replicas", 1);
        edit::default(spec, "revisionHistoryLimit", 10);
    });
}

pub(super) fn job(object: &mut Object) {
    inherit_labels(object);
    edit::within(object, &["spec"], |spec| {
        if edit::is_absent(spec, "completions") && edit::is_absent(spec, "parallelism") {
            edit::default(spec, "completions", 1);
        }
        edit::default(spec, "parallelism", 1);
        let is_limited_by_index = !edit::is_absent(spec, "backoffLimitPerIndex");
        let limit = if is_limited_by_index { i32::MAX } else { 6 };
        edit::default(spec, "backoffLimit", limit);
        edit::default(spec, "completionMode", "NonIndexed");
        edit::default(spec, "suspend", false);
        let has_failure_policy = !edit::is_absent(spec, "podFailurePolicy");
        let replacement = if has_failure_policy {
            "Failed"
        } else {
            "TerminatingOrFailed"
        };
        edit::default(spec, "podReplacementPolicy", replacement);
        edit::default(spec, "manualSelector", false);
    });
}

/// A job without labels has those of its pods.
fn inherit_labels(object: &mut Object) {
    let own = edit::get(object, &["metadata", "labels"]).and_then(Value::as_object);
    if own.is_some_and(|labels| !labels.is_empty()) {
        return;
    }
    if let Some(labels) = edit::get(object, &["spec", "template", "metadata", "labels"]).cloned() {
        edit::within(object, &["metadata"], |metadata| {
            metadata.insert("labels".to_owned(), labels);
        });
    }
}

pub(super) fn cron_job(object: &mut Object) {
    edit::within(object, &["spec"], |spec| {
        edit::default_text(spec, "concurrencyPolicy", "Allow");
        edit::default(spec, "suspend", false);
        edit::default(spec, "successfulJobsHistoryLimit", 3);
        edit::default(spec, "failedJobsHistoryLimit", 1);
    });
}

pub(super) fn pod_condition_pattern(pattern: &mut Object) {
    edit::default_text(pattern, "status", "True");
}
