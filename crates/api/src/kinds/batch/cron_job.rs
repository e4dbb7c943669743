//! Declares `CronJob` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/batch/validation`.

use rhumb_meta::field::ErrorList;

use super::{cron_schedule, job_spec, time_zone};
use crate::validation_helpers::{checks, template};
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    StrategyContext, pods,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "batch",
        "v1",
        "CronJob",
        "cronjobs",
        "io.k8s.api.batch.v1.CronJob",
    )
    .short_names(&["cj"])
    .category("all")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .status()
    .strategy(CronJobStrategy)
}

/// Maximum length of the name: job names add 11 characters, and must be valid host names (63).
const NAME_MAX_BYTES: usize = 52;

const POD_SPEC: &[&str] = &["spec", "jobTemplate", "spec", "template", "spec"];

#[derive(Debug)]
struct CronJobStrategy;

impl ResourceStrategy for CronJobStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        pods::drop_disabled_template_fields(object, None, POD_SPEC, request.gates);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        pods::drop_disabled_template_fields(object, Some(old), POD_SPEC, request.gates);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
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
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), Some(&old.field("spec")), errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        let spec = object.field("spec");
        let jobs = spec.field("jobTemplate");
        let Some(old) = old else {
            template::warn_non_dns_label_name(object, warnings);
            job_spec::warnings(&jobs.field("spec"), warnings);
            return;
        };
        if !checks::semantically_equal(&spec, &old.field("spec")) {
            job_spec::warnings(&jobs.field("spec"), warnings);
        }
        if spec.field("schedule").str().contains("TZ") {
            // The path is as upstream reports it.
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
    }
}

fn validate_spec(spec: &FieldView<'_>, old: Option<&FieldView<'_>>, errors: &mut ErrorList) {
    validate_schedule(spec, old, errors);
    checks::nonnegative(&spec.field("startingDeadlineSeconds"), errors);
    let zone = spec.field("timeZone");
    if old.is_none_or(|old| !checks::semantically_equal(&zone, &old.field("timeZone"))) {
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

fn validate_schedule(spec: &FieldView<'_>, old: Option<&FieldView<'_>>, errors: &mut ErrorList) {
    let field = spec.field("schedule");
    if field.is_empty() {
        field.required(errors, "");
        return;
    }
    if let Err(error) = cron_schedule::validate_schedule(field.str()) {
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

fn validate_job_template(
    jobs: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    errors: &mut ErrorList,
) {
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
