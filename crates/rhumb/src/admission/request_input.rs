//! Builds the explained request from the flags and the object file: resource, namespace, objects with defaults.

use anyhow::{Context, Result, anyhow, bail};
use kube::core::GroupVersionKind as KubeKind;
use kube::discovery::{Scope, pinned_kind};
use rhumb_admission::{MatchAttributes, Operation, ResourceAndKind};
use rhumb_api::{FeatureGates, Kind, Verb};
use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use rhumb_registry::{EquivalentResources, equivalents_by_kind, subresource_index};
use rhumb_schema::{DecodeOptions, ObjectDefaulter, SchemaRef, Table};
use serde_json::Value;

use super::cluster::ConfigurationSource;
use super::connect_options::{connect_options, is_connect_options};
use super::equivalents::operations;
use super::{AdmissionExplainCommand, ExplainError, OperationFlag};
use crate::manifests::{self, UnstructuredObject};

#[derive(Debug)]
pub(super) struct AdmissionRequestInput {
    operation: Operation,
    resolved: EquivalentResources,
    subresource: String,
    name: String,
    namespace: String,
    /// The object; for connects, their options.
    object: UnstructuredObject,
    old: Option<UnstructuredObject>,
}

/// The resource that an object is sent to.
struct ResolvedResource {
    resolved: EquivalentResources,
    is_namespaced: bool,
    /// The operations that it supports.
    operations: Vec<Operation>,
    /// Whether its objects can be deleted as a collection.
    has_collection_deletion: bool,
}

impl AdmissionRequestInput {
    pub(super) async fn read(
        flags: &AdmissionExplainCommand,
        source: &ConfigurationSource<'_>,
    ) -> Result<AdmissionRequestInput, ExplainError> {
        let object = one(&flags.filename).map_err(ExplainError::Input)?;
        let (gvk, known) = match find(&object, flags).map_err(ExplainError::Input)? {
            (gvk, Some(known)) => (gvk, known),
            (gvk, None) => {
                let known = resolve_unknown_kind(&gvk, flags, source).await?;
                (gvk, known)
            }
        };
        AdmissionRequestInput::new(flags, object, &gvk, known).map_err(ExplainError::Input)
    }

    fn new(
        flags: &AdmissionExplainCommand,
        object: UnstructuredObject,
        gvk: &GroupVersionKind,
        known: ResolvedResource,
    ) -> Result<AdmissionRequestInput> {
        check_operation(flags, &known)?;
        let meta = |name: &str| {
            let metadata = object.get("metadata");
            let text = metadata.and_then(|metadata| metadata[name].as_str());
            text.unwrap_or_default().to_owned()
        };
        let own_name = meta("name");
        let operation = Operation::from(flags.operation);
        if flags.connect_options.is_some() && operation != Operation::Connect {
            bail!("--connect-options is for --operation CONNECT");
        }
        let is_collection = flags.operation == OperationFlag::DeleteCollection;
        if own_name.is_empty() && operation != Operation::Create && !is_collection {
            bail!(
                "the object needs a metadata.name for {}",
                operation.as_str()
            );
        }
        let name = match is_collection {
            true => String::new(),
            false => own_name,
        };
        let namespace = namespace(flags, &known, &meta("namespace"), &name)?;
        let old = match &flags.old_object {
            Some(path) => Some(prepared(one(path)?, gvk)?),
            None => None,
        };
        let object = match operation {
            Operation::Connect => {
                let options = flags.connect_options.as_deref().map(one).transpose()?;
                connect_options(&known.resolved.names.kind, options)?
            }
            _ => prepared(object, gvk)?,
        };
        Ok(AdmissionRequestInput {
            operation,
            resolved: known.resolved,
            subresource: flags.subresource.clone(),
            object,
            name,
            namespace,
            old,
        })
    }

