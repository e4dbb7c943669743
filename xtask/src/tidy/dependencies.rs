//! Compares the dependencies between crates with the table in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::commands::{cargo, root};

/// Crates with the workspace crates that each uses or may use.
type CrateDependencies = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check() -> Result<Vec<String>> {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    Ok(compare(&actual()?, &allowed(&map)))
}

fn compare(actual: &CrateDependencies, allowed: &CrateDependencies) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, uses) in actual {
        let Some(may_use) = allowed.get(name) else {
            findings.push(format!(
                "ARCHITECTURE.md: the crate {name} is missing in the table"
            ));
            continue;
        };
        let extra = uses
            .difference(may_use)
            .filter(|_| !may_use.contains("anything"));
        for used in extra {
            findings.push(format!(
                "{name} uses {used}, which ARCHITECTURE.md does not allow"
            ));
        }
    }
    let named = allowed.keys().chain(allowed.values().flatten());
    let unknown = named.filter(|name| *name != "anything" && !actual.contains_key(*name));
    for name in unknown.collect::<BTreeSet<_>>() {
        findings.push(format!("ARCHITECTURE.md: there is no crate {name}"));
    }
    findings
}

/// Parses the rows of the table with the header `crate | holds | may use`.
fn allowed(map: &str) -> CrateDependencies {
    let rows = map
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim));
    cells
        .filter_map(|mut cells| {
            let name = cells.next()?.trim_matches('`').to_owned();
            let may_use = cells.nth(1)?;
            let names = may_use
                .split(',')
                .map(|name| name.trim().trim_matches('`').to_owned());
            Some((
                name,
                names.filter(|name| name != "nothing of ours").collect(),
            ))
        })
        .collect()
}

/// Dependencies from the manifests, for all platforms and features, without dev-dependencies.
fn actual() -> Result<CrateDependencies> {
    let output = cargo()
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: CargoMetadata = serde_json::from_slice(&output.stdout)?;
    Ok(metadata.uses())
}

/// The used part of `cargo metadata`'s output.
#[derive(serde::Deserialize)]
struct CargoMetadata {
    packages: Vec<CargoPackage>,
}

#[derive(serde::Deserialize)]
struct CargoPackage {
    name: String,
    dependencies: Vec<CargoDependency>,
}

#[derive(serde::Deserialize)]
struct CargoDependency {
    name: String,
    /// `dev`, `build`, or empty for a normal dependency.
    kind: Option<String>,
}

impl CargoMetadata {
    fn uses(self) -> CrateDependencies {
        let ours: BTreeSet<String> = self.packages.iter().map(|p| p.name.clone()).collect();
        let uses = |package: CargoPackage| {
            let used = package.dependencies.into_iter();
            let used = used.filter(|used| used.kind.as_deref() != Some("dev"));
            let used = used.filter(|used| ours.contains(&used.name));
            (
                short(&package.name),
                used.map(|used| short(&used.name)).collect(),
            )
        };
        self.packages.into_iter().map(uses).collect()
    }
}

fn short(package: &str) -> String {
    package.strip_prefix("rhumb-").unwrap_or(package).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "text\n| crate | holds | may use |\n|---|---|---|\n\
        | `meta` | names | nothing of ours |\n| `store` | a trait | `meta` |\n| `xtask` | chores | anything |\n\nmore";

    fn uses(packages: serde_json::Value) -> CrateDependencies {
        let metadata = serde_json::json!({ "packages": packages });
        serde_json::from_value::<CargoMetadata>(metadata)
            .unwrap()
            .uses()
    }

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> serde_json::Value {
        let dependency = |&(name, kind): &(&str, Option<&str>)| serde_json::json!({ "name": name, "kind": kind });
        let dependencies: Vec<_> = dependencies.iter().map(dependency).collect();
        serde_json::json!({ "name": name, "dependencies": dependencies })
    }

    #[test]
    fn allowed_dependencies_have_no_findings() {
        let actual = uses(serde_json::json!([
            package(
                "rhumb-meta",
                &[("serde", None), ("rhumb-store", Some("dev"))]
            ),
            package("rhumb-store", &[("rhumb-meta", None)]),
            package("xtask", &[("rhumb-store", None)]),
        ]));
        assert_eq!(compare(&actual, &allowed(MAP)), Vec::<String>::new());
    }

    #[test]
    fn upward_dependency_is_found() {
        let actual = uses(serde_json::json!([
            package("rhumb-meta", &[("rhumb-store", Some("build"))]),
            package("rhumb-store", &[]),
            package("rhumb-new", &[]),
        ]));
        let findings = compare(&actual, &allowed(MAP));
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].contains("meta uses store"));
    }

    #[test]
    fn allowing_a_missing_crate_is_an_error() {
        let actual = uses(serde_json::json!([package("rhumb-store", &[])]));
        let map = "| crate | holds | may use |\n|---|---|---|\n| `store` | a trait | `ghost` |";
        assert_eq!(compare(&actual, &allowed(map)).len(), 1);
    }
}
