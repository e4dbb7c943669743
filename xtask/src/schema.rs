//! `cargo xtask schema`: generates the table of all fields of all built-in kinds from Go types and OpenAPI.
//!
//! Pointers, omitempty, embedding, protobuf numbers, type names and enums come from Go; list types, keys, required fields
//! and defaults from OpenAPI. `crates/schema/src/text.rs` parses the table and documents its format.

mod enum_values;
mod go_type_facts;
mod openapi;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::commands::root;
use enum_values::EnumValues;
use go_type_facts::{GoFieldFacts, GoTypeFacts, GoTypeShape};
use openapi::OpenApiDefinitions;

const TABLE: &str = "crates/schema/src/builtin.table";

pub(crate) fn run(k8s_api: &Path) -> Result<()> {
    let definitions = OpenApiDefinitions::read(k8s_api)?;
    let enums = EnumValues::from_upstream()?;
    let mut types = from_upstream()?;
    types.sort_by(|a, b| a.name.cmp(&b.name));
    let mut table = String::from(
        "# What every field of every built-in kind is. Made by `cargo xtask schema`; table_parser.rs describes the format.\n",
    );
    for facts in &types {
        print_type(&mut table, facts, &definitions, &enums)
            .with_context(|| format!("type {}", facts.name))?;
    }
    let path = root().join(TABLE);
    std::fs::write(&path, &table).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{TABLE}: {} types, {} bytes", types.len(), table.len());
    Ok(())
}

fn from_upstream() -> Result<Vec<GoTypeFacts>> {
    let output = Command::new("go")
        .args(["run", "."])
        .current_dir(root().join("interop/gotypes"))
        .output()
        .context("cannot run go: version 1.26 or later must be on the PATH")?;
    ensure!(
        output.status.success(),
        "interop/gotypes: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("cannot read the answer of interop/gotypes")
}

fn print_type(
    out: &mut String,
    facts: &GoTypeFacts,
    definitions: &OpenApiDefinitions,
    enums: &EnumValues,
) -> Result<()> {
    let atomic = definitions.is_atomic_type(&facts.name);
    let atomic = if atomic { " atomic" } else { "" };
    writeln!(out, "\n{} {}{atomic}", facts.name, facts.go)?;
    let mut fields: Vec<&GoFieldFacts> = facts.fields.iter().collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    for field in fields {
        print_field(out, facts, field, definitions, enums)
            .with_context(|| format!("field {}", field.name))?;
    }
    Ok(())
}

fn print_field(
    out: &mut String,
    of: &GoTypeFacts,
    field: &GoFieldFacts,
    definitions: &OpenApiDefinitions,
    enums: &EnumValues,
) -> Result<()> {
    let property = definitions.property(&of.name, &field.name);
    let flags = flags(field, definitions.is_required(&of.name, &field.name));
    write!(
        out,
        " {} {} {flags} {}",
        field.name,
        field.number,
        field.shape.text()
    )?;
    for embedding in &field.embedded {
        write!(out, " in={}:{}", embedding.go, embedding.number)?;
    }
    print_lists_and_maps(out, field, property)?;
    print_patch_strategy(out, field)?;
    if field.go != field.shape.go() {
        write!(out, " go={}", field.go.replace(' ', ""))?;
    }
    if let Some(values) = enums.property(&of.name, &field.name)? {
        write!(out, " values={values}")?;
    }
    if let Some(default) = definitions.default(&of.name, &field.name) {
        write!(out, " default={default}")?;
    }
    out.push('\n');
    Ok(())
}

/// `r` required, `p` pointer, `o` omitted when empty. Go ignores omitempty on structs.
fn flags(field: &GoFieldFacts, required: bool) -> String {
    let omitted =
        field.omitzero || (field.omitempty && (field.pointer || !field.shape.is_struct()));
    let flags: String = [(required, 'r'), (field.pointer, 'p'), (omitted, 'o')]
        .into_iter()
        .filter_map(|(set, flag)| set.then_some(flag))
        .collect();
    if flags.is_empty() {
        "-".to_owned()
    } else {
        flags
    }
}

fn print_lists_and_maps(
    out: &mut String,
    field: &GoFieldFacts,
    property: Option<&Value>,
) -> Result<()> {
    let Some(property) = property else {
        return Ok(());
    };
    if field.shape.list.is_some() {
        match property["x-kubernetes-list-type"].as_str() {
            Some("set") => out.push_str(" set"),
            Some("map") => {
                let keys: Option<Vec<&str>> = property["x-kubernetes-list-map-keys"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(Value::as_str)
                    .collect();
                let keys = keys.context("list map keys are not texts")?;
                write!(out, " keys={}", keys.join(","))?;
            }
            None | Some("atomic") => {}
            Some(other) => anyhow::bail!("unknown list type {other}"),
        }
    }
    if let Some(kind) = property["x-kubernetes-map-type"].as_str() {
        write!(out, " {kind}")?;
    }
    Ok(())
}

fn print_patch_strategy(out: &mut String, field: &GoFieldFacts) -> Result<()> {
    for strategy in field.patch_strategy.split(',').filter(|s| !s.is_empty()) {
        match strategy {
            "merge" if field.shape.list.is_some() => {
                write!(out, " merge={}", field.patch_merge_key)?;
            }
            "merge" => {}
            "retainKeys" => out.push_str(" retainkeys"),
            "replace" => out.push_str(" replace"),
            other => anyhow::bail!("unknown patch strategy {other}"),
        }
    }
    Ok(())
}

impl GoTypeShape {
    /// The name in the table.
    fn text(&self) -> String {
        if let Some(items) = &self.list {
            format!("[]{}", items.text())
        } else if let Some(values) = &self.map {
            format!("map:{}", values.text())
        } else {
            self.object.clone().unwrap_or_else(|| self.plain.clone())
        }
    }

    /// Go's name, if all of its parts have the usual names.
    fn go(&self) -> String {
        if let Some(items) = &self.list {
            format!("[]{}", items.go())
        } else if let Some(values) = &self.map {
            format!("map[string]{}", values.go())
        } else if let Some(object) = &self.object {
            let mut parts = object.rsplit('.');
            let name = parts.next().unwrap_or_default();
            format!("{}.{name}", parts.next().unwrap_or_default())
        } else {
            match self.plain.as_str() {
                "bytes" => "[]uint8",
                "quantity" => "resource.Quantity",
                "intorstring" => "intstr.IntOrString",
                "time" => "v1.Time",
                "microtime" => "v1.MicroTime",
                "duration" => "v1.Duration",
                "any" => "runtime.RawExtension",
                "orbool" => "v1.JSONSchemaPropsOrBool",
                "orlist" => "v1.JSONSchemaPropsOrArray",
                "orstrings" => "v1.JSONSchemaPropsOrStringArray",
                plain => plain,
            }
            .to_owned()
        }
    }

    fn is_struct(&self) -> bool {
        let simple = ["string", "bool", "int32", "int64", "float64", "bytes"];
        self.list.is_none() && self.map.is_none() && !simple.contains(&self.plain.as_str())
    }
}
