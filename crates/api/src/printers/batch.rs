//! Printers of the batch group.

use rhumb_meta::Timestamp;
use serde_json::json;

use super::json_view::JsonView;
use super::{
    AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age, containers, human_duration, is_being_deleted,
    name, none, selector_or_none, since,
};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    Some(match kind {
        "CronJob" => CRON_JOB,
        "Job" => JOB,
        _ => return None,
    })
}

const JOB: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Status", "The job status."),
        TableColumn::text("Completions", "How many pods succeeded, of how many."),
        TableColumn::text("Duration", "How long it ran."),
        AGE,
        CONTAINERS.wide(),
        IMAGES.wide(),
        SELECTOR,
    ],
    |object, now| {
        let job = JsonView::Root(object);
        let (names, images) = containers(job.at("spec.template.spec"));
        vec![
            name(job),
            json!(status(job)),
            completions(job).into(),
            duration(job.key("status"), now).into(),
            age(job, now),
            names,
            images,
            selector_or_none(job.at("spec.selector")).into(),
        ]
    },
);

const CRON_JOB: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Schedule", "The schedule in cron format."),
        TableColumn::text("Timezone", "The time zone of the schedule."),
        TableColumn::boolean("Suspend", "Whether it is suspended."),
        TableColumn::integer("Active", "How many of its jobs are running."),
        TableColumn::text("Last Schedule", "When it ran last."),
        AGE,
        CONTAINERS.wide(),
        IMAGES.wide(),
        SELECTOR,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let job = object.at("spec.jobTemplate.spec");
        let (names, images) = containers(job.at("template.spec"));
        let last = object.at("status.lastScheduleTime");
        let suspended = match object.at("spec.suspend").opt_bool() {
            None => "<unset>",
            Some(true) => "True",
            Some(false) => "False",
        };
        vec![
            name(object),
            json!(object.at("spec.schedule").str()),
            json!(object.at("spec.timeZone").opt_str().unwrap_or("<none>")),
            json!(suspended),
            json!(object.at("status.active").item_count()),
            if last.exists() {
                since(last, now)
            } else {
                none()
            }
            .into(),
            age(object, now),
            names,
            images,
            selector_or_none(job.key("selector")).into(),
        ]
    },
);

fn status(job: JsonView<'_>) -> &'static str {
    let has = |kind| {
        job.at("status.conditions")
            .condition(kind)
            .is_some_and(|condition| condition.key("status").str() == "True")
    };
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if is_being_deleted(job) {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: JsonView<'_>) -> String {
    let succeeded = job.at("status.succeeded").int();
    match (
        job.at("spec.completions").opt_int(),
        job.at("spec.parallelism").int(),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(status: JsonView<'_>, now: Timestamp) -> String {
    let Some(start) = human_duration::parse(status.key("startTime").str()) else {
        return String::new();
    };
    let end = human_duration::parse(status.key("completionTime").str()).unwrap_or(now);
    human_duration::duration(human_duration::seconds_between(start, end))
}
