//! Defaults of the apps and batch controllers.

use serde_json::{Value, json};

use crate::{JsonObject, object_edit};

pub(super) fn deployment(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::set_default(spec, "replicas", 1);
        object_edit::set_default(spec, "revisionHistoryLimit", 10);
        object_edit::set_default(spec, "progressDeadlineSeconds", 600);
        rolling_update(spec, "strategy", &json!("25%"), &json!("25%"));
    });
}

pub(super) fn daemon_set(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::set_default(spec, "revisionHistoryLimit", 10);
        rolling_update(spec, "updateStrategy", &json!(1), &json!(0));
    });
}

fn rolling_update(spec: &mut JsonObject, strategy: &str, unavailable: &Value, surge: &Value) {
    object_edit::edit_child(spec, &[strategy], |strategy| {
        object_edit::set_default_string(strategy, "type", "RollingUpdate");
        if object_edit::text(strategy, "type") == "RollingUpdate" {
            object_edit::edit_child(strategy, &["rollingUpdate"], |rolling| {
                object_edit::set_default(rolling, "maxUnavailable", unavailable.clone());
                object_edit::set_default(rolling, "maxSurge", surge.clone());
            });
        }
    });
}

pub(super) fn replica_set(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::set_default(spec, "replicas", 1);
    });
}

pub(super) fn stateful_set(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::set_default_string(spec, "podManagementPolicy", "OrderedReady");
        object_edit::edit_child(spec, &["updateStrategy"], |strategy| {
            if object_edit::text(strategy, "type").is_empty() {
                object_edit::set_default_string(strategy, "type", "RollingUpdate");
                object_edit::set_default(strategy, "rollingUpdate", json!({}));
            }
            let is_rolling = object_edit::text(strategy, "type") == "RollingUpdate";
            if let Some(rolling) = object_edit::find_object(strategy, &["rollingUpdate"])
                && is_rolling
            {
                object_edit::set_default(rolling, "partition", 0);
            }
        });
        object_edit::edit_child(spec, &["persistentVolumeClaimRetentionPolicy"], |policy| {
            object_edit::set_default_string(policy, "whenDeleted", "Retain");
            object_edit::set_default_string(policy, "whenScaled", "Retain");
        });
        object_edit::set_default(spec, "replicas", 1);
        object_edit::set_default(spec, "revisionHistoryLimit", 10);
    });
}

pub(super) fn job(object: &mut JsonObject) {
    inherit_labels(object);
    object_edit::edit_child(object, &["spec"], |spec| {
        if object_edit::is_absent(spec, "completions")
            && object_edit::is_absent(spec, "parallelism")
        {
            object_edit::set_default(spec, "completions", 1);
        }
        object_edit::set_default(spec, "parallelism", 1);
        let is_limited_by_index = !object_edit::is_absent(spec, "backoffLimitPerIndex");
        let limit = if is_limited_by_index { i32::MAX } else { 6 };
        object_edit::set_default(spec, "backoffLimit", limit);
        object_edit::set_default(spec, "completionMode", "NonIndexed");
        object_edit::set_default(spec, "suspend", false);
        let has_failure_policy = !object_edit::is_absent(spec, "podFailurePolicy");
        let replacement = if has_failure_policy {
            "Failed"
        } else {
            "TerminatingOrFailed"
        };
        object_edit::set_default(spec, "podReplacementPolicy", replacement);
        object_edit::set_default(spec, "manualSelector", false);
    });
}

/// The labels of a job default to those of its pod template.
fn inherit_labels(object: &mut JsonObject) {
    let own = object_edit::get(object, &["metadata", "labels"]).and_then(Value::as_object);
    if own.is_some_and(|labels| !labels.is_empty()) {
        return;
    }
    if let Some(labels) =
        object_edit::get(object, &["spec", "template", "metadata", "labels"]).cloned()
    {
        object_edit::edit_child(object, &["metadata"], |metadata| {
            metadata.insert("labels".to_owned(), labels);
        });
    }
}

pub(super) fn cron_job(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::set_default_string(spec, "concurrencyPolicy", "Allow");
        object_edit::set_default(spec, "suspend", false);
        object_edit::set_default(spec, "successfulJobsHistoryLimit", 3);
        object_edit::set_default(spec, "failedJobsHistoryLimit", 1);
    });
}

pub(super) fn pod_condition_pattern(pattern: &mut JsonObject) {
    object_edit::set_default_string(pattern, "status", "True");
}
