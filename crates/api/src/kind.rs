//! [`Kind`], the declaration of an API kind: names, scope, verbs, versions, subresources, storage and strategy.

mod selectable_field;
mod write_behavior;

use std::borrow::Cow;
use std::sync::Arc;

use rhumb_meta::{GroupResource, GroupVersionKind};

use crate::strategy::DefaultStrategy;
use crate::table::TablePrinter;
use crate::{FeatureGates, JsonObject, ResourceStrategy, printers};

pub use selectable_field::{FieldSource, SelectableField};
pub use write_behavior::{UnknownFieldRejection, WriteBehavior};

/// Everything the server knows about a kind. Built at startup for built-in kinds, at run time for custom resources.
#[derive(Debug, Clone)]
pub struct Kind {
    pub group: Cow<'static, str>,
    pub name: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub singular: Cow<'static, str>,
    pub short_names: Vec<Cow<'static, str>>,
    pub categories: Vec<Cow<'static, str>>,
    pub scope: ResourceScope,
    pub verbs: &'static [Verb],
    /// The served versions, preferred version first.
    pub versions: Vec<KindVersion>,
    /// The key prefix below the store's root, as in upstream's etcd layout; `None` for kinds that are not stored.
    pub storage: Option<Cow<'static, str>>,
    pub name_rule: NameRule,
    /// Whether an unqualified finalizer must be a standard one; true for built-in kinds.
    pub requires_known_finalizers: bool,
    pub generation: GenerationPolicy,
    /// The kind of another group that these objects are stored as; each version converts to and from it.
    /// The strategy and the selectable fields see the stored form.
    pub stored_as: Option<GroupVersionKind>,
    pub selectable: Vec<SelectableField>,
    /// Selectable fields with an index: a list by one of them reads only the matching objects.
    pub indexed: Vec<Cow<'static, str>>,
    /// Corrects stored objects on read that were written without a later default.
    pub read_fixup: Option<ReadFixup>,
    pub subresources: Vec<Subresource>,
    /// The kind's own table printer, if it declares one; see [`Kind::printer`].
    pub printer: Option<TablePrinter>,
    pub write_behavior: WriteBehavior,
    /// The warning that every request for the kind returns, if it is deprecated.
    pub deprecation: Option<Cow<'static, str>>,
    pub strategy: Arc<dyn ResourceStrategy>,
}

/// Corrects a stored object as it is read; returns whether it changed the object.
pub type ReadFixup = fn(&mut JsonObject, &FeatureGates) -> bool;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceScope {
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

/// A served version of a kind. The first version without a conversion is the storage version.
#[derive(Debug, Clone)]
pub struct KindVersion {
    pub version: Cow<'static, str>,
    /// The name of its type in the schema table.
    pub schema: Cow<'static, str>,
    /// Converts to and from the storage version; `None` for the storage version itself.
    pub conversion: Option<VersionConversion>,
}

#[derive(Debug, Clone, Copy)]
pub struct VersionConversion {
    pub to_stored: fn(&mut JsonObject),
    pub from_stored: fn(&mut JsonObject),
}

/// The format that `metadata.name` must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    DnsSubdomain,
    DnsLabel,
    /// A DNS label by RFC 1035, which must begin with a letter.
    DnsLabel1035,
    /// Any valid segment of a URL path.
    PathSegment,
    /// The kind's strategy validates the name.
    KindSpecific,
}

/// When `metadata.generation` is incremented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationPolicy {
    /// The kind has no generation.
    None,
    /// Incremented when one of these top-level fields changes.
    ChangesTo(&'static [&'static str]),
    /// Set to 1 on create and never incremented.
    AlwaysOne,
}

