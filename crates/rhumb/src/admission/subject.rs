//! The request that is to be explained.

use anyhow::{Context, Result, anyhow, bail};
use kube::core::GroupVersionKind as KubeKind;
use kube::discovery::{Scope, pinned_kind};
use rhumb_admission::{Facts, Names, Operation};
use rhumb_api::{Gates, Kind};
use rhumb_apiserver::resources::naming::{Asked, name_all, place};
use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use rhumb_schema::{Defaults, Options, Table};
use serde_json::Value;

use super::cluster::Source;
use super::{Explain, Failure};
use crate::documents::{self, Object};

#[derive(Debug)]
pub(super) struct Subject {
    operation: Operation,
    asked: Asked,
    subresource: String,
    name: String,
    namespace: String,
    object: Object,
    old: Option<Object>,
}

/// What is known of the kind of an object.
struct Known {
    asked: Asked,
    is_namespaced: bool,
}

impl Subject {
    pub(super) async fn read(flags: &Explain, source: &Source<'_>) -> Result<Subject, Failure> {
        let object = one(&flags.filename).map_err(Failure::Input)?;
        let (gvk, known) = match find(&object, flags).map_err(Failure::Input)? {
            (gvk, Some(known)) => (gvk, known),
            (gvk, None) => {
                let known = elsewhere(&gvk, flags, source).await?;
                (gvk, known)
            }
        };
        Subject::new(flags, object, &gvk, known).map_err(Failure::Input)
    }

    fn new(
        flags: &Explain,
        object: Object,
        gvk: &GroupVersionKind,
        known: Known,
    ) -> Result<Subject> {
        let meta = |name: &str| {
            let metadata = object.get("metadata");
            let text = metadata.and_then(|metadata| metadata[name].as_str());
            text.unwrap_or_default().to_owned()
        };
        let name = meta("name");
        let operation = Operation::from(flags.operation);
        if name.is_empty() && operation != Operation::Create {
            bail!(
                "the object needs a metadata.name for {}",
                operation.as_str()
            );
        }
        let namespace = namespace(flags, &known, &meta("namespace"), &name)?;
        let old = match &flags.old_object {
            Some(path) => Some(prepared(one(path)?, gvk)?),
            None => None,
        };
        Ok(Subject {
            operation,
            asked: known.asked,
            subresource: flags.subresource.clone(),
            object: prepared(object, gvk)?,
            name,
            namespace,
            old,
        })
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            operation: self.operation,
            asked: &self.asked.names,
            equivalents: &self.asked.equivalents,
            subresource: &self.subresource,
            name: &self.name,
            namespace: &self.namespace,
        }
    }

    /// The namespace whose labels count; empty outside of namespaces, and where the object itself says them.
    pub(super) fn namespace(&self) -> &str {
        match self.facts().has_namespace_in_object() {
            true => "",
            false => &self.namespace,
        }
    }

    /// What is written.
    pub(super) fn object(&self) -> Option<&Object> {
        match self.operation {
            Operation::Create | Operation::Update => Some(&self.object),
            Operation::Delete | Operation::Connect => None,
        }
    }

    /// What is there before.
    pub(super) fn old(&self) -> Option<&Object> {
        match self.operation {
            Operation::Update | Operation::Delete => self.old.as_ref().or(Some(&self.object)),
            Operation::Create | Operation::Connect => None,
        }
    }
}

/// A namespace counts as being in itself.
fn namespace(flags: &Explain, known: &Known, own: &str, name: &str) -> Result<String> {
    let resource = &known.asked.names.resource;
    if resource.group.is_empty() && resource.resource == "namespaces" {
        return Ok(name.to_owned());
    }
    match (known.is_namespaced, own, flags.namespace.as_deref()) {
        (false, "", _) => Ok(String::new()),
        (false, own, _) => bail!(
            "{} are not in namespaces, but the object is in {own:?}: remove metadata.namespace",
            resource.resource
        ),
        (true, "", said) => Ok(said.unwrap_or("default").to_owned()),
        (true, own, Some(said)) if own != said => {
            bail!("the object is in the namespace {own:?}, and --namespace says {said:?}")
        }
        (true, own, _) => Ok(own.to_owned()),
    }
}

