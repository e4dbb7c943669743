//! The URL paths of a kind with the operations on each.

mod discovery;
mod subresource;

pub(crate) use discovery::{group_path, group_version_path, root_paths};

use rhumb_api::{Kind, KindVersion, Verb};
use rhumb_meta::GroupVersionKind;

use crate::names;
use crate::operation::{
    ACCEPTED, ANY_MEDIA_TYPE, CREATED, LIST_MEDIA_TYPES, OBJECT_MEDIA_TYPES, OK, Operation,
    OperationBody, PATCH_MEDIA_TYPES, Parameter, ResponseContent, SuccessResponse,
};
use crate::parameters::{
    DELETE, DELETE_COLLECTION, FORCE, LIST, NAMESPACE, PRETTY, WRITE, name_parameter,
};

/// A path with its operations.
pub(crate) type PathItem = (String, Vec<Operation>);

/// Generates the paths of a kind in one of its versions.
pub(crate) struct KindPaths<'a> {
    pub(crate) all_kinds: &'a [Kind],
    pub(crate) kind: &'a Kind,
    pub(crate) served: &'a KindVersion,
}

impl KindPaths<'_> {
    pub(crate) fn all(&self) -> Vec<PathItem> {
        let mut paths = Vec::new();
        let root = format!(
            "/{}",
            names::group_version_root(&self.kind.group, &self.served.version)
        );
        let plural = &self.kind.plural;
        let collection = if self.kind.is_namespaced() {
            if self.has(Verb::List) {
                paths.push((format!("{root}/{plural}"), vec![self.list(true)]));
            }
            format!("/namespaces/{{namespace}}/{plural}")
        } else {
            format!("/{plural}")
        };
        let item = format!("{collection}/{{name}}");
        paths.push((format!("{root}{collection}"), self.collection_operations()));
        paths.push((format!("{root}{item}"), self.item_operations()));
        for subresource in &self.kind.subresources {
            paths.extend(self.subresource_paths(&format!("{root}{item}"), subresource));
        }
        if self.has(Verb::Watch) {
            if self.kind.is_namespaced() {
                paths.push((
                    format!("{root}/watch/{plural}"),
                    vec![self.watch_list(true)],
                ));
            }
            paths.push((
                format!("{root}/watch{collection}"),
                vec![self.watch_list(false)],
            ));
            paths.push((format!("{root}/watch{item}"), vec![self.watch()]));
        }
        paths.retain(|(_, operations)| !operations.is_empty());
        paths
    }

    fn has(&self, verb: Verb) -> bool {
        self.kind.verbs.contains(&verb)
    }

    fn collection_operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        if self.has(Verb::List) {
            operations.push(self.list(false));
        }
        if self.has(Verb::Create) {
            let description = format!("create {}", with_article(&self.kind.name));
            let mut create = self.operation("post", "create", "post", &description);
            create.parameters.extend_from_slice(WRITE);
            create.body = Some(object_body(&self.served.schema));
            create.success_responses = &[OK, CREATED, ACCEPTED];
            operations.push(create);
        }
        if self.has(Verb::DeleteCollection) {
            operations.push(self.delete_collection());
        }
        operations
    }

    fn item_operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for (verb, operation) in [
            (Verb::Get, self.read("", "")),
            (Verb::Update, self.replace("", "")),
            (Verb::Patch, self.patch("", "")),
            (Verb::Delete, self.delete()),
        ] {
            if self.has(verb) {
                operations.push(operation);
            }
        }
        for operation in &mut operations {
            operation.parameters.push(name_parameter(&self.kind.name));
        }
        operations
    }

    /// An operation with only the common parameters, which returns an object of the kind.
    fn operation(
        &self,
        method: &'static str,
        verb: &str,
        action: &'static str,
        description: &str,
    ) -> Operation {
        let mut parameters = vec![PRETTY];
        if self.kind.is_namespaced() {
            parameters.push(NAMESPACE);
        }
        Operation {
            method,
            id: self.id(verb, ""),
            description: description.to_string(),
            tag: self.tag(),
            action: Some((action, self.gvk())),
            parameters,
            body: None,
            success_responses: &[OK],
            content: ResponseContent::Object(self.served.schema.to_string()),
            produces: OBJECT_MEDIA_TYPES,
            consumes: ANY_MEDIA_TYPE,
        }
    }

    fn read(&self, of: &str, suffix: &str) -> Operation {
        let description = format!("read {of}the {}", self.kind.name);
        let mut read = self.operation("get", "read", "get", &description);
        read.id.push_str(suffix);
        read
    }

    fn replace(&self, of: &str, suffix: &str) -> Operation {
        let description = format!("replace {of}the {}", self.kind.name);
        let mut replace = self.operation("put", "replace", "put", &description);
        replace.id.push_str(suffix);
        replace.parameters.extend_from_slice(WRITE);
        replace.body = Some(object_body(&self.served.schema));
        replace.success_responses = &[OK, CREATED];
        replace
    }

    fn patch(&self, of: &str, suffix: &str) -> Operation {
        let description = format!("change parts of {of}the {}", self.kind.name);
        let mut patch = self.operation("patch", "patch", "patch", &description);
        patch.id.push_str(suffix);
        patch.parameters.extend_from_slice(WRITE);
        patch.parameters.push(FORCE);
        patch.body = Some(OperationBody {
            schema: names::meta_v1_type("Patch"),
            required: true,
            media_types: PATCH_MEDIA_TYPES,
        });
        patch.success_responses = &[OK, CREATED];
        patch
    }

    fn delete(&self) -> Operation {
        let description = format!("delete {}", with_article(&self.kind.name));
        let mut delete = self.operation("delete", "delete", "delete", &description);
        delete.parameters.extend_from_slice(DELETE);
        delete.body = Some(delete_options_body());
        delete.success_responses = const { &[OK, ACCEPTED] as &[SuccessResponse] };
        if !delete_returns_object(self.kind) {
            delete.content = ResponseContent::Object(names::meta_v1_type("Status"));
        }
        delete
    }

    fn delete_collection(&self) -> Operation {
        let description = format!("delete all selected {} objects", self.kind.name);
        let mut delete = self.operation("delete", "delete", "deletecollection", &description);
        delete.id = self.id("delete", "Collection");
        delete.parameters.extend_from_slice(DELETE);
        delete.parameters.extend_from_slice(DELETE_COLLECTION);
        delete.body = Some(delete_options_body());
        delete.content = ResponseContent::Object(names::meta_v1_type("Status"));
        delete
    }

    fn list(&self, all_namespaces: bool) -> Operation {
        let or_watch = if self.has(Verb::Watch) {
            " or watch"
        } else {
            ""
        };
        let description = format!("list{or_watch} {} objects", self.kind.name);
        let mut list = self.operation("get", "list", "list", &description);
        list.content = ResponseContent::Object(format!("{}List", self.served.schema));
        list.produces = LIST_MEDIA_TYPES;
        list.parameters.extend_from_slice(LIST);
        self.for_all_namespaces(list, "list", "", all_namespaces)
    }

    fn watch_list(&self, all_namespaces: bool) -> Operation {
        let description = format!(
            "watch {} objects; deprecated: list them with the parameter watch",
            self.kind.name
        );
        let mut watch = self.operation("get", "watch", "watchlist", &description);
        watch.id.push_str("List");
        make_watch(&mut watch);
        self.for_all_namespaces(watch, "watch", "List", all_namespaces)
    }

    fn watch(&self) -> Operation {
        let description = format!(
            "watch one {}; deprecated: list with the parameters watch and fieldSelector",
            self.kind.name
        );
        let mut watch = self.operation("get", "watch", "watch", &description);
        make_watch(&mut watch);
        watch.parameters.push(name_parameter(&self.kind.name));
        watch
    }

    fn for_all_namespaces(
        &self,
        mut operation: Operation,
        verb: &str,
        suffix: &str,
        all_namespaces: bool,
    ) -> Operation {
        if all_namespaces {
            operation.id = format!(
                "{verb}{}{}{suffix}ForAllNamespaces",
                self.group_version(),
                self.kind.name
            );
            operation
                .parameters
                .retain(|parameter: &Parameter| *parameter != NAMESPACE);
        }
        operation
    }

    /// The operation id such as `readCoreV1NamespacedPod`, with `between` inserted after the version.
    fn id(&self, verb: &str, between: &str) -> String {
        let namespaced = if self.kind.is_namespaced() {
            "Namespaced"
        } else {
            ""
        };
        format!(
            "{verb}{}{between}{namespaced}{}",
            self.group_version(),
            self.kind.name
        )
    }

    fn group_version(&self) -> String {
        names::group_operation_id(&self.kind.group) + &names::capitalize(&self.served.version)
    }

    fn tag(&self) -> String {
        format!(
            "{}_{}",
            names::group_tag(&self.kind.group),
            self.served.version
        )
    }

    fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(
            self.kind.group.clone(),
            self.served.version.clone(),
            self.kind.name.clone(),
        )
    }
}

