//! The declaration of a kind.

mod writes;

use std::borrow::Cow;
use std::sync::Arc;

use rhumb_meta::{GroupResource, GroupVersionKind};

use crate::gates::Feature;
use crate::rules::NoRules;
use crate::table::Printer;
use crate::{Gates, Object, Rules, printers};

pub use writes::{KnownFieldsOnly, Writes};

/// All that the server knows of a kind. Made at start for built-in kinds, at run time for custom ones.
#[derive(Debug, Clone)]
pub struct Kind {
    pub group: Cow<'static, str>,
    pub name: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub singular: Cow<'static, str>,
    pub short_names: Vec<Cow<'static, str>>,
    pub categories: Vec<Cow<'static, str>>,
    pub scope: Scope,
    pub verbs: &'static [Verb],
    /// The versions it is served in; the preferred one first.
    pub versions: Vec<Served>,
    /// The path below the store's root, as upstream lays it out in etcd; `None` for kinds that are not stored.
    pub storage: Option<Cow<'static, str>>,
    pub names: NameRule,
    /// Whether a finalizer without a domain must be one that Kubernetes knows: so for built-in kinds.
    pub known_finalizers: bool,
    pub generation: Generation,
    /// The kind of another group whose objects these are: stored in its form, by the conversion of each version.
    /// Rules and selectable fields read that form too.
    pub stored_as: Option<GroupVersionKind>,
    pub selectable: Vec<Selectable>,
    /// Those of the selectable fields that few objects share a value of: lists by them look at no others.
    pub indexed: &'static [&'static str],
    /// What stored objects are owed that were written without it.
    pub mend: Option<Mend>,
    pub subresources: Vec<Subresource>,
    /// For a kind that brings its own; see [`Kind::printer`].
    pub printer: Option<Printer>,
    pub writes: Writes,
    /// What every client of the kind is warned of.
    pub deprecation: Option<&'static str>,
    pub rules: Arc<dyn Rules>,
}

/// Puts a stored object right as it is read; tells whether anything was wrong with it.
pub type Mend = fn(&mut Object, &Gates) -> bool;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Watch => "watch",
        }
    }
}

/// A version of a kind. The first of a kind's versions that has no conversion is the one that is stored.
#[derive(Debug, Clone)]
pub struct Served {
    pub version: Cow<'static, str>,
    /// Its type in the schema table.
    pub schema: Cow<'static, str>,
    /// To and from the stored version; `None` for the stored version itself.
    pub conversion: Option<Conversion>,
}

#[derive(Debug, Clone, Copy)]
pub struct Conversion {
    pub to_stored: fn(&mut Object),
    pub from_stored: fn(&mut Object),
}

/// What a name must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    DnsSubdomain,
    DnsLabel,
    /// A DNS label as of RFC 1035: it begins with a letter.
    DnsLabel1035,
    /// Anything that can be a segment of a path.
    PathSegment,
    /// The kind's rules check it.
    Own,
}

/// What counts as a change of generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    None,
    /// It grows with every change of these top-level fields.
    Of(&'static [&'static str]),
    /// Set to 1 at creation, and never again.
    Constant,
}
/// A field that field selectors may ask for, beside metadata.name and metadata.namespace.
#[derive(Debug, Clone, Copy)]
pub struct Selectable {
    pub name: &'static str,
    pub value: Selected,
}