fn one(path: &std::path::Path) -> Result<Object> {
    let mut objects = documents::read(path)?;
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

/// The object with the defaults that the server gives it. What the server would refuse for other reasons is not
/// looked at.
fn prepared(object: Object, gvk: &GroupVersionKind) -> Result<Object> {
    let table = Table::builtin();
    let kinds = rhumb_api::kinds::all();
    let kind = kinds
        .iter()
        .find(|kind| kind.group == gvk.group && kind.name == gvk.kind);
    let served = kind.and_then(|kind| {
        let mut versions = kind.versions.iter();
        versions.find(|served| served.version == gvk.version)
    });
    let Some(of) = served.and_then(|served| table.named(&served.schema)) else {
        return Ok(object);
    };
    let decoded = rhumb_schema::decode_value(table, of, &Value::Object(object), Options::default())
        .map_err(|error| anyhow!("the object cannot be read: {error}"))?;
    let mut object = decoded.object;
    let gates = Gates::default();
    let defaults = Defaults::new(table, rhumb_api::defaults::by_type_for(&gates))
        .context("the schema table is broken")?;
    defaults.apply(of, &mut object);
    Ok(object)
}

fn gvk_of(object: &Object) -> GroupVersionKind {
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

/// Finds what the object is sent to, if it is of a built-in kind.
fn find(object: &Object, flags: &Explain) -> Result<(GroupVersionKind, Option<Known>)> {
    let gvk = gvk_of(object);
    let kinds = rhumb_api::kinds::all();
    let mut found: Vec<(&Kind, Asked)> = Vec::new();
    for (kind, versions) in kinds.iter().zip(name_all(&kinds)) {
        let Some(at) = place(kind, &flags.subresource) else {
            continue;
        };
        let asked = versions.into_iter().filter_map(|mut asked| {
            let is_there = at < asked.len();
            is_there.then(|| asked.swap_remove(at))
        });
        found.extend(
            asked
                .filter(|asked| asked.names.kind == gvk)
                .map(|asked| (kind, asked)),
        );
    }
    if let Some(resource) = &flags.resource {
        found.retain(|(kind, _)| *resource == shown(kind));
    }
    if let [(kind, asked)] = &found[..] {
        let known = Known {
            is_namespaced: kind.is_namespaced(),
            asked: asked.clone(),
        };
        return Ok((gvk, Some(known)));
    }
    if !found.is_empty() {
        let names: Vec<String> = found.iter().map(|(kind, _)| shown(kind)).collect();
        bail!(
            "a {} may be sent to several resources; choose one with --resource: {}",
            gvk.kind,
            names.join(", ")
        );
    }
    let is_built_in = |kind: &&Kind| kind.group == gvk.group && kind.name == gvk.kind;
    match kinds.iter().find(is_built_in) {
        None => Ok((gvk, None)),
        Some(kind) => Err(misfit(kind, &gvk, flags)),
    }
}

/// Why an object of a built-in kind cannot be sent where the flags say.
fn misfit(kind: &Kind, gvk: &GroupVersionKind, flags: &Explain) -> anyhow::Error {
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
    if let Some(resource) = flags.resource.as_ref().filter(|it| **it != shown(kind)) {
        return anyhow!(
            "a {} is not sent to --resource {resource}, but to {}",
            kind.name,
            shown(kind)
        );
    }
    let all: Vec<&str> = kind.subresources.iter().map(|it| it.name).collect();
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

fn shown(kind: &Kind) -> String {
    match &*kind.group {
        "" => kind.plural.to_string(),
        group => format!("{}.{group}", kind.plural),
    }
}

/// A kind that is not built in: the server knows it, or the flags say its resource.
async fn elsewhere(
    gvk: &GroupVersionKind,
    flags: &Explain,
    source: &Source<'_>,
) -> Result<Known, Failure> {
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
        (None, Source::Files(_)) => return Err(Failure::Input(unknown())),
        (None, Source::Server(server)) => {
            let kind = KubeKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
            let found = pinned_kind(&server.client, &kind).await;
            let (resource, capabilities) = found.map_err(|_| Failure::Input(unknown()))?;
            (resource.plural, capabilities.scope == Scope::Namespaced)
        }
    };
    Ok(Known {
        asked: Asked {
            names: Names {
                resource: GroupVersionResource::new(gvk.group.clone(), gvk.version.clone(), plural),
                kind: gvk.clone(),
            },
            equivalents: Vec::new(),
        },
        is_namespaced,
    })
}
