//! What the annotations of a pod say about its life.

use std::collections::BTreeMap;
use std::time::Duration;

use rhumb_meta::parse_duration;

use crate::names::PREFIX;

/// Nobody waits longer, and no sum of times is too large to be a time.
const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long everything takes, and how it ends. Without annotations a pod runs at once, and until it is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// From the moment in which the node sees the pod until its containers run.
    pub(crate) start_after: Duration,
    /// From there until they are ready.
    pub(crate) ready_after: Duration,
    pub(crate) never_ready: bool,
    /// From the start of the containers to their end; `None` is for ever.
    pub(crate) run_for: Option<Duration>,
    pub(crate) exit_code: u8,
    /// From the deletion to the end of the containers. The grace period may be over before.
    pub(crate) stop_after: Duration,
}

impl Script {
    /// What cannot be meant is as if it was not there, and is told.
    pub(crate) fn read(annotations: &BTreeMap<String, String>) -> (Script, Vec<String>) {
        let mut script = Script::default();
        let mut problems = Vec::new();
        for (key, value) in annotations {
            if let Some(name) = key.strip_prefix(PREFIX)
                && let Err(problem) = script.set(name, value)
            {
                problems.push(format!("annotation {key}: {problem}"));
            }
        }
        (script, problems)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "start-after" => self.start_after = time(value)?,
            "ready-after" => self.ready_after = time(value)?,
            "run-for" => self.run_for = Some(time(value)?),
            "stop-after" => self.stop_after = time(value)?,
            "exit-code" => {
                let code = value.parse();
                self.exit_code = code.map_err(|_| format!("{value:?} is no number up to 255"))?;
            }
            "never-ready" => {
                let said = value.parse();
                self.never_ready = said.map_err(|_| format!("{value:?} is not true or false"))?;
            }
            _ => {
                return Err(
                    "there is none of this name; there are start-after, ready-after, \
                            never-ready, run-for, exit-code and stop-after"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

fn time(value: &str) -> Result<Duration, String> {
    match parse_duration(value) {
        Some(time) if time > TIME_MAX => Err(format!("{value:?} is more than ten years")),
        Some(time) => Ok(time),
        None => Err(format!(
            "{value:?} is no duration; write it as 500ms, 30s or 1m30s"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(annotations: &[(&str, &str)], script: Script, problem: &str) {
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let (read, problems) = Script::read(&annotations);
        assert_eq!(read, script);
        assert_eq!(problems.join("\n"), problem);
    }

    #[test]
    fn annotations_say_how_a_pod_lives() {
        check(&[], Script::default(), "");
        check(&[("example.com/run-for", "x")], Script::default(), "");
        let all = Script {
            start_after: Duration::from_millis(2500),
            ready_after: Duration::from_millis(500),
            never_ready: true,
            run_for: Some(Duration::from_secs(90)),
            exit_code: 3,
            stop_after: Duration::from_secs(1),
        };
        check(
            &[
                ("simulation.rhumb/start-after", "2.5s"),
                ("simulation.rhumb/ready-after", "500ms"),
                ("simulation.rhumb/never-ready", "true"),
                ("simulation.rhumb/run-for", "1m30s"),
                ("simulation.rhumb/exit-code", "3"),
                ("simulation.rhumb/stop-after", "1s"),
            ],
            all,
            "",
        );
    }

    #[test]
    fn what_cannot_be_meant_is_told_and_the_rest_holds() {
        let one = Script {
            exit_code: 1,
            ..Script::default()
        };
        check(
            &[
                ("simulation.rhumb/exit-code", "1"),
                ("simulation.rhumb/run-for", "soon"),
            ],
            one,
            "annotation simulation.rhumb/run-for: \"soon\" is no duration; write it as 500ms, 30s or 1m30s",
        );
        for (name, value, says) in [
            ("exit-code", "256", "\"256\" is no number up to 255"),
            ("exit-code", "-1", "\"-1\" is no number up to 255"),
            ("never-ready", "yes", "\"yes\" is not true or false"),
            (
                "start-after",
                "100000h",
                "\"100000h\" is more than ten years",
            ),
            (
                "runs-for",
                "1s",
                "there is none of this name; there are start-after, ready-after, never-ready, run-for, exit-code and \
                 stop-after",
            ),
        ] {
            let key = format!("{PREFIX}{name}");
            check(
                &[(&key, value)],
                Script::default(),
                &format!("annotation {key}: {says}"),
            );
        }
    }
}
