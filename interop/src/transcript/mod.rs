//! Transcripts: commands and their expected output.
//!
//! ```text
//! # A comment.
//! $ kubectl create configmap a --from-literal=k=v
//! configmap/a created
//!
//! $ kubectl apply -f -
//! > apiVersion: v1
//! > kind: ConfigMap
//! configmap/b created
//! ? 1
//! ```
//!
//! Lines with `>` are the input of a command, and `?` is the exit code if it is not 0. In expected output, `[..]`
//! matches any text within a line and `...` matches any lines.

mod mask;

pub use mask::mask;

/// A transcript file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubectlTranscript {
    pub steps: Vec<TranscriptStep>,
}

/// A command with its output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranscriptStep {
    /// Comment lines before the command.
    pub comments: Vec<String>,
    pub command: String,
    pub input: Vec<String>,
    pub output: Vec<String>,
}

impl KubectlTranscript {
    pub fn parse(text: &str) -> Self {
        let mut steps = Vec::<TranscriptStep>::new();
        let mut comments = Vec::new();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(TranscriptStep {
                    comments: std::mem::take(&mut comments),
                    command: command.to_owned(),
                    ..TranscriptStep::default()
                });
            } else if line.starts_with("# ") {
                comments.push(line.to_owned());
            } else if let Some(step) = steps.last_mut() {
                match line.strip_prefix("> ") {
                    Some(input) => step.input.push(input.to_owned()),
                    None => step.output.push(line.to_owned()),
                }
            }
        }
        for step in &mut steps {
            trim(&mut step.output);
        }
        Self { steps }
    }

    pub fn print(&self) -> String {
        let mut text = String::new();
        for (index, step) in self.steps.iter().enumerate() {
            if index > 0 {
                text += "\n";
            }
            for comment in &step.comments {
                text += &format!("{comment}\n");
            }
            text += &format!("$ {}\n", step.command);
            for line in &step.input {
                text += &format!("> {line}\n");
            }
            for line in &step.output {
                text += &format!("{line}\n");
            }
        }
        text
    }
}

/// Removes trailing empty lines.
pub fn trim(lines: &mut Vec<String>) {
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
}

/// Whether the lines match the expected ones.
pub fn matches(expected: &[String], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=actual.len()).any(|skipped| matches(rest, &actual[skipped..]))
        }
        Some((first, rest)) => actual
            .split_first()
            .is_some_and(|(line, others)| line_matches(first, line) && matches(rest, others)),
    }
}

fn line_matches(expected: &str, actual: &str) -> bool {
    match expected.split_once("[..]") {
        None => expected == actual,
        Some((start, rest)) => actual.strip_prefix(start).is_some_and(|actual| {
            let mut ends = (0..=actual.len()).filter(|end| actual.is_char_boundary(*end));
            ends.any(|end| line_matches(rest, &actual[end..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A comment.\n$ kubectl get\n> input\nline\n\nother\n\n$ kubectl version\n";

    #[test]
    fn parsed_transcript_prints_unchanged() {
        let transcript = KubectlTranscript::parse(TEXT);
        assert_eq!(transcript.steps.len(), 2);
        assert_eq!(transcript.steps[0].output, ["line", "", "other"]);
        assert_eq!(transcript.print(), TEXT);
    }

    #[test]
    fn wildcards() {
        let check = |expected: &str, actual: &str| {
            let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
            matches(&lines(expected), &lines(actual))
        };
        assert!(check("a\n...\nd", "a\nb\nc\nd"));
        assert!(check("a\n...", "a"));
        assert!(check("x[..]z", "xyz") && check("x[..]", "x"));
        assert!(!check("a\n...\nd", "a\nb"));
        assert!(!check("x[..]z", "xyzz0"));
        assert!(!check("a", "a\nb") && !check("a\nb", "a"));
    }
}