/// Whether upstream documents a delete as returning the object rather than a Status.
fn delete_returns_object(kind: &Kind) -> bool {
    match kind.group.as_ref() {
        "" => matches!(
            kind.name.as_ref(),
            "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Pod"
                | "PodTemplate"
                | "ResourceQuota"
                | "Service"
                | "ServiceAccount"
        ),
        "resource.k8s.io" => true,
        "storage.k8s.io" => kind.name != "CSIStorageCapacity",
        _ => false,
    }
}

fn make_watch(operation: &mut Operation) {
    operation.content = ResponseContent::Object(names::meta_v1_type("WatchEvent"));
    operation.produces = LIST_MEDIA_TYPES;
    operation.parameters.extend_from_slice(LIST);
}

fn object_body(schema: &str) -> OperationBody {
    OperationBody {
        schema: schema.to_string(),
        required: true,
        media_types: ANY_MEDIA_TYPE,
    }
}

fn delete_options_body() -> OperationBody {
    OperationBody {
        schema: names::meta_v1_type("DeleteOptions"),
        required: false,
        media_types: ANY_MEDIA_TYPE,
    }
}

fn with_article(noun: &str) -> String {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        noun.to_string()
    } else if noun.starts_with(['A', 'E', 'I', 'O', 'U']) {
        format!("an {noun}")
    } else {
        format!("a {noun}")
    }
}
