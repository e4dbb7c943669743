//! The status of a job: what may stand in it together, and what may follow what.
//!
//! Most rules are only asked when what they are about has changed, so that a status that was written before
//! they existed can still be written on.

use std::collections::HashSet;

use rhumb_meta::Timestamp;
use rhumb_meta::field::{BadValue, Error, ErrorList};

use super::{indexes, job_spec};
use crate::View;
use crate::workloads::checks;

/// The conditions that a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Conditions {
    is_complete: bool,
    is_failed: bool,
    is_failing: bool,
    is_succeeding: bool,
}

impl Conditions {
    fn of(status: &View<'_>) -> Conditions {
        Conditions {
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

pub(super) fn has_condition(status: &View<'_>, kind: &str, value: &str) -> bool {
    status
        .field("conditions")
        .items()
        .any(|item| item.field("type").str() == kind && item.field("status").str() == value)
}

/// One change of a status, and the errors it has.
struct Update<'a> {
    spec: View<'a>,
    status: View<'a>,
    old: View<'a>,
    now: Conditions,
    before: Conditions,
    errors: &'a mut ErrorList,
}

pub(super) fn validate(object: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    let (status, old) = (object.field("status"), old.field("status"));
    let mut update = Update {
        spec: object.field("spec"),
        now: Conditions::of(&status),
        before: Conditions::of(&old),
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

impl Update<'_> {
    fn has_changed(&self, name: &str) -> bool {
        !checks::same(&self.status.field(name), &self.old.field(name))
    }

    fn int(&self, name: &str) -> i64 {
        self.status.field(name).int().unwrap_or(0)
    }

    /// Refuses the conditions as a whole if `is_wrong`.
    fn refuse_conditions(&mut self, is_wrong: bool, detail: impl Into<String>) {
        if is_wrong {
            let conditions = self.status.field("conditions");
            let error = Error::invalid(conditions.path(), BadValue::Omitted, detail);
            self.errors.push(error);
        }
    }

    fn refuse(&mut self, is_wrong: bool, name: &str, detail: impl Into<String>) {
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
        let (now, before) = (self.now, self.before);
        let complete_changed = now.is_complete != before.is_complete;
        let failed_changed = now.is_failed != before.is_failed;
        let failing_changed = now.is_failing != before.is_failing;
        self.refuse_conditions(
            (complete_changed || failed_changed) && now.is_complete && now.is_failed,
            "cannot set Complete=True and Failed=true conditions",
        );
        self.refuse_conditions(
            (complete_changed || failing_changed) && now.is_complete && now.is_failing,
            "cannot set Complete=True and FailureTarget=true conditions",
        );
    }

    fn validate_times(&mut self) {
        let (now, before) = (self.now, self.before);
        let completion_changed = self.has_changed("completionTime");
        let is_asked = now.is_complete != before.is_complete || completion_changed;
        let is_completed_at = self.status.field("completionTime").exists();
        self.refuse(
            is_asked && is_completed_at && !now.is_complete,
            "completionTime",
            "cannot set completionTime when there is no Complete=True condition",
        );
        if is_asked && !is_completed_at && now.is_complete {
            let completion = self.status.field("completionTime");
            completion.required(self.errors, "completionTime is required for Complete jobs");
        }
        let time = |field: &View<'_>| field.str().parse::<Timestamp>().ok();
        let start = time(&self.status.field("startTime"));
        let end = time(&self.status.field("completionTime"));
        let is_backwards = start.zip(end).is_some_and(|(start, end)| end < start);
        let times_changed = completion_changed || self.has_changed("startTime");
        self.refuse(
            times_changed && is_backwards,
            "completionTime",
            "must be equal to or after `startTime`",
        );
    }

    fn validate_finished(&mut self) {
        let (now, before) = (self.now, self.before);
        let is_finished = now.is_finished();
        let finished_changed = is_finished != before.is_finished();
        let changed = |update: &Self, name| finished_changed || update.has_changed(name);
        let failed_changed = now.is_failed != before.is_failed || self.has_changed("failedIndexes");
        self.refuse_conditions(
            failed_changed && now.is_failed && !now.is_failing,
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
        let complete_changed =
            now.is_complete != before.is_complete || now.is_succeeding != before.is_succeeding;
        self.refuse_conditions(
            complete_changed && now.is_complete && !now.is_succeeding,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        );
        self.refuse(
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
        self.refuse(
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
        let error = |text: &str| completions.and_then(|count| indexes::count(text, count).err());

        if let Some(error) = error(&completed).filter(|_| completed_changed) {
            let detail = format!("error parsing completedIndexes: {error}");
            self.refuse(true, "completedIndexes", detail);
        }
        let failed_error = failed.as_deref().and_then(error);
        if let Some(error) = failed_error.filter(|_| failed_changed && has_limit) {
            let detail = format!("error parsing failedIndexes: {error}");
            self.refuse(true, "failedIndexes", detail);
        }
        self.refuse(
            completed_changed && !completed.is_empty() && !is_indexed,
            "completedIndexes",
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        );
        self.refuse(
            failed_changed && failed.is_some() && !has_limit,
            "failedIndexes",
            "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        );
        let overlap = completions
            .zip(failed)
            .and_then(|(count, failed)| indexes::overlap(&completed, &failed, count));
        if let Some(index) = overlap.filter(|_| failed_changed || completed_changed) {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            self.refuse(true, "failedIndexes", detail);
        }
    }

    fn validate_transitions(&mut self) {
        let (now, before) = (self.now, self.before);
        let finished_changed = now.is_finished() != before.is_finished();
        let terminating_changed = finished_changed || self.has_changed("terminating");
        self.refuse(
            terminating_changed && now.is_finished() && self.int("terminating") > 0,
            "terminating",
            "terminating>0 is invalid for finished job",
        );
        let ready_changed = self.has_changed("ready") || self.has_changed("active");
        self.refuse(
            ready_changed && self.int("ready") > self.int("active"),
            "ready",
            "cannot set more ready pods than active",
        );
        self.validate_success_criteria();
        self.validate_lasting_conditions();
        self.validate_lasting_values();
        self.refuse_conditions(
            before.is_succeeding && !now.is_succeeding,
            "cannot disable the SuccessCriteriaMet=True condition",
        );
        self.refuse_conditions(
            before.is_complete && !before.is_succeeding && now.is_succeeding,
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        );
    }

    fn validate_success_criteria(&mut self) {
        let now = self.now;
        self.refuse_conditions(
            now.is_succeeding && now.is_failed,
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        );
        self.refuse_conditions(
            now.is_succeeding && now.is_failing,
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        );
        let has_policy = self.spec.field("successPolicy").exists();
        self.refuse_conditions(
            has_policy && !now.is_succeeding && now.is_complete,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        );
    }

    fn validate_lasting_conditions(&mut self) {
        let (now, before) = (self.now, self.before);
        let lost = [
            ("Failed", before.is_failed && !now.is_failed),
            ("Complete", before.is_complete && !now.is_complete),
            ("FailureTarget", before.is_failing && !now.is_failing),
        ];
        for (name, is_lost) in lost {
            let detail = format!("cannot disable the terminal {name}=True condition");
            self.refuse_conditions(is_lost, detail);
        }
    }

    fn validate_lasting_values(&mut self) {
        let old = |update: &Self, name: &str| update.old.field(name).int().unwrap_or(0);
        let decreases = |update: &Self, name: &str| update.int(name) < old(update, name);
        self.refuse_number(
            decreases(self, "failed"),
            "failed",
            "cannot decrease the failed counter",
        );
        // An indexed job that runs all at once may be made smaller.
        let can_shrink = job_spec::is_indexed(&self.spec)
            && checks::same(
                &self.spec.field("completions"),
                &self.spec.field("parallelism"),
            );
        self.refuse_number(
            !can_shrink && decreases(self, "succeeded"),
            "succeeded",
            "cannot decrease the succeeded counter",
        );
        let had = |update: &Self, name: &str| update.old.field(name).exists();
        let is_completion_moved = had(self, "completionTime")
            && self.status.field("completionTime").exists()
            && self.has_changed("completionTime");
        self.refuse(is_completion_moved, "completionTime", "field is immutable");
        let is_resuming = has_condition(&self.old, "Suspended", "True")
            && has_condition(&self.status, "Suspended", "False");
        let is_running = !is_resuming && !self.spec.field("suspend").is_true();
        self.refuse(
            is_running && had(self, "startTime") && self.has_changed("startTime"),
            "startTime",
            "field is immutable for unsuspended job once set",
        );
    }

    /// As [`Update::refuse`], for a number that is zero when it is absent.
    fn refuse_number(&mut self, is_wrong: bool, name: &str, detail: &str) {
        if is_wrong {
            let value = self.int(name);
            let field = self.status.field(name);
            self.errors
                .push(Error::invalid(field.path(), value, detail));
        }
    }
}