#[derive(Debug, Clone)]
pub struct Subresource {
    pub name: Cow<'static, str>,
    pub kind: SubresourceKind,
    pub verbs: &'static [Verb],
    /// The kind of its request and response objects, if not the parent kind.
    pub object: Option<GroupVersionKind>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubresourceKind {
    Status,
    /// Dotted paths within the object.
    Scale {
        replicas: Cow<'static, str>,
        status_replicas: Cow<'static, str>,
        selector: Cow<'static, str>,
    },
    Finalize,
    Binding,
    Eviction,
    Token,
    EphemeralContainers,
    Resize,
    Approval,
    /// Served by a node's kubelet (log, exec, attach, portforward, proxy).
    NodeProxied,
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

/// The client-writable metadata fields, for kinds whose status updates may not change metadata.
pub(crate) const USER_METADATA_FIELDS: &[&str] =
    &["labels", "annotations", "finalizers", "ownerReferences"];

const SUBRESOURCE_VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

impl Kind {
    /// A kind with all verbs, one version and default behavior.
    pub fn new(
        scope: ResourceScope,
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        name: impl Into<Cow<'static, str>>,
        plural: impl Into<Cow<'static, str>>,
        schema: impl Into<Cow<'static, str>>,
    ) -> Kind {
        let (name, plural) = (name.into(), plural.into());
        Kind {
            group: group.into(),
            singular: name.to_ascii_lowercase().into(),
            name,
            short_names: Vec::new(),
            categories: Vec::new(),
            scope,
            verbs: ALL_VERBS,
            versions: vec![KindVersion {
                version: version.into(),
                schema: schema.into(),
                conversion: None,
            }],
            storage: Some(plural.clone()),
            plural,
            name_rule: NameRule::DnsSubdomain,
            requires_known_finalizers: true,
            generation: GenerationPolicy::None,
            stored_as: None,
            selectable: Vec::new(),
            indexed: Vec::new(),
            read_fixup: None,
            subresources: Vec::new(),
            printer: None,
            write_behavior: WriteBehavior::default(),
            deprecation: None,
            strategy: Arc::new(DefaultStrategy),
        }
    }

    pub fn short_names(mut self, names: &[&'static str]) -> Kind {
        self.short_names = names.iter().map(|&name| name.into()).collect();
        self
    }

    pub fn category(mut self, name: impl Into<Cow<'static, str>>) -> Kind {
        self.categories.push(name.into());
        self
    }

    pub fn verbs(mut self, verbs: &'static [Verb]) -> Kind {
        self.verbs = verbs;
        self
    }

    pub fn storage(mut self, path: impl Into<Cow<'static, str>>) -> Kind {
        self.storage = Some(path.into());
        self
    }

    pub fn not_stored(mut self) -> Kind {
        self.storage = None;
        self
    }

    pub fn names(mut self, rule: NameRule) -> Kind {
        self.name_rule = rule;
        self
    }

    /// Accepts any unqualified finalizer.
    pub fn allow_any_finalizer(mut self) -> Kind {
        self.requires_known_finalizers = false;
        self
    }

    pub fn generation(mut self, generation: GenerationPolicy) -> Kind {
        self.generation = generation;
        self
    }

    /// Updates must specify a resourceVersion (upstream: `AllowUnconditionalUpdate` is false).
    pub fn requires_resource_version(mut self) -> Kind {
        self.write_behavior.unconditional_update = false;
        self
    }

    /// Creates keep the status that the client sends, as when a node registers itself.
    pub fn create_with_status(mut self) -> Kind {
        self.write_behavior.create_with_status = true;
        self
    }

    /// Status updates do not change these metadata fields.
    pub fn status_update_preserves(mut self, fields: &'static [&'static str]) -> Kind {
        self.write_behavior.status_update_preserves = fields;
        self
    }

    /// An update of an object that does not exist creates it (upstream: `AllowCreateOnUpdate`).
    pub fn creates_on_update(mut self) -> Kind {
        self.write_behavior.create_on_update = true;
        self
    }

    /// Stores the objects as a kind of another group.
    pub fn stored_as(
        mut self,
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        conversion: VersionConversion,
    ) -> Kind {
        self.stored_as = Some(GroupVersionKind::new(group, version, kind));
        for served in &mut self.versions {
            served.conversion = Some(conversion);
        }
        self
    }

    pub fn selectable(mut self, fields: &[SelectableField]) -> Kind {
        self.selectable = fields.to_vec();
        self
    }

    /// Sets the correction that is applied to stored objects on read.
    pub fn read_fixup(mut self, mend: ReadFixup) -> Kind {
        self.read_fixup = Some(mend);
        self
    }