/// What the value of a selectable field is, by paths such as `spec.nodeName` or `type`: at most two names deep.
#[derive(Debug, Clone, Copy)]
pub enum Selected {
    /// A text; empty if it is absent.
    Text(&'static str),
    /// The first of several texts that is not empty.
    FirstOf(&'static [&'static str]),
    /// Whether something is true.
    Flag(&'static str),
    /// A number; 0 if it is absent.
    Count(&'static str),
}

#[derive(Debug, Clone)]
pub struct Subresource {
    pub name: &'static str,
    pub kind: SubresourceKind,
    pub verbs: &'static [Verb],
    /// What is sent to it and comes back, if not the kind itself.
    pub object: Option<GroupVersionKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubresourceKind {
    Status,
    /// Paths below the object, with dots.
    Scale {
        replicas: &'static str,
        status_replicas: &'static str,
        selector: &'static str,
    },
    Finalize,
    Binding,
    Eviction,
    Token,
    EphemeralContainers,
    Resize,
    Approval,
    /// Only a node can answer it (log, exec, attach, portforward, proxy).
    Node,
}

const ALL_VERBS: &[Verb] = &[
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];

/// What an update of the status leaves alone where it may not change metadata.
pub(crate) const ALL_OF_METADATA: &[&str] =
    &["labels", "annotations", "finalizers", "ownerReferences"];

const SUBRESOURCE_VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

impl Kind {
    /// A kind with all verbs, in one version, with nothing special about it.
    pub fn new(
        scope: Scope,
        group: &'static str,
        version: &'static str,
        name: &'static str,
        plural: &'static str,
        schema: &'static str,
    ) -> Kind {
        Kind {
            group: group.into(),
            name: name.into(),
            plural: plural.into(),
            singular: name.to_ascii_lowercase().into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope,
            verbs: ALL_VERBS,
            versions: vec![Served {
                version: version.into(),
                schema: schema.into(),
                conversion: None,
            }],
            storage: Some(plural.into()),
            names: NameRule::DnsSubdomain,
            known_finalizers: true,
            generation: Generation::None,
            stored_as: None,
            selectable: Vec::new(),
            indexed: &[],
            mend: None,
            subresources: Vec::new(),
            printer: None,
            writes: Writes::default(),
            deprecation: None,
            rules: Arc::new(NoRules),
        }
    }

    pub fn short(mut self, names: &[&'static str]) -> Kind {
        self.short_names = names.iter().map(|&name| name.into()).collect();
        self
    }

    pub fn category(mut self, name: &'static str) -> Kind {
        self.categories.push(name.into());
        self
    }

    pub fn verbs(mut self, verbs: &'static [Verb]) -> Kind {
        self.verbs = verbs;
        self
    }

    pub fn storage(mut self, path: &'static str) -> Kind {
        self.storage = Some(path.into());
        self
    }

    pub fn not_stored(mut self) -> Kind {
        self.storage = None;
        self
    }

    pub fn names(mut self, rule: NameRule) -> Kind {
        self.names = rule;
        self
    }

    /// A finalizer without a domain may be any.
    pub fn any_finalizers(mut self) -> Kind {
        self.known_finalizers = false;
        self
    }

    pub fn generation(mut self, generation: Generation) -> Kind {
        self.generation = generation;
        self
    }

    /// An update must say which version it is based on.
    pub fn updates_need_version(mut self) -> Kind {
        self.writes.unconditional_update = false;
        self
    }

    /// Whoever makes such an object knows its status: a node that registers itself.
    pub fn create_with_status(mut self) -> Kind {
        self.writes.create_with_status = true;
        self
    }

    /// An update of the status leaves these fields of the metadata alone.
    pub fn status_keeps(mut self, fields: &'static [&'static str]) -> Kind {
        self.writes.status_keeps = fields;
        self
    }

    /// An update of what is not there makes it.
    pub fn updates_create(mut self) -> Kind {
        self.writes.create_on_update = true;
        self
    }

    /// Its objects are those of another group's kind, and are stored in that form.
    pub fn stored_as(
        mut self,
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        conversion: Conversion,
    ) -> Kind {
        self.stored_as = Some(GroupVersionKind::new(group, version, kind));
        for served in &mut self.versions {
            served.conversion = Some(conversion);
        }
        self
    }

    pub fn selectable(mut self, fields: &'static [Selectable]) -> Kind {
        self.selectable = fields.to_vec();
        self
    }

    /// What every reader finds in an object, whatever is stored.
    pub fn mend(mut self, mend: Mend) -> Kind {
        self.mend = Some(mend);
        self
    }

    /// Selectable fields that lists find objects by, without looking at all of them.
    pub fn indexed(mut self, fields: &'static [&'static str]) -> Kind {
        self.indexed = fields;
        self
    }

    pub fn rules(mut self, rules: impl Rules + 'static) -> Kind {
        self.rules = Arc::new(rules);
        self
    }

    /// Warns every client that there is something better.
    pub fn deprecated(mut self, warning: &'static str) -> Kind {
        self.deprecation = Some(warning);
        self
    }

    pub fn returns_deleted(mut self) -> Kind {
        self.writes.returns_deleted = true;
        self
    }

    pub fn orphans_dependents(mut self) -> Kind {
        self.writes.orphans_dependents = true;
        self
    }

    pub fn ignores_dependents(mut self) -> Kind {
        self.writes.ignores_dependents = true;
        self
    }

    /// Whoever leaves orphans without having said so is told.
    pub fn warns_of_orphans(mut self, warning: &'static str) -> Kind {
        self.writes.orphan_warning = Some(warning);
        self
    }

    /// An object without some of its fields would mean something else than its author does.
    pub fn known_fields_only(mut self, gate: Feature, reason: &'static str) -> Kind {
        self.writes.known_fields_only = Some(KnownFieldsOnly { gate, reason });
        self
    }

    /// Another version it is served in.
    pub fn also(
        mut self,
        version: &'static str,
        schema: &'static str,
        conversion: Conversion,
    ) -> Kind {
        self.versions.push(Served {
            version: version.into(),
            schema: schema.into(),
            conversion: Some(conversion),
        });
        self
    }

    pub fn status(self) -> Kind {
        self.subresource("status", SubresourceKind::Status, SUBRESOURCE_VERBS)
    }

    pub fn scale(
        self,
        replicas: &'static str,
        status_replicas: &'static str,
        selector: &'static str,
    ) -> Kind {
        let kind = SubresourceKind::Scale {
            replicas,
            status_replicas,
            selector,
        };
        self.subresource("scale", kind, SUBRESOURCE_VERBS)
            .speaks("autoscaling", "v1", "Scale")
    }

    pub fn subresource(
        mut self,
        name: &'static str,
        kind: SubresourceKind,
        verbs: &'static [Verb],
    ) -> Kind {
        self.subresources.push(Subresource {
            name,
            kind,
            verbs,
            object: None,
        });
        self
    }

    /// The last subresource takes and gives objects of another kind.
    pub fn speaks(
        mut self,
        group: &'static str,
        version: &'static str,
        kind: &'static str,
    ) -> Kind {
        if let Some(last) = self.subresources.last_mut() {
            last.object = Some(GroupVersionKind::new(group, version, kind));
        }
        self
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    pub fn has_status(&self) -> bool {
        self.subresources
            .iter()
            .any(|subresource| subresource.kind == SubresourceKind::Status)
    }

    /// Why unknown fields are refused whatever the client asks for, if they are.
    pub fn refuses_unknown_fields(&self, gates: &Gates) -> Option<&'static str> {
        let only = self.writes.known_fields_only?;
        gates.enabled(only.gate).then_some(only.reason)
    }

    pub fn served(&self, version: &str) -> Option<&Served> {
        self.versions
            .iter()
            .find(|served| served.version == version)
    }

    /// The version that is stored; `None` if objects are stored as another kind.
    pub fn stored(&self) -> Option<&Served> {
        self.versions
            .iter()
            .find(|served| served.conversion.is_none())
    }

    /// Its own printer, or the one of that built-in kind, or the generic one.
    pub fn printer(&self) -> Printer {
        self.printer
            .or_else(|| printers::of(&self.group, &self.name))
            .unwrap_or(printers::GENERIC)
    }

    /// Whether tables have columns of this kind's own.
    pub fn has_own_printer(&self) -> bool {
        self.printer.is_some() || printers::of(&self.group, &self.name).is_some()
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}
