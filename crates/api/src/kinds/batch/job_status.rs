//! Validation of status updates of a job: consistency of the new status, and allowed transitions from the old one.
//!
//! Most checks run only if the fields they are about have changed (ratcheting), so that a status from before a check
//! existed can still be updated.

use std::collections::HashSet;

use rhumb_meta::Timestamp;
use rhumb_meta::field::{BadValue, Error, ErrorList};

use super::{completion_indexes, job_spec};
use crate::FieldView;
use crate::validation_helpers::checks;

/// Which of the terminal conditions of a job are true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JobConditionFlags {
    is_complete: bool,
    is_failed: bool,
    is_failing: bool,
    is_succeeding: bool,
}

impl JobConditionFlags {
    fn from_status(status: &FieldView<'_>) -> JobConditionFlags {
        JobConditionFlags {
            is_complete: has_condition(status, "Complete", "True"),
            is_failed: has_condition(status, "Failed", "True"),
            is_failing: has_condition(status, "FailureTarget", "True"),
            is_succeeding: has_condition(status, "SuccessCriteriaMet", "True"),
        }
    }

    fn is_finished(self) -> bool {
        self.is_complete || self.is_failed
    }
}

pub(super) fn has_condition(status: &FieldView<'_>, kind: &str, value: &str) -> bool {
    status
        .field("conditions")
        .items()
        .any(|item| item.field("type").str() == kind && item.field("status").str() == value)
}

/// Validator of one status update; collects the errors.
struct JobStatusUpdate<'a> {
    spec: FieldView<'a>,
    status: FieldView<'a>,
    old: FieldView<'a>,
    conditions: JobConditionFlags,
    old_conditions: JobConditionFlags,
    errors: &'a mut ErrorList,
}

pub(super) fn validate(object: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let (status, old) = (object.field("status"), old.field("status"));
    let mut update = JobStatusUpdate {
        spec: object.field("spec"),
        conditions: JobConditionFlags::from_status(&status),
        old_conditions: JobConditionFlags::from_status(&old),
        status,
        old,
        errors,
    };
    update.validate_counters();
    update.validate_conditions();
    update.validate_times();
    update.validate_finished();
    update.validate_indexes();
    update.validate_transitions();
}

