//! The paths of subresources.

use rhumb_api::{Subresource, SubresourceKind, Verb};
use rhumb_meta::GroupVersionKind;

use super::{Path, Paths, object};
use crate::names;
use crate::operation::{ACCEPTED, ANYTHING, CREATED, Content, LOGS, OK, Operation, Parameter};
use crate::parameters::{LOG, PATH, PRETTY, WRITE, name_of, of_connection};

impl Paths<'_> {
    pub(super) fn on_subresource(&self, item: &str, subresource: &Subresource) -> Vec<Path> {
        let path = format!("{item}/{}", subresource.name);
        match (subresource.kind, &subresource.object) {
            (SubresourceKind::Node, Some(options)) => self.connections(path, subresource, options),
            (SubresourceKind::Node, None) => vec![(path, vec![self.log(subresource)])],
            _ => vec![(path, self.on_object(subresource))],
        }
    }

    fn on_object(&self, subresource: &Subresource) -> Vec<Operation> {
        let of = format!("{} of ", subresource.name);
        let suffix = names::capital(subresource.name);
        let mut operations: Vec<Operation> = subresource
            .verbs
            .iter()
            .filter_map(|verb| match verb {
                Verb::Get => Some(self.read(&of, &suffix)),
                Verb::Update => Some(self.replace(&of, &suffix)),
                Verb::Patch => Some(self.patch(&of, &suffix)),
                Verb::Create => Some(self.create_below(subresource.name, &suffix)),
                _ => None,
            })
            .collect();
        let gvk = subresource.object.clone().unwrap_or_else(|| self.gvk());
        for operation in &mut operations {
            operation.parameters.push(name_of(&gvk.kind));
            if subresource.object.is_some() {
                self.speak(operation, &gvk);
            }
        }
        operations
    }

    /// Lets an operation take and give objects of another kind.
    fn speak(&self, operation: &mut Operation, gvk: &GroupVersionKind) {
        let schema = names::type_of(self.all_kinds, gvk);
        if let Some(body) = &mut operation.body
            && body.object == *self.served.schema
        {
            body.object.clone_from(&schema);
        }
        operation.content = Content::Object(schema);
        if let Some((_, of)) = &mut operation.action {
            of.clone_from(gvk);
        }
    }

    fn create_below(&self, name: &str, suffix: &str) -> Operation {
        let description = format!("create {name} of the {}", self.kind.name);
        let mut create = self.operation("post", "create", "post", &description);
        create.id.push_str(suffix);
        create.parameters.extend_from_slice(WRITE);
        create.body = Some(object(&self.served.schema));
        create.answers = &[OK, CREATED, ACCEPTED];
        create
    }

    fn log(&self, subresource: &Subresource) -> Operation {
        let of = format!("{} of ", subresource.name);
        let mut log = self.read(&of, &names::capital(subresource.name));
        log.parameters.extend_from_slice(LOG);
        log.parameters.push(name_of(&self.kind.name));
        log.content = Content::Text;
        log.produces = LOGS;
        log
    }

    fn connections(
        &self,
        path: String,
        subresource: &Subresource,
        options: &GroupVersionKind,
    ) -> Vec<Path> {
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
                    let mut connect = self.connect(method, subresource.name, options);
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
        connect.id = self.id("connect", &names::capital(method)) + &names::capital(name);
        connect.action = Some(("connect", options.clone()));
        connect.parameters.retain(|parameter| *parameter != PRETTY);
        connect.parameters.push(name_of(&options.kind));
        connect.parameters.extend_from_slice(of_connection(name));
        connect.content = Content::Text;
        connect.produces = ANYTHING;
        connect
    }
}