    pub(super) fn match_attributes(&self) -> MatchAttributes<'_> {
        MatchAttributes {
            operation: self.operation,
            requested: &self.resolved.names,
            equivalents: &self.resolved.equivalents,
            subresource: &self.subresource,
            name: &self.name,
            namespace: &self.namespace,
        }
    }

    /// The namespace whose labels are matched; empty for cluster-scoped objects and for writes of a namespace itself.
    pub(super) fn namespace(&self) -> &str {
        match self.match_attributes().is_namespace_write() {
            true => "",
            false => &self.namespace,
        }
    }

    /// The new object; `None` for deletions. For connects, their options.
    pub(super) fn object(&self) -> Option<&UnstructuredObject> {
        match self.operation {
            Operation::Create | Operation::Update | Operation::Connect => Some(&self.object),
            Operation::Delete => None,
        }
    }

    /// The old object; `None` for creations and connects.
    pub(super) fn old(&self) -> Option<&UnstructuredObject> {
        match self.operation {
            Operation::Update | Operation::Delete => self.old.as_ref().or(Some(&self.object)),
            Operation::Create | Operation::Connect => None,
        }
    }
}

/// Rejects an operation that the resource does not support, such as CONNECT on config maps.
fn check_operation(flags: &AdmissionExplainCommand, known: &ResolvedResource) -> Result<()> {
    let resource = &known.resolved.names.resource;
    let endpoint = match &*flags.subresource {
        "" => resource.resource.to_string(),
        subresource => format!("{}/{subresource}", resource.resource),
    };
    if flags.operation == OperationFlag::DeleteCollection {
        match known.has_collection_deletion {
            true => return Ok(()),
            false => bail!("{endpoint} cannot be deleted as a collection"),
        }
    }
    let operation = Operation::from(flags.operation);
    if known.operations.contains(&operation) {
        return Ok(());
    }
    let supported: Vec<&str> = known.operations.iter().map(|it| it.as_str()).collect();
    match supported.as_slice() {
        [] => bail!("requests for {endpoint} are not subject to admission"),
        supported => bail!(
            "{endpoint} does not support {}; set --operation to {}",
            operation.as_str(),
            supported.join(" or ")
        ),
    }
}

/// The namespace of the request. For a Namespace object it is its own name, as in upstream.
fn namespace(
    flags: &AdmissionExplainCommand,
    known: &ResolvedResource,
    own: &str,
    name: &str,
) -> Result<String> {
    let resource = &known.resolved.names.resource;
    if resource.group.is_empty() && resource.resource == "namespaces" {
        return Ok(name.to_owned());
    }
    match (known.is_namespaced, own, flags.namespace.as_deref()) {
        (false, "", _) => Ok(String::new()),
        (false, own, _) => bail!(
            "{} are not in namespaces, but the object is in {own:?}: remove metadata.namespace",
            resource.resource
        ),
        (true, "", given) => Ok(given.unwrap_or("default").to_owned()),
        (true, own, Some(given)) if own != given => {
            bail!("the object is in the namespace {own:?}, and --namespace says {given:?}")
        }
        (true, own, _) => Ok(own.to_owned()),
    }
}

fn one(path: &std::path::Path) -> Result<UnstructuredObject> {
    let mut objects = manifests::read(path)?;
    match (objects.pop(), objects.len()) {
        (Some((_, object)), 0) => Ok(object),
        (None, _) => bail!("{}: there is no object in it", path.display()),
        (Some(_), more) => bail!(
            "{}: there are {} objects in it; one request is explained at a time",
            path.display(),
            more + 1
        ),
    }
}

