//! Warnings about deprecated volume sources, and about overlapping file paths.

use std::fmt;

use rhumb_meta::gotext;
use serde_json::Value;

use super::{WARNINGS_MAX, warn_of_fractional_bytes};
use crate::FieldView;

/// Maximum number of paths of a volume that a path is compared with.
const PATHS_COMPARED_MAX: usize = 256;

const DEPRECATED_SOURCES: &[(&str, &str, &str)] = &[
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

/// Sources that choose the paths of their files.
const FILE_SOURCES: [&str; 4] = ["configMap", "secret", "downwardAPI", "projected"];

pub(super) fn warn(volumes: &FieldView<'_>, warnings: &mut Vec<String>) {
    let mut has_files = false;
    for volume in volumes.items() {
        let index = volume.index();
        let volume = volume.with_index(&index);
        has_files |= FILE_SOURCES.iter().any(|source| volume.has(source));
        for (field, shown, message) in DEPRECATED_SOURCES {
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
            warn_of_fractional_bytes(&resources.field(list).key("storage"), warnings);
        }
    }
    if has_files {
        for volume in volumes.items() {
            warn_of_overlapping_paths(&volume, warnings);
        }
    }
}

/// Source of a file, as warnings show it.
#[derive(Debug, Clone, Copy)]
struct VolumeFileSource<'a> {
    kind: &'static str,
    /// Name of the config map or secret, if any.
    object: Option<&'a str>,
}

impl fmt::Display for VolumeFileSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        match self.object {
            Some(object) => write!(f, " {}", gotext::quote(object)),
            None => Ok(()),
        }
    }
}

/// A file of a volume; the source is set if the volume has several.
#[derive(Debug, Clone, Copy)]
struct VolumeFile<'a> {
    path: &'a str,
    source: Option<VolumeFileSource<'a>>,
}

impl<'a> VolumeFile<'a> {
    fn new(path: &'a str, source: Option<VolumeFileSource<'a>>) -> Self {
        let path = path.trim_end_matches('/');
        VolumeFile { path, source }
    }

    fn describe(&self) -> String {
        let path = gotext::quote(self.path);
        match self.source {
            None => path.to_string(),
            Some(source) => format!("{path} ({source})"),
        }
    }

    /// Returns whether the paths are equal or one contains the other.
    fn overlaps(&self, other: &VolumeFile<'_>) -> bool {
        is_within(self.path, other.path) || is_within(other.path, self.path)
    }
}

fn is_within(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn warn_of_overlapping_paths(volume: &FieldView<'_>, warnings: &mut Vec<String>) {
    let index = volume.index();
    let volume = volume.with_index(&index);
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
        let items: Vec<FieldView<'_>> = list.items().collect();
        let files = items
            .iter()
            .map(|item| VolumeFile::new(item.text("path"), None));
        let files: Vec<VolumeFile<'_>> = files.collect();
        let object = object.map(|field| source.text(field));
        warn_of_overlaps(
            &files,
            0,
            (name, VolumeFileSource { kind, object }),
            warnings,
        );
    }
    if volume.has("projected") {
        projected_overlaps(name, &volume.field("projected"), warnings);
    }
}

fn projected_overlaps(volume: &str, projected: &FieldView<'_>, warnings: &mut Vec<String>) {
    let as_whole = VolumeFileSource {
        kind: "Projected",
        object: None,
    };
    let list = projected.field("sources");
    let sources: Vec<FieldView<'_>> = list.items().collect();
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
        warn_of_overlaps(&files, known, (volume, as_whole), warnings);
    }
}

fn projected_files<'a>(source: &FieldView<'a>, files: &mut Vec<VolumeFile<'a>>) {
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
            let source = VolumeFileSource { kind, object };
            files.push(VolumeFile::new(text(item.get("path")), Some(source)));
        }
    }
    if let Some(token) = source.get("serviceAccountToken") {
        let source = VolumeFileSource {
            kind: "ServiceAccountToken",
            object: None,
        };
        files.push(VolumeFile::new(text(token.get("path")), Some(source)));
    }
}

/// Compares files of a volume with the earlier ones; the first ones are already compared.
fn warn_of_overlaps(
    files: &[VolumeFile<'_>],
    compared: usize,
    (volume, source): (&str, VolumeFileSource<'_>),
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
                    file.describe(),
                    other.describe()
                ));
            }
        }
    }
}
