//! Who uses whom, held against the table in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::steps::{cargo, root};

/// Crate names, each with the crates of ours that it uses or may use.
type Uses = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check() -> Result<Vec<String>> {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    Ok(compare(&actual()?, &allowed(&map)))
}

fn compare(actual: &Uses, allowed: &Uses) -> Vec<String> {
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
    for name in allowed.keys().filter(|name| !actual.contains_key(*name)) {
        findings.push(format!("ARCHITECTURE.md: there is no crate {name}"));
    }
    findings
}

/// The rows of the table whose head is `crate | holds | may use`.
fn allowed(map: &str) -> Uses {
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

/// What the manifests say, from `cargo tree`, without tests' own dependencies.
fn actual() -> Result<Uses> {
    let output = cargo()
        .args([
            "tree",
            "--workspace",
            "--edges",
            "normal,build",
            "--depth",
            "1",
        ])
        .args(["--prefix", "depth", "--format", " {p}", "--offline"])
        .output()
        .context("cannot run cargo tree")?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success(),
        "cargo tree: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(parse_tree(&text))
}

fn parse_tree(text: &str) -> Uses {
    let mut uses = Uses::new();
    let mut current = String::new();
    for line in text.lines() {
        // A crate of ours is shown with the folder it lies in.
        let Some((depth, name)) = line.split_once(' ').filter(|_| line.contains("(/")) else {
            continue;
        };
        let name = short(name.split(' ').next().unwrap_or(name));
        if depth == "0" {
            current.clone_from(&name);
            uses.entry(name).or_default();
        } else {
            uses.entry(current.clone()).or_default().insert(name);
        }
    }
    uses
}

fn short(package: &str) -> String {
    package.strip_prefix("rhumb-").unwrap_or(package).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "text\n| crate | holds | may use |\n|---|---|---|\n\
        | `meta` | names | nothing of ours |\n| `store` | a trait | `meta` |\n| `xtask` | chores | anything |\n\nmore";

    fn tree(lines: &[&str]) -> Uses {
        parse_tree(&lines.join("\n"))
    }

    #[test]
    fn what_the_table_allows_is_in_order() {
        let actual = tree(&[
            "0 rhumb-meta v0.1.0 (/p/crates/meta)",
            "1 serde v1.0.0",
            "0 rhumb-store v0.1.0 (/p/crates/store)",
            "1 rhumb-meta v0.1.0 (/p/crates/meta)",
            "0 xtask v0.1.0 (/p/xtask)",
            "1 rhumb-store v0.1.0 (/p/crates/store)",
        ]);
        assert_eq!(compare(&actual, &allowed(MAP)), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_against_the_direction_is_found() {
        let actual = tree(&[
            "0 rhumb-meta v0.1.0 (/p/crates/meta)",
            "1 rhumb-store v0.1.0 (/p/crates/store)",
            "0 rhumb-store v0.1.0 (/p/crates/store)",
            "0 rhumb-new v0.1.0 (/p/crates/new)",
        ]);
        let findings = compare(&actual, &allowed(MAP));
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].contains("meta uses store"));
    }
}
