//! `rhumb admission compile`: translates exclusion rules into match conditions, for servers without KEP-3693.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use rhumb_admission::ExclusionRule;
use rhumb_admission::compile::{EquivalentResourceSets, compile_webhook};
use serde_json::Value;

use super::equivalents::BuiltInResources;
use crate::manifests::{self, StrictDecoder, UnstructuredObject};
use crate::new_object_validation::NewObjectPreparer;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

#[derive(clap::Args, Debug)]
pub(crate) struct AdmissionCompileCommand {
    /// Files with webhook configurations, in YAML or JSON; - is standard input. Other objects are printed unchanged.
    #[arg(short, long, value_name = "FILE", num_args = 1.., required = true)]
    filename: Vec<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: ManifestFormat,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ManifestFormat {
    Yaml,
    Json,
}

/// Compiled objects, and notes for standard error.
struct CompiledManifests {
    objects: Vec<Value>,
    notes: Vec<String>,
}

/// Prints all objects, or an error that lists every rule that cannot be translated.
pub(super) fn run(command: &AdmissionCompileCommand) -> Result<()> {
    let compiled = compile_files(&command.filename)?;
    for note in &compiled.notes {
        eprintln!("note: {note}");
    }
    match command.output {
        ManifestFormat::Yaml => print!("{}", serde_saphyr::to_string_multiple(&compiled.objects)?),
        ManifestFormat::Json => {
            let list =
                serde_json::json!({"apiVersion": "v1", "kind": "List", "items": compiled.objects});
            println!("{}", serde_json::to_string_pretty(&list)?);
        }
    }
    Ok(())
}

fn compile_files(paths: &[PathBuf]) -> Result<CompiledManifests> {
    let strict = StrictDecoder::new();
    let validator = NewObjectPreparer::new()?;
    let resources = BuiltInResources::new().equivalent_sets();
    let mut compiled = CompiledManifests {
        objects: Vec::new(),
        notes: Vec::new(),
    };
    let mut refusals = Vec::new();
    for path in paths {
        for (location, object) in manifests::read(path)? {
            match kind_in_group(&object) {
                Some("ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
                    let object = strict.decode(object).with_context(|| location.clone())?;
                    validator
                        .admit(&strict, object.clone())
                        .with_context(|| location.clone())?;
                    let object = compile_configuration(
                        object,
                        &location,
                        &resources,
                        &mut compiled.notes,
                        &mut refusals,
                    );
                    compiled.objects.push(Value::Object(object));
                }
                Some(_) => {
                    let object = strict.decode(object).with_context(|| location.clone())?;
                    if has_namespaced_exclusion(&object) {
                        refusals.push(format!(
                            "{location}: exclusion rules of policies cannot be translated if they have namespaces or a \
                             namespaceSelector: use matchConditions of the policy, which see namespaceObject"
                        ));
                    }
                    compiled.objects.push(Value::Object(object));
                }
                None => compiled.objects.push(Value::Object(object)),
            }
        }
    }
    match refusals.as_slice() {
        [] if compiled.objects.is_empty() => bail!("there is no object in the input"),
        [] => Ok(compiled),
        refusals => bail!("{}", refusals.join("\n")),
    }
}

/// The kind of an object of the group admissionregistration.k8s.io.
fn kind_in_group(object: &UnstructuredObject) -> Option<&str> {
    let is_in_group = object
        .get("apiVersion")
        .is_some_and(|version| version == API_VERSION);
    let kind = object.get("kind").and_then(Value::as_str);
    kind.filter(|_| is_in_group)
}

fn compile_configuration(
    mut object: UnstructuredObject,
    location: &str,
    resources: &EquivalentResourceSets,
    notes: &mut Vec<String>,
    refusals: &mut Vec<String>,
) -> UnstructuredObject {
    let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        let name = webhook
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        match compile_webhook(webhook, resources) {
            Ok(compiled) => {
                let noted = compiled.notes.iter();
                notes.extend(noted.map(|note| format!("{location}: webhook {name}: {note}")));
                *webhook = compiled.webhook;
            }
            Err(refusal) => refusals.push(format!("{location}: webhook {name}: {refusal}")),
        }
    }
    object
}

/// Whether a policy or binding has exclusion rules with namespaces, which upstream does not know.
fn has_namespaced_exclusion(object: &UnstructuredObject) -> bool {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    ["matchConstraints", "matchResources"]
        .iter()
        .any(|matching| {
            let rules = spec[matching]["excludeResourceRules"].as_array();
            rules
                .into_iter()
                .flatten()
                .any(ExclusionRule::uses_namespace_fields)
        })
}
