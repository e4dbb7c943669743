//! Printers of the batch group.

use rhumb_meta::Timestamp;
use serde_json::json;

use super::part::Part;
use super::{
    AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age, containers, human, is_being_deleted, name, none,
    selector_or_none, since,
};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    Some(match kind {
        "CronJob" => CRON_JOB,
        "Job" => JOB,
        _ => return None,
    })
}

const JOB: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "How far the job is."),
        Column::text("Completions", "How many pods succeeded, of how many."),
        Column::text("Duration", "How long it ran."),
        AGE,
        CONTAINERS.wide(),
        IMAGES.wide(),
        SELECTOR,
    ],
    |object, now| {
        let job = Part::Root(object);
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

const CRON_JOB: Printer = Printer::new(
    &[
        NAME,
        Column::text("Schedule", "When it runs, as cron writes it."),
        Column::text("Timezone", "The time zone of the schedule."),
        Column::boolean("Suspend", "Whether it rests."),
        Column::integer("Active", "How many of its jobs are running."),
        Column::text("Last Schedule", "When it ran last."),
        AGE,
        CONTAINERS.wide(),
        IMAGES.wide(),
        SELECTOR,
    ],
    |object, now| {
        let object = Part::Root(object);
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
            json!(object.at("status.active").len()),
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

fn status(job: Part<'_>) -> &'static str {
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

fn completions(job: Part<'_>) -> String {
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

fn duration(status: Part<'_>, now: Timestamp) -> String {
    let Some(start) = human::parse(status.key("startTime").str()) else {
        return String::new();
    };
    let end = human::parse(status.key("completionTime").str()).unwrap_or(now);
    human::duration(human::seconds_between(start, end))
}
