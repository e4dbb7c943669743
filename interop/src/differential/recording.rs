//! Recorded responses of kube-apiserver, one file per topic, so that a comparison needs only rhumb.

use std::path::Path;

use anyhow::{Context, Result};

use super::ResponsesByCase;
use super::case::CaseFile;

pub fn write(directory: &Path, responses: &ResponsesByCase) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut by_topic = std::collections::BTreeMap::<&str, ResponsesByCase>::new();
    for (case, case_responses) in responses {
        let topic = case.split('/').next().unwrap_or_default();
        let recorded = by_topic.entry(topic).or_default();
        recorded.insert(case.clone(), case_responses.clone());
    }
    for (topic, responses) in by_topic {
        let text = serde_json::to_string_pretty(&responses)?;
        std::fs::write(directory.join(format!("{topic}.json")), text)?;
    }
    Ok(())
}

/// The recorded responses of the cases whose names contain `filter`.
pub fn read(directory: &Path, topics: &[CaseFile], filter: &str) -> Result<ResponsesByCase> {
    let mut responses = ResponsesByCase::new();
    for topic in topics {
        let path = directory.join(format!("{}.json", topic.name));
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "cannot read {}: create it with `cargo xtask interop differential -- record`",
                path.display()
            )
        })?;
        let recorded: ResponsesByCase =
            serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        for case in topic.cases.iter().filter(|case| case.name.contains(filter)) {
            let name = topic.qualified_name(case);
            let recorded = recorded.get(&name).with_context(|| {
                format!(
                    "{} has no case {name}: run `cargo xtask interop differential -- record` again",
                    path.display()
                )
            })?;
            responses.insert(name, recorded.clone());
        }
    }
    Ok(responses)
}