/// Decodes the object and applies the server's defaults. Objects of unknown kinds are unchanged; nothing is validated.
fn prepared(object: UnstructuredObject, gvk: &GroupVersionKind) -> Result<UnstructuredObject> {
    let table = Table::builtin();
    let kinds = rhumb_api::kinds::all();
    let kind = kinds
        .iter()
        .find(|kind| kind.group == gvk.group && kind.name == gvk.kind);
    let served = kind.and_then(|kind| {
        let mut versions = kind.versions.iter();
        versions.find(|served| served.version == gvk.version)
    });
    let Some(schema) = served.and_then(|served| SchemaRef::find(table, &served.schema)) else {
        return Ok(object);
    };
    let decoded = rhumb_schema::decode_value(
        table,
        schema.id(),
        &Value::Object(object),
        DecodeOptions::default(),
    )
    .map_err(|error| anyhow!("the object cannot be read: {error}"))?;
    let mut object = decoded.object;
    let gates = FeatureGates::default();
    let defaults = ObjectDefaulter::new(table, rhumb_api::defaults::enabled_by_type(&gates))
        .context("the schema table is broken")?;
    defaults.apply(&schema, &mut object);
    Ok(object)
}

fn gvk_of(object: &UnstructuredObject) -> GroupVersionKind {
    let text = |name: &str| {
        let text = object.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let api_version = text("apiVersion");
    let (group, version) = match api_version.split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), api_version),
    };
    GroupVersionKind::new(group, version, text("kind"))
}

/// The resource that serves the object's kind; `None` if the kind is not built in.
fn find(
    object: &UnstructuredObject,
    flags: &AdmissionExplainCommand,
) -> Result<(GroupVersionKind, Option<ResolvedResource>)> {
    let gvk = gvk_of(object);
    let kinds = rhumb_api::kinds::all();
    if is_connect_options(&kinds, &gvk) {
        bail!(
            "{} are the options of a connection: set -f to the object that is connected to, and --connect-options to \
             this file",
            gvk.kind
        );
    }
    let mut found: Vec<(&Kind, EquivalentResources)> = Vec::new();
    for (kind, versions) in kinds.iter().zip(equivalents_by_kind(&kinds)) {
        let Some(at) = subresource_index(kind, &flags.subresource) else {
            continue;
        };
        let resolved = versions.into_iter().filter_map(|mut resolved| {
            let is_there = at < resolved.len();
            is_there.then(|| resolved.swap_remove(at))
        });
        // What is sent are options; the file has the object that is connected to.
        let is_target = flags.operation == OperationFlag::Connect
            && kind.group == gvk.group
            && kind.name == gvk.kind
            && kind.served_version(&gvk.version).is_some();
        found.extend(
            resolved
                .filter(|resolved| is_target || resolved.names.kind == gvk)
                .map(|resolved| (kind, resolved)),
        );
    }
    if let Some(resource) = &flags.resource {
        found.retain(|(kind, _)| *resource == resource_text(kind));
    }
    if let [(kind, resolved)] = &found[..] {
        let mut subresources = kind.subresources.iter();
        let subresource = subresources.find(|it| it.name == flags.subresource);
        let verbs = subresource.map_or(kind.verbs, |it| it.verbs);
        let known = ResolvedResource {
            is_namespaced: kind.is_namespaced(),
            resolved: resolved.clone(),
            operations: operations(verbs, subresource),
            has_collection_deletion: verbs.contains(&Verb::DeleteCollection),
        };
        return Ok((gvk, Some(known)));
    }
    if !found.is_empty() {
        let names: Vec<String> = found.iter().map(|(kind, _)| resource_text(kind)).collect();
        bail!(
            "a {} may be sent to several resources; choose one with --resource: {}",
            gvk.kind,
            names.join(", ")
        );
    }
    let is_built_in = |kind: &&Kind| kind.group == gvk.group && kind.name == gvk.kind;
    let subresources = subresources_of_object(&kinds, &gvk);
    match kinds.iter().find(is_built_in) {
        None if !subresources.is_empty() => bail!(
            "{} is sent to a subresource: add {}",
            gvk.kind,
            subresources.join(" or ")
        ),
        None => Ok((gvk, None)),
        Some(kind) => Err(kind_mismatch_error(kind, &gvk, flags)),
    }
}

