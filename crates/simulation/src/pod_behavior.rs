//! Simulated behaviour of a pod, from its `simulation.rhumb/` annotations.

use std::collections::BTreeMap;
use std::time::Duration;

use rhumb_meta::parse_duration;

use crate::names::PREFIX;

/// Upper bound of durations, so that adding them to timestamps cannot overflow.
const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// When containers start, become ready and exit. By default they run at once, until the pod is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodBehavior {
    /// From when the node accepts the pod until its containers start.
    pub(crate) start_after: Duration,
    /// From the start of the containers until they are ready.
    pub(crate) ready_after: Duration,
    pub(crate) never_ready: bool,
    /// From the start of the containers until they exit; `None` means they never exit.
    pub(crate) run_for: Option<Duration>,
    pub(crate) exit_code: u8,
    /// From the pod's deletion until its containers exit, limited by the grace period.
    pub(crate) stop_after: Duration,
}

impl PodBehavior {
    /// Parses the annotations. Invalid ones are ignored and returned as problems.
    pub(crate) fn read(annotations: &BTreeMap<String, String>) -> (PodBehavior, Vec<String>) {
        let mut script = PodBehavior::default();
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
                self.exit_code =
                    code.map_err(|_| format!("{value:?} is not an integer from 0 to 255"))?;
            }
            "never-ready" => {
                let said = value.parse();
                self.never_ready = said.map_err(|_| format!("{value:?} is not true or false"))?;
            }
            _ => {
                return Err("unknown name; known are start-after, ready-after, \
                            never-ready, run-for, exit-code and stop-after"
                    .to_owned());
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
    fn check(annotations: &[(&str, &str)], script: PodBehavior, problem: &str) {
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let (read, problems) = PodBehavior::read(&annotations);
        assert_eq!(read, script);
        assert_eq!(problems.join("\n"), problem);
    }

    #[test]
    fn annotations_define_pod_behavior() {
        check(&[], PodBehavior::default(), "");
        check(&[("example.com/run-for", "x")], PodBehavior::default(), "");
        let all = PodBehavior {
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
    fn invalid_annotations_are_reported_and_the_rest_applies() {
        let one = PodBehavior {
            exit_code: 1,
            ..PodBehavior::default()
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
            (
                "exit-code",
                "256",
                "\"256\" is not an integer from 0 to 255",
            ),
            ("exit-code", "-1", "\"-1\" is not an integer from 0 to 255"),
            ("never-ready", "yes", "\"yes\" is not true or false"),
            (
                "start-after",
                "100000h",
                "\"100000h\" is more than ten years",
            ),
            (
                "runs-for",
                "1s",
                "unknown name; known are start-after, ready-after, never-ready, run-for, exit-code and \
                 stop-after",
            ),
        ] {
            let key = format!("{PREFIX}{name}");
            check(
                &[(&key, value)],
                PodBehavior::default(),
                &format!("annotation {key}: {says}"),
            );
        }
    }
}
