//! Volumes that do nothing any more, and files that hide each other.

use rhumb_meta::gotext;

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

pub(super) fn warn(volumes: &View<'_>, warnings: &mut Vec<String>) {
    for volume in volumes.items() {
        for (field, shown, message) in OLD_SOURCES {
            if volume.has(field) {
                let path = volume.path().child(shown);
                warnings.push(format!("{path}: {message}"));
            }
        }
        let ephemeral = volume.field("ephemeral");
        let template = ephemeral.field("volumeClaimTemplate");
        let spec = template.field("spec");
        let resources = spec.field("resources");
        for list in ["requests", "limits"] {
            whole_bytes(&resources.field(list).key("storage"), warnings);
        }
    }
    for volume in volumes.items() {
        overlaps(&volume, warnings);
    }
}

/// A file of a volume, and the source it comes from if the volume has several.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File<'a> {
    path: &'a str,
    source: String,
}

impl File<'_> {
    fn shown(&self) -> String {
        let path = gotext::quote(self.path);
        if self.source.is_empty() {
            path.to_string()
        } else {
            format!("{path} ({})", self.source)
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
    let name = gotext::quote(volume.text("name"));
    for (kind, shown, object) in [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        let source = volume.field(kind);
        let items = source.field("items");
        let mut files = Vec::new();
        for item in items.items() {
            add_items(&mut files, item.text("path"), "");
        }
        let described = described(shown, source.text(object));
        compare(&files, 0, &format!("volume {name} ({described})"), warnings);
    }
    let projected = volume.field("projected");
    let sources = projected.field("sources");
    let mut files = Vec::new();
    for source in sources.items() {
        if source.is_empty() {
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
        }
        let known = files.len();
        projected_files(&source, &mut files);
        let volume = format!("volume {name} (Projected)");
        compare(&files, known, &volume, warnings);
    }
}

fn described(kind: &str, name: &str) -> String {
    if kind == "DownwardAPI" {
        kind.to_owned()
    } else {
        format!("{kind} {}", gotext::quote(name))
    }
}

fn add_items<'a>(files: &mut Vec<File<'a>>, path: &'a str, source: &str) {
    let path = path.trim_end_matches('/');
    files.push(File {
        path,
        source: source.to_owned(),
    });
}

fn projected_files<'a>(source: &View<'a>, files: &mut Vec<File<'a>>) {
    for (kind, shown) in [
        ("configMap", "ConfigMap"),
        ("secret", "Secret"),
        ("downwardAPI", "DownwardAPI"),
    ] {
        let Some(projection) = source.get(kind) else {
            continue;
        };
        let name = projection.get("name").and_then(|name| name.as_str());
        let described = described(shown, name.unwrap_or_default());
        let items = projection.get("items").and_then(|items| items.as_array());
        for item in items.into_iter().flatten() {
            let path = item.get("path").and_then(|path| path.as_str());
            add_items(files, path.unwrap_or_default(), &described);
        }
    }
    if let Some(token) = source.get("serviceAccountToken") {
        let path = token.get("path").and_then(|path| path.as_str());
        add_items(files, path.unwrap_or_default(), "ServiceAccountToken");
    }
}

/// Compares files with those before them, but for the first ones, which were compared already.
fn compare(files: &[File<'_>], compared: usize, volume: &str, warnings: &mut Vec<String>) {
    for (index, file) in files.iter().enumerate().skip(compared) {
        let earlier = files.iter().take(index.min(PATHS_COMPARED_MAX));
        for other in earlier.filter(|other| !other.path.is_empty() && !file.path.is_empty()) {
            if warnings.len() >= WARNINGS_MAX {
                return;
            }
            if file.overlaps(other) {
                warnings.push(format!(
                    "{volume}: overlapping paths: {} with {}",
                    file.shown(),
                    other.shown()
                ));
            }
        }
    }
}