/// The flags for the subresources that objects of this kind are sent to, as evictions to those of pods.
fn subresources_of_object(kinds: &[Kind], gvk: &GroupVersionKind) -> Vec<String> {
    let subresources = kinds.iter().flat_map(|kind| {
        let own = kind.subresources.iter();
        own.map(move |subresource| (kind, subresource))
    });
    let of_object =
        subresources.filter(|(_, subresource)| subresource.object.as_ref() == Some(gvk));
    of_object
        .map(|(kind, subresource)| {
            format!(
                "--resource {} --subresource {}",
                resource_text(kind),
                subresource.name
            )
        })
        .collect()
}

/// The error for a built-in kind that does not fit the version, resource or subresource of the request.
fn kind_mismatch_error(
    kind: &Kind,
    gvk: &GroupVersionKind,
    flags: &AdmissionExplainCommand,
) -> anyhow::Error {
    let versions: Vec<&str> = kind.versions.iter().map(|it| &*it.version).collect();
    if !versions.contains(&&*gvk.version) {
        let versions = versions.join(", ");
        return anyhow!(
            "there is no version {:?} of {}; there is {versions}",
            gvk.version,
            kind.name
        );
    }
    let subresource = &flags.subresource;
    if let Some(resource) = flags
        .resource
        .as_ref()
        .filter(|it| **it != resource_text(kind))
    {
        return anyhow!(
            "a {} is not sent to --resource {resource}, but to {}",
            kind.name,
            resource_text(kind)
        );
    }
    let all: Vec<&str> = kind.subresources.iter().map(|it| &*it.name).collect();
    let sent = kind.subresources.iter().find(|it| it.name == *subresource);
    match sent.and_then(|it| it.object.as_ref()) {
        Some(object) => anyhow!(
            "what is sent to {}/{subresource} is a {}, not a {}",
            kind.plural,
            object.kind,
            kind.name
        ),
        None => anyhow!(
            "{} have no subresource {subresource:?}; they have {}",
            kind.plural,
            all.join(", ")
        ),
    }
}

fn resource_text(kind: &Kind) -> String {
    match &*kind.group {
        "" => kind.plural.to_string(),
        group => format!("{}.{group}", kind.plural),
    }
}

/// Resolves a kind that is not built in, from `--resource` or from the server's discovery.
async fn resolve_unknown_kind(
    gvk: &GroupVersionKind,
    flags: &AdmissionExplainCommand,
    source: &ConfigurationSource<'_>,
) -> Result<ResolvedResource, ExplainError> {
    let unknown = || {
        anyhow!(
            "there is no built-in kind {} in \"{}/{}\"; name its resource with --resource, as in {}s.{}",
            gvk.kind,
            gvk.group,
            gvk.version,
            gvk.kind.to_lowercase(),
            gvk.group
        )
    };
    let (plural, is_namespaced) = match (&flags.resource, source) {
        (Some(resource), _) => {
            let plural = resource.split('.').next().unwrap_or_default();
            (plural.to_owned(), flags.namespace.is_some())
        }
        (None, ConfigurationSource::Files(_)) => return Err(ExplainError::Input(unknown())),
        (None, ConfigurationSource::Server(server)) => {
            let kind = KubeKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
            let found = pinned_kind(&server.client, &kind).await;
            let (resource, capabilities) = found.map_err(|_| ExplainError::Input(unknown()))?;
            (resource.plural, capabilities.scope == Scope::Namespaced)
        }
    };
    Ok(ResolvedResource {
        resolved: EquivalentResources {
            names: ResourceAndKind {
                resource: GroupVersionResource::new(gvk.group.clone(), gvk.version.clone(), plural),
                kind: gvk.clone(),
            },
            equivalents: Vec::new(),
        },
        is_namespaced,
        operations: vec![Operation::Create, Operation::Update, Operation::Delete],
        has_collection_deletion: true,
    })
}
