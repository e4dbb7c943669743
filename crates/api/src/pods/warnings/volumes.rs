//! Volumes that do nothing any more, and files that hide each other.

use std::fmt;

use rhumb_meta::gotext;
use serde_json::Value;

use super::{WARNINGS_MAX, whole_bytes};
use crate::View;

/// With how many other paths of a volume a path is compared.
const PATHS_COMPARED_MAX: usize = 256;

const OLD_SOURCES: &[(&str, &str, &str)] = &[
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

/// The sources that put files at paths of their own.
const FILE_SOURCES: [&str; 4] = ["configMap", "secret", "downwardAPI", "projected"];

pub(super) fn warn(volumes: &View<'_>, warnings: &mut Vec<String>) {
    let mut has_files = false;
    for volume in volumes.items() {
        let index = volume.index();
        let volume = volume.with(&index);
        has_files |= FILE_SOURCES.iter().any(|source| volume.has(source));
        for (field, shown, message) in OLD_SOURCES {
            if volume.has(field) {
                let path = volume.path().child(shown);
                warnings.push(format!("{path}: {message}"));
            }
        }
        if !volume.has("ephemeral") {
            continue;
        }
        let ephemeral = volume.field("ephemeral");
        let template = ephemeral.field("volumeClaimTemplate");
        let spec = template.field("spec");
        let resources = spec.field("resources");
        for list in ["requests", "limits"] {
            whole_bytes(&resources.field(list).key("storage"), warnings);
        }
    }
    if has_files {
        for volume in volumes.items() {
            overlaps(&volume, warnings);
        }
    }
}

/// Where files come from, as warnings show it.
#[derive(Debug, Clone, Copy)]
struct Source<'a> {
    kind: &'static str,
    /// The name of the object they are in, if they are in one.
    object: Option<&'a str>,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        match self.object {
            Some(object) => write!(f, " {}", gotext::quote(object)),
            None => Ok(()),
        }
    }
}

/// A file of a volume, and the source it comes from if the volume has several.
#[derive(Debug, Clone, Copy)]
struct File<'a> {
    path: &'a str,
    source: Option<Source<'a>>,
}

impl<'a> File<'a> {
    fn new(path: &'a str, source: Option<Source<'a>>) -> Self {
        let path = path.trim_end_matches('/');
        File { path, source }
    }

    fn shown(&self) -> String {
        let path = gotext::quote(self.path);
        match self.source {
            None => path.to_string(),
            Some(source) => format!("{path} ({source})"),
        }
    }

    /// Whether one is the other, or in it.
    fn overlaps(&self, other: &File<'_>) -> bool {
        is_within(self.path, other.path) || is_within(other.path, self.path)
    }
}

fn is_within(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn overlaps(volume: &View<'_>, warnings: &mut Vec<String>) {
    let index = volume.index();
    let volume = volume.with(&index);
    let name = volume.text("name");
    for (field, kind, object) in [
        ("configMap", "ConfigMap", Some("name")),
        ("secret", "Secret", Some("secretName")),
        ("downwardAPI", "DownwardAPI", None),
    ] {
        if !volume.has(field) {
            continue;
        }
        let source = volume.field(field);
        let list = source.field("items");
        let items: Vec<View<'_>> = list.items().collect();
        let files = items.iter().map(|item| File::new(item.text("path"), None));
        let files: Vec<File<'_>> = files.collect();
        let object = object.map(|field| source.text(field));
        compare(&files, 0, (name, Source { kind, object }), warnings);
    }
    if volume.has("projected") {
        projected_overlaps(name, &volume.field("projected"), warnings);
    }
}

fn projected_overlaps(volume: &str, projected: &View<'_>, warnings: &mut Vec<String>) {
    let as_whole = Source {
        kind: "Projected",
        object: None,
    };
    let list = projected.field("sources");
    let sources: Vec<View<'_>> = list.items().collect();
    let mut files = Vec::new();
    for source in &sources {
        if source.is_empty() {
            let name = gotext::quote(volume);
            warnings.push(format!(
                "volume {name} ({as_whole}) has no sources provided"
            ));
        }
        let known = files.len();
        projected_files(source, &mut files);
        compare(&files, known, (volume, as_whole), warnings);
    }
}

fn projected_files<'a>(source: &View<'a>, files: &mut Vec<File<'a>>) {
    let text = |value: Option<&'a Value>| value.and_then(Value::as_str).unwrap_or_default();
    for (field, kind) in [
        ("configMap", "ConfigMap"),
        ("secret", "Secret"),
        ("downwardAPI", "DownwardAPI"),
    ] {
        let Some(projection) = source.get(field) else {
            continue;
        };
        let is_of_object = kind != "DownwardAPI";
        let object = is_of_object.then(|| text(projection.get("name")));
        let items = projection.get("items").and_then(Value::as_array);
        for item in items.into_iter().flatten() {
            let source = Source { kind, object };
            files.push(File::new(text(item.get("path")), Some(source)));
        }
    }
    if let Some(token) = source.get("serviceAccountToken") {
        let source = Source {
            kind: "ServiceAccountToken",
            object: None,
        };
        files.push(File::new(text(token.get("path")), Some(source)));
    }
}

/// Compares files of a volume with those before them, but for the first ones, which were compared already.
fn compare(
    files: &[File<'_>],
    compared: usize,
    (volume, source): (&str, Source<'_>),
    warnings: &mut Vec<String>,
) {
    for (index, file) in files.iter().enumerate().skip(compared) {
        let earlier = files.iter().take(index.min(PATHS_COMPARED_MAX));
        for other in earlier.filter(|other| !other.path.is_empty() && !file.path.is_empty()) {
            if warnings.len() >= WARNINGS_MAX {
                return;
            }
            if file.overlaps(other) {
                warnings.push(format!(
                    "volume {} ({source}): overlapping paths: {} with {}",
                    gotext::quote(volume),
                    file.shown(),
                    other.shown()
                ));
            }
        }
    }
}
