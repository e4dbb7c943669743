//! Reads pods, namespaces and network policies from manifest files, with the validation of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rhumb_api::ip_addresses::parse_lax;
use rhumb_netpol::{NamespacedName, Pod};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cluster::{NetpolObjects, written_addresses};
use crate::manifests::{self, StrictDecoder, UnstructuredObject};
use crate::new_object_validation::NewObjectPreparer;

/// The kinds that are read, as `apiVersion` and `kind`. Others are counted for a note.
const NAMESPACE: (&str, &str) = ("v1", "Namespace");
const POD: (&str, &str) = ("v1", "Pod");
const POLICY: (&str, &str) = ("networking.k8s.io/v1", "NetworkPolicy");

/// Kinds with a pod template: their pods are missing from the input.
const POD_TEMPLATE_KINDS: [&str; 8] = [
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "PodTemplate",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
];

pub(super) fn read(paths: &[PathBuf]) -> Result<NetpolObjects> {
    let mut reader = NetpolManifestReader {
        strict: StrictDecoder::new(),
        validation: NewObjectPreparer::new()?,
        objects: NetpolObjects::default(),
        read_objects: BTreeMap::new(),
        ignored_kinds: BTreeMap::new(),
    };
    for path in expanded(paths)? {
        for (location, object) in manifests::read(&path)? {
            reader.add(&location, object)?;
        }
    }
    let makers: BTreeSet<&str> = POD_TEMPLATE_KINDS.into();
    let is_maker = |(kind, _): &(&String, &usize)| makers.contains(kind.as_str());
    let (makers, others): (Vec<_>, Vec<_>) = reader.ignored_kinds.iter().partition(is_maker);
    let notes = &mut reader.objects.notes;
    if !makers.is_empty() {
        notes.push(format!(
            "no pods are generated from {}: pass the pods themselves, as from `kubectl get pods -A -o yaml`",
            listed(&makers)
        ));
    }
    if !others.is_empty() {
        notes.push(format!(
            "only pods, namespaces and network policies are evaluated; ignored: {}",
            listed(&others)
        ));
    }
    Ok(reader.objects)
}

fn listed(kinds: &[(&String, &usize)]) -> String {
    let kinds = kinds.iter().map(|(kind, count)| format!("{count} {kind}"));
    kinds.collect::<Vec<_>>().join(", ")
}

/// Replaces each directory by its manifest files, sorted by name.
fn expanded(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let found = found_in(path).with_context(|| path.display().to_string())?;
        if found.is_empty() {
            bail!(
                "{}: there is no *.yaml, *.yml or *.json in it",
                path.display()
            );
        }
        files.extend(found);
    }
    Ok(files)
}

fn found_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

struct NetpolManifestReader {
    strict: StrictDecoder,
    validation: NewObjectPreparer,
    objects: NetpolObjects,
    /// Objects read so far with their location, to detect duplicates.
    read_objects: BTreeMap<(&'static str, NamespacedName), (String, UnstructuredObject)>,
    /// Number of objects of each kind that is not read.
    ignored_kinds: BTreeMap<String, usize>,
}

impl NetpolManifestReader {
    fn add(&mut self, location: &str, object: UnstructuredObject) -> Result<()> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = match (text("apiVersion"), text("kind")) {
            POD => POD.1,
            NAMESPACE => NAMESPACE.1,
            POLICY => POLICY.1,
            (version, kind) => {
                *self
                    .ignored_kinds
                    .entry(kind_text(version, kind))
                    .or_default() += 1;
                return Ok(());
            }
        };
        let mut object = self
            .strict
            .decode(object)
            .with_context(|| location.to_owned())?;
        let name = place_in_namespace(&mut object, kind != NAMESPACE.1);
        let shown = match &*name.namespace {
            "" => format!("{} {}", kind.to_lowercase(), name.name),
            _ => format!("{} {name}", kind.to_lowercase()),
        };
        if name.name.is_empty() {
            bail!("{location}: this {kind} has no metadata.name");
        }
        if let Some((before, same)) = self.read_objects.get(&(kind, name.clone())) {
            if *same == object {
                return Ok(());
            }
            bail!("{location}: there is another {shown} in {before}");
        }
        let kept = (location.to_owned(), object.clone());
        self.read_objects.insert((kind, name), kept);
        self.keep(kind, object)
            .with_context(|| format!("{location}: {shown}"))
    }

    fn keep(&mut self, kind: &str, object: UnstructuredObject) -> Result<()> {
        let objects = &mut self.objects;
        match kind {
            "Namespace" => objects.namespaces.push(typed(object)?),
            "Pod" => objects.pods.push(checked_pod(typed(object)?)?),
            _ => {
                let policy = self.validation.admit(&self.strict, object)?;
                objects.policies.push(typed(policy)?);
            }
        }
        Ok(())
    }
}

/// The name in a note: `Deployment` for built-in kinds, `IPPool.crd.projectcalico.org/v1` for custom resources.
fn kind_text(api_version: &str, kind: &str) -> String {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match group.contains('.') && kind != "Ingress" {
        true => format!("{kind}.{api_version}"),
        false => kind.to_owned(),
    }
}

/// Puts a namespaced object without a namespace into `default`, as kubectl does, and returns its name.
fn place_in_namespace(object: &mut UnstructuredObject, is_namespaced: bool) -> NamespacedName {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return NamespacedName::new("", "");
    };
    let text = |metadata: &UnstructuredObject, name: &str| {
        let text = metadata.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let name = text(metadata, "name");
    let mut namespace = text(metadata, "namespace");
    if is_namespaced && namespace.is_empty() {
        namespace = "default".to_owned();
        metadata.insert("namespace".to_owned(), namespace.clone().into());
    }
    NamespacedName::new(namespace, name)
}

fn typed<T: DeserializeOwned>(object: UnstructuredObject) -> Result<T> {
    Ok(serde_json::from_value(Value::Object(object))?)
}

/// Rejects invalid addresses: the engine would ignore them.
fn checked_pod(pod: Pod) -> Result<Pod> {
    if let Some(odd) = written_addresses(&pod).find(|text| parse_lax(text).is_none()) {
        bail!("status.podIPs: {odd:?} is not an address");
    }
    Ok(pod)
}