impl JobStatusUpdate<'_> {
    fn has_changed(&self, name: &str) -> bool {
        !checks::semantically_equal(&self.status.field(name), &self.old.field(name))
    }

    fn int(&self, name: &str) -> i64 {
        self.status.field(name).int().unwrap_or(0)
    }

    /// Rejects the condition list if `is_wrong`.
    fn reject_conditions_if(&mut self, is_wrong: bool, detail: impl Into<String>) {
        if is_wrong {
            let conditions = self.status.field("conditions");
            let error = Error::invalid(conditions.path(), BadValue::Omitted, detail);
            self.errors.push(error);
        }
    }

    fn reject_field_if(&mut self, is_wrong: bool, name: &str, detail: impl Into<String>) {
        if is_wrong {
            self.status.field(name).invalid(self.errors, detail);
        }
    }

    fn validate_counters(&mut self) {
        let counters = ["active", "succeeded", "failed", "ready", "terminating"];
        checks::all_nonnegative(&self.status, &counters, self.errors);
        let uncounted = self.status.field("uncountedTerminatedPods");
        let mut seen = HashSet::new();
        for list in ["succeeded", "failed"] {
            for pod in uncounted.field(list).items() {
                if pod.is_empty() {
                    pod.invalid(self.errors, "must not be empty");
                } else if !seen.insert(pod.str().to_owned()) {
                    pod.duplicate(self.errors);
                }
            }
        }
    }

    fn validate_conditions(&mut self) {
        let (now, before) = (self.conditions, self.old_conditions);
        let complete_changed = now.is_complete != before.is_complete;
        let failed_changed = now.is_failed != before.is_failed;
        let failing_changed = now.is_failing != before.is_failing;
        self.reject_conditions_if(
            (complete_changed || failed_changed) && now.is_complete && now.is_failed,
            "cannot set Complete=True and Failed=true conditions",
        );
        self.reject_conditions_if(
            (complete_changed || failing_changed) && now.is_complete && now.is_failing,
            "cannot set Complete=True and FailureTarget=true conditions",
        );
    }

    fn validate_times(&mut self) {
        let (now, before) = (self.conditions, self.old_conditions);
        let completion_changed = self.has_changed("completionTime");
        let is_asked = now.is_complete != before.is_complete || completion_changed;
        let is_completed_at = self.status.field("completionTime").exists();
        self.reject_field_if(
            is_asked && is_completed_at && !now.is_complete,
            "completionTime",
            "cannot set completionTime when there is no Complete=True condition",
        );
        if is_asked && !is_completed_at && now.is_complete {
            let completion = self.status.field("completionTime");
            completion.required(self.errors, "completionTime is required for Complete jobs");
        }
        let time = |field: &FieldView<'_>| field.str().parse::<Timestamp>().ok();
        let start = time(&self.status.field("startTime"));
        let end = time(&self.status.field("completionTime"));
        let is_backwards = start.zip(end).is_some_and(|(start, end)| end < start);
        let times_changed = completion_changed || self.has_changed("startTime");
        self.reject_field_if(
            times_changed && is_backwards,
            "completionTime",
            "must be equal to or after `startTime`",
        );
    }

    fn validate_finished(&mut self) {
        let (now, before) = (self.conditions, self.old_conditions);
        let is_finished = now.is_finished();
        let finished_changed = is_finished != before.is_finished();
        let changed = |update: &Self, name| finished_changed || update.has_changed(name);
        let failed_changed = now.is_failed != before.is_failed || self.has_changed("failedIndexes");
        self.reject_conditions_if(
            failed_changed && now.is_failed && !now.is_failing,
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
        let complete_changed =
            now.is_complete != before.is_complete || now.is_succeeding != before.is_succeeding;
        self.reject_conditions_if(
            complete_changed && now.is_complete && !now.is_succeeding,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        );
        self.reject_field_if(
            is_finished && changed(self, "active") && self.int("active") > 0,
            "active",
            "active>0 is invalid for finished job",
        );
        let never_ran =
            self.spec.field("suspend").is_true() && self.spec.field("completions").int() == Some(0);
        let start = self.status.field("startTime");
        if is_finished && changed(self, "startTime") && !never_ran && !start.exists() {
            start.required(self.errors, "startTime is required for finished job");
        }
        let uncounted = self.status.field("uncountedTerminatedPods");
        let has_uncounted =
            uncounted.field("failed").len() + uncounted.field("succeeded").len() > 0;
        self.reject_field_if(
            is_finished && has_uncounted && changed(self, "uncountedTerminatedPods"),
            "uncountedTerminatedPods",
            "must be empty for finished job",
        );
    }

    fn validate_indexes(&mut self) {
        let completed_changed = self.has_changed("completedIndexes");
        let failed_changed = self.has_changed("failedIndexes");
        let completions = self.spec.field("completions").int();
        let has_limit = self.spec.field("backoffLimitPerIndex").exists();
        let is_indexed = job_spec::is_indexed(&self.spec);
        let completed = self.status.field("completedIndexes").str().to_owned();
        let failed = self
            .status
            .field("failedIndexes")
            .opt_str()
            .map(str::to_owned);
        let error = |text: &str| {
            completions.and_then(|count| completion_indexes::count_indexes(text, count).err())
        };

        if let Some(error) = error(&completed).filter(|_| completed_changed) {
            let detail = format!("error parsing completedIndexes: {error}");
            self.reject_field_if(true, "completedIndexes", detail);
        }
        let failed_error = failed.as_deref().and_then(error);
        if let Some(error) = failed_error.filter(|_| failed_changed && has_limit) {
            let detail = format!("error parsing failedIndexes: {error}");
            self.reject_field_if(true, "failedIndexes", detail);
        }
        self.reject_field_if(
            completed_changed && !completed.is_empty() && !is_indexed,
            "completedIndexes",
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        );
        self.reject_field_if(
            failed_changed && failed.is_some() && !has_limit,
            "failedIndexes",
            "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        );
        let overlap = completions.zip(failed).and_then(|(count, failed)| {
            completion_indexes::first_common_index(&completed, &failed, count)
        });
        if let Some(index) = overlap.filter(|_| failed_changed || completed_changed) {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            self.reject_field_if(true, "failedIndexes", detail);
        }
    }

    fn validate_transitions(&mut self) {
        let (now, before) = (self.conditions, self.old_conditions);
        let finished_changed = now.is_finished() != before.is_finished();
        let terminating_changed = finished_changed || self.has_changed("terminating");
        self.reject_field_if(
            terminating_changed && now.is_finished() && self.int("terminating") > 0,
            "terminating",
            "terminating>0 is invalid for finished job",
        );
        let ready_changed = self.has_changed("ready") || self.has_changed("active");
        self.reject_field_if(
            ready_changed && self.int("ready") > self.int("active"),
            "ready",
            "cannot set more ready pods than active",
        );
        self.validate_success_criteria();
        self.validate_permanent_conditions();
        self.validate_permanent_values();
        self.reject_conditions_if(
            before.is_succeeding && !now.is_succeeding,
            "cannot disable the SuccessCriteriaMet=True condition",
        );
        self.reject_conditions_if(
            before.is_complete && !before.is_succeeding && now.is_succeeding,
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        );
    }

    fn validate_success_criteria(&mut self) {
        let now = self.conditions;
        self.reject_conditions_if(
            now.is_succeeding && now.is_failed,
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        );
        self.reject_conditions_if(
            now.is_succeeding && now.is_failing,
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        );
        let has_policy = self.spec.field("successPolicy").exists();
        self.reject_conditions_if(
            has_policy && !now.is_succeeding && now.is_complete,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        );
    }

    fn validate_permanent_conditions(&mut self) {
        let (now, before) = (self.conditions, self.old_conditions);
        let lost = [
            ("Failed", before.is_failed && !now.is_failed),
            ("Complete", before.is_complete && !now.is_complete),
            ("FailureTarget", before.is_failing && !now.is_failing),
        ];
        for (name, is_lost) in lost {
            let detail = format!("cannot disable the terminal {name}=True condition");
            self.reject_conditions_if(is_lost, detail);
        }
    }

    fn validate_permanent_values(&mut self) {
        let old = |update: &Self, name: &str| update.old.field(name).int().unwrap_or(0);
        let decreases = |update: &Self, name: &str| update.int(name) < old(update, name);
        self.reject_number_if(
            decreases(self, "failed"),
            "failed",
            "cannot decrease the failed counter",
        );
        // An elastic indexed job may be scaled down.
        let can_shrink = job_spec::is_indexed(&self.spec)
            && checks::semantically_equal(
                &self.spec.field("completions"),
                &self.spec.field("parallelism"),
            );
        self.reject_number_if(
            !can_shrink && decreases(self, "succeeded"),
            "succeeded",
            "cannot decrease the succeeded counter",
        );
        let had = |update: &Self, name: &str| update.old.field(name).exists();
        let is_completion_moved = had(self, "completionTime")
            && self.status.field("completionTime").exists()
            && self.has_changed("completionTime");
        self.reject_field_if(is_completion_moved, "completionTime", "field is immutable");
        let is_resuming = has_condition(&self.old, "Suspended", "True")
            && has_condition(&self.status, "Suspended", "False");
        let is_running = !is_resuming && !self.spec.field("suspend").is_true();
        self.reject_field_if(
            is_running && had(self, "startTime") && self.has_changed("startTime"),
            "startTime",
            "field is immutable for unsuspended job once set",
        );
    }

    /// Like `reject_field_if`, for a number that is zero if absent.
    fn reject_number_if(&mut self, is_wrong: bool, name: &str, detail: &str) {
        if is_wrong {
            let value = self.int(name);
            let field = self.status.field(name);
            self.errors
                .push(Error::invalid(field.path(), value, detail));
        }
    }
}
