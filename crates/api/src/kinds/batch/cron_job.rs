//! CronJob.

use rhumb_meta::field::ErrorList;

use super::{job_spec, schedule, time_zone};
use crate::workloads::{checks, template};
use crate::{Generation, Kind, Object, Request, Rules, Scope, View, pods};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "batch",
        "v1",
        "CronJob",
        "cronjobs",
        "io.k8s.api.batch.v1.CronJob",
    )
    .short(&["cj"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .status()
    .rules(CronJob)
}

/// What is left for the name: the jobs have eleven characters more, and are names of hosts.
const NAME_MAX_BYTES: usize = 52;

const POD_SPEC: &[&str] = &["spec", "jobTemplate", "spec", "template", "spec"];

#[derive(Debug)]
struct CronJob;

impl Rules for CronJob {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        pods::drop_from_template(object, None, POD_SPEC, request.gates);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        pods::drop_from_template(object, Some(old), POD_SPEC, request.gates);
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate_spec(&object.field("spec"), None, errors);
        let metadata = object.field("metadata");
        let name = metadata.field("name");
        if name.len() > NAME_MAX_BYTES {
            let detail = format!("must be no more than {NAME_MAX_BYTES} characters");
            checks::invalid_text(&name, errors, detail);
        }
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), Some(&old.field("spec")), errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        let spec = object.field("spec");
        let jobs = spec.field("jobTemplate");
        let Some(old) = old else {
            template::warn_of_name(object, warnings);
            job_spec::warnings(&jobs.field("spec"), warnings);
            return;
        };
        if !checks::same(&spec, &old.field("spec")) {
            job_spec::warnings(&jobs.field("spec"), warnings);
        }
        if spec.field("schedule").str().contains("TZ") {
            // The path is upstream's.
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
    }
}

fn validate_spec(spec: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    validate_schedule(spec, old, errors);
    checks::nonnegative(&spec.field("startingDeadlineSeconds"), errors);
    let zone = spec.field("timeZone");
    if old.is_none_or(|old| !checks::same(&zone, &old.field("timeZone"))) {
        time_zone::validate(&zone, errors);
    }
    let concurrency = spec.field("concurrencyPolicy");
    if concurrency.is_empty() {
        concurrency.required(errors, "");
    } else {
        checks::one_of(&concurrency, &["Allow", "Forbid", "Replace"], errors);
    }
    let old_jobs = old.map(|old| old.field("jobTemplate"));
    validate_job_template(&spec.field("jobTemplate"), old_jobs.as_ref(), errors);
    let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    checks::all_nonnegative(spec, &limits, errors);
}

fn validate_schedule(spec: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    let field = spec.field("schedule");
    if field.is_empty() {
        field.required(errors, "");
        return;
    }
    if let Err(error) = schedule::check(field.str()) {
        checks::invalid_text(&field, errors, error);
    }
    if !field.str().contains("TZ") {
        return;
    }
    let had_zone = old.is_some_and(|old| old.field("schedule").str().contains("TZ"));
    if !had_zone {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        checks::invalid_text(&field, errors, detail);
    } else if spec.field("timeZone").exists() {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        checks::invalid_text(&field, errors, detail);
    }
}

fn validate_job_template(jobs: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    let spec = jobs.field("spec");
    let old = old.map(|old| old.field("spec"));
    job_spec::validate(&spec, old.as_ref(), errors);
    let selector = spec.field("selector");
    if selector.exists() {
        selector.invalid(errors, "`selector` will be auto-generated");
    }
    let manual = spec.field("manualSelector");
    if manual.is_true() {
        manual.not_supported(errors, &["nil", "false"]);
    }
}