    /// Declares which selectable fields are indexed.
    pub fn indexed(mut self, fields: &'static [&'static str]) -> Kind {
        self.indexed = fields.iter().map(|&field| field.into()).collect();
        self
    }

    pub fn strategy(mut self, rules: impl ResourceStrategy + 'static) -> Kind {
        self.strategy = Arc::new(rules);
        self
    }

    /// Returns this deprecation warning with every request.
    pub fn deprecated(mut self, warning: impl Into<Cow<'static, str>>) -> Kind {
        self.deprecation = Some(warning.into());
        self
    }

    pub fn returns_deleted(mut self) -> Kind {
        self.write_behavior.returns_deleted = true;
        self
    }

    pub fn orphans_dependents(mut self) -> Kind {
        self.write_behavior.orphans_dependents = true;
        self
    }

    pub fn ignores_dependents(mut self) -> Kind {
        self.write_behavior.ignores_dependents = true;
        self
    }

    /// Words failed preconditions of a delete as upstream's storage layer does.
    pub fn storage_precondition_errors(mut self) -> Kind {
        self.write_behavior.storage_precondition_errors = true;
        self
    }

    /// Warns on a delete that orphans dependents without an explicit propagation policy.
    pub fn orphan_warning(mut self, warning: &'static str) -> Kind {
        self.write_behavior.orphan_warning = Some(warning);
        self
    }

    /// Rejects unknown fields while the gate is on: for kinds where dropping a field would change the meaning.
    pub fn reject_unknown_fields(mut self, rejection: UnknownFieldRejection) -> Kind {
        self.write_behavior.unknown_field_rejection = Some(rejection);
        self
    }

    /// Adds a served version.
    pub fn also_served_in(
        mut self,
        version: impl Into<Cow<'static, str>>,
        schema: impl Into<Cow<'static, str>>,
        conversion: VersionConversion,
    ) -> Kind {
        self.versions.push(KindVersion {
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
        replicas: impl Into<Cow<'static, str>>,
        status_replicas: impl Into<Cow<'static, str>>,
        selector: impl Into<Cow<'static, str>>,
    ) -> Kind {
        let kind = SubresourceKind::Scale {
            replicas: replicas.into(),
            status_replicas: status_replicas.into(),
            selector: selector.into(),
        };
        self.subresource("scale", kind, SUBRESOURCE_VERBS)
            .with_subresource_object("autoscaling", "v1", "Scale")
    }

    pub fn subresource(
        mut self,
        name: impl Into<Cow<'static, str>>,
        kind: SubresourceKind,
        verbs: &'static [Verb],
    ) -> Kind {
        self.subresources.push(Subresource {
            name: name.into(),
            kind,
            verbs,
            object: None,
        });
        self
    }

    /// Sets the kind of the request and response objects of the subresource added last.
    pub fn with_subresource_object(
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

    /// The reason why unknown fields are rejected regardless of `fieldValidation`; `None` if they are not.
    pub fn unknown_fields_rejection(&self, gates: &FeatureGates) -> Option<&'static str> {
        let only = self.write_behavior.unknown_field_rejection?;
        gates.enabled(only.gate).then_some(only.reason)
    }

    pub fn served_version(&self, version: &str) -> Option<&KindVersion> {
        self.versions
            .iter()
            .find(|served| served.version == version)
    }

    /// The storage version; `None` if objects are stored as another kind.
    pub fn storage_version(&self) -> Option<&KindVersion> {
        self.versions
            .iter()
            .find(|served| served.conversion.is_none())
    }

    /// The kind's own table printer, else the built-in one for its group and kind, else the generic one.
    pub fn printer(&self) -> TablePrinter {
        self.printer
            .or_else(|| printers::for_kind(&self.group, &self.name))
            .unwrap_or(printers::GENERIC)
    }

    /// Whether the kind has a table printer other than the generic one.
    pub fn has_own_printer(&self) -> bool {
        self.printer.is_some() || printers::for_kind(&self.group, &self.name).is_some()
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == ResourceScope::Namespaced
    }
}
