//! The paths of subresources, including the CONNECT subresources (exec, proxy, ...).

use rhumb_api::{Subresource, SubresourceKind, Verb};
use rhumb_meta::GroupVersionKind;

use super::{KindPaths, PathItem, object_body};
use crate::names;
use crate::operation::{
    ACCEPTED, ANY_MEDIA_TYPE, CREATED, LOG_MEDIA_TYPES, OK, Operation, Parameter, ResponseContent,
};
use crate::parameters::{LOG, PATH, PRETTY, WRITE, connect_parameters, name_parameter};

impl KindPaths<'_> {
    pub(super) fn subresource_paths(&self, item: &str, subresource: &Subresource) -> Vec<PathItem> {
        let path = format!("{item}/{}", subresource.name);
        match (&subresource.kind, &subresource.object) {
            (SubresourceKind::NodeProxied, Some(options)) => {
                self.connect_paths(path, subresource, options)
            }
            (SubresourceKind::NodeProxied, None) => vec![(path, vec![self.log(subresource)])],
            _ => vec![(path, self.object_operations(subresource))],
        }
    }

    fn object_operations(&self, subresource: &Subresource) -> Vec<Operation> {
        let of = format!("{} of ", subresource.name);
        let suffix = names::capitalize(&subresource.name);
        let mut operations: Vec<Operation> = subresource
            .verbs
            .iter()
            .filter_map(|verb| match verb {
                Verb::Get => Some(self.read(&of, &suffix)),
                Verb::Update => Some(self.replace(&of, &suffix)),
                Verb::Patch => Some(self.patch(&of, &suffix)),
                Verb::Create => Some(self.create_subresource(&subresource.name, &suffix)),
                _ => None,
            })
            .collect();
        let gvk = subresource.object.clone().unwrap_or_else(|| self.gvk());
        for operation in &mut operations {
            operation.parameters.push(name_parameter(&gvk.kind));
            if subresource.object.is_some() {
                self.set_object_kind(operation, &gvk);
            }
        }
        operations
    }

    /// Sets another kind as the request and response object of an operation.
    fn set_object_kind(&self, operation: &mut Operation, gvk: &GroupVersionKind) {
        let schema = names::schema_name(self.all_kinds, gvk);
        if let Some(body) = &mut operation.body
            && body.schema == *self.served.schema
        {
            body.schema.clone_from(&schema);
        }
        operation.content = ResponseContent::Object(schema);
        if let Some((_, of)) = &mut operation.action {
            of.clone_from(gvk);
        }
    }

    fn create_subresource(&self, name: &str, suffix: &str) -> Operation {
        let description = format!("create {name} of the {}", self.kind.name);
        let mut create = self.operation("post", "create", "post", &description);
        create.id.push_str(suffix);
        create.parameters.extend_from_slice(WRITE);
        create.body = Some(object_body(&self.served.schema));
        create.success_responses = &[OK, CREATED, ACCEPTED];
        create
    }

    fn log(&self, subresource: &Subresource) -> Operation {
        let of = format!("{} of ", subresource.name);
        let mut log = self.read(&of, &names::capitalize(&subresource.name));
        log.parameters.extend_from_slice(LOG);
        log.parameters.push(name_parameter(&self.kind.name));
        log.content = ResponseContent::Text;
        log.produces = LOG_MEDIA_TYPES;
        log
    }

    fn connect_paths(
        &self,
        path: String,
        subresource: &Subresource,
        options: &GroupVersionKind,
    ) -> Vec<PathItem> {
        let is_proxy = subresource.name == "proxy";
        let methods: Vec<&'static str> = subresource
            .verbs
            .iter()
            .filter_map(|verb| match verb {
                Verb::Create => Some("post"),
                Verb::Delete => Some("delete"),
                Verb::Get => Some("get"),
                Verb::Patch => Some("patch"),
                Verb::Update => Some("put"),
                _ => None,
            })
            .chain(
                is_proxy
                    .then_some(["head", "options"])
                    .into_iter()
                    .flatten(),
            )
            .collect();
        let connect = |with: &str, more: &[Parameter]| {
            methods
                .iter()
                .map(|method| {
                    let mut connect = self.connect(method, &subresource.name, options);
                    connect.id.push_str(with);
                    connect.parameters.extend_from_slice(more);
                    connect
                })
                .collect::<Vec<_>>()
        };
        let mut paths = vec![(path.clone(), connect("", &[]))];
        if is_proxy {
            paths.push((format!("{path}/{{path}}"), connect("WithPath", &[PATH])));
        }
        paths
    }

    fn connect(&self, method: &'static str, name: &str, options: &GroupVersionKind) -> Operation {
        let upper = method.to_ascii_uppercase();
        let description = format!(
            "connect {upper} requests to {name} of the {}",
            self.kind.name
        );
        let mut connect = self.operation(method, "connect", "connect", &description);
        connect.id = self.id("connect", &names::capitalize(method)) + &names::capitalize(name);
        connect.action = Some(("connect", options.clone()));
        connect.parameters.retain(|parameter| *parameter != PRETTY);
        connect.parameters.push(name_parameter(&options.kind));
        connect
            .parameters
            .extend_from_slice(connect_parameters(name));
        connect.content = ResponseContent::Text;
        connect.produces = ANY_MEDIA_TYPE;
        connect
    }
}
