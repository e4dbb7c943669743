//! A pod gets its node.

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, ObjectKey, Status};
use serde_json::Value;

use super::conditions::{self, status_of};
use crate::admission::Operation;
use crate::http::Reply;
use crate::objects::{Metadata, MetadataMut};
use crate::request::WriteOptions;
use crate::resources::codec::Expected;
use crate::resources::create::place_in_namespace;
use crate::resources::write::{Change, Current, Edit};
use crate::resources::{Call, Claim};

const KIND: &str = "Binding";

/// POST to `pods/<name>/binding`.
pub(super) async fn bind(call: &Call<'_>) -> Result<Reply, Status> {
    bind_pod(call, call, call.name()).await
}

/// POST to `bindings`: the pod is the one that the binding is named after.
pub(crate) async fn bind_collection(call: &Call<'_>) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, "CreateOptions")?;
    let binding = call.decode(call.expected(), options.field_validation)?;
    let on_pods = call.on("", "pods").ok_or_else(|| call.not_found())?;
    bind_pod(call, &on_pods, binding.name()).await
}

/// `asked` is the request as it came: admission sees that one.
async fn bind_pod(asked: &Call<'_>, call: &Call<'_>, name: &str) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, "CreateOptions")?;
    let expected = Expected {
        api_version: "v1",
        kind: KIND,
        schema: call.api.type_named("io.k8s.api.core.v1.Binding")?,
    };
    let mut binding = call.decode(expected, options.field_validation)?;
    if binding.name() != name {
        return Err(Status::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    place_in_namespace(call, &mut binding)?;
    let attributes = asked.attributes(Operation::Create, None, options.dry_run);
    let chain = &call.api.admission;
    chain.mutate(&attributes, Some(&mut binding)).await?;
    check(&binding, name)?;
    chain.validate(&attributes, Some(&binding)).await?;
    let key = ObjectKey::new(call.namespace(), name).map_err(|_| call.not_found())?;
    call.change(
        &key,
        options.dry_run,
        &Bind {
            call,
            binding: &binding,
        },
    )
    .await?;
    super::created(call)
}

fn node_of(binding: &Object) -> &str {
    binding
        .get("target")
        .and_then(|target| target.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn check(binding: &Object, name: &str) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    let kind = binding
        .get("target")
        .and_then(|target| target.get("kind"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        errors.push(Error::not_supported(
            &Path::new("target.kind"),
            kind,
            &["Node", "<empty>"],
        ));
    }
    if node_of(binding).is_empty() {
        errors.push(Error::required(&Path::new("target.name"), ""));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("", KIND), name, &errors))
}

struct Bind<'a> {
    call: &'a Call<'a>,
    binding: &'a Object,
}

#[async_trait]
impl Edit for Bind<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        let mut pod = current.object.clone();
        let conflict = |message: String| {
            Status::conflict(
                &rhumb_meta::GroupResource::new("", "pods/binding"),
                pod.name(),
                message,
            )
        };
        let uid = self.binding.uid();
        if !uid.is_empty() && uid != pod.uid() {
            return Err(self.precondition_failed(
                &pod,
                format_args!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    pod.uid()
                ),
            ));
        }
        let version = self.binding.resource_version();
        if !version.is_empty() && version != current.revision.to_string() {
            return Err(self.precondition_failed(&pod, format_args!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                current.revision
            )));
        }
        if pod.is_deleting() {
            return Err(conflict(format!(
                "pod {} is being deleted, cannot be assigned to a host",
                pod.name()
            )));
        }
        let spec = pod
            .get("spec")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let assigned = spec
            .get("nodeName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !assigned.is_empty() {
            return Err(conflict(format!(
                "pod {} is already assigned to node {assigned:?}",
                pod.name()
            )));
        }
        let gated = spec
            .get("schedulingGates")
            .and_then(Value::as_array)
            .is_some_and(|gates| !gates.is_empty());
        if gated {
            return Err(conflict(format!(
                "pod {} has non-empty .spec.schedulingGates",
                pod.name()
            )));
        }
        self.assign(&mut pod, spec)?;
        Ok(Change::Put(pod, Claim::default()))
    }

    fn is_conditional(&self) -> bool {
        false
    }
}

impl Bind<'_> {
    /// Upstream says this in the words of its store.
    fn precondition_failed(&self, pod: &Object, message: std::fmt::Arguments<'_>) -> Status {
        let (namespace, name) = (pod.namespace(), pod.name());
        Status::conflict(
            &self.call.resource.group_resource,
            name,
            format_args!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, AdditionalErrorMsg: {message}"
            ),
        )
    }

    fn assign(&self, pod: &mut Object, mut spec: Object) -> Result<(), Status> {
        spec.insert("nodeName".into(), node_of(self.binding).into());
        pod.insert("spec".into(), Value::Object(spec));
        // What the scheduler notes on a binding goes to the pod.
        for map in ["annotations", "labels"] {
            let notes = self
                .binding
                .metadata()
                .and_then(|metadata| metadata.get(map))
                .and_then(Value::as_object);
            for (key, value) in notes.into_iter().flatten() {
                pod.edit_metadata(|metadata| {
                    let entry = metadata
                        .entry(map)
                        .or_insert_with(|| Value::Object(Object::new()));
                    if let Value::Object(entries) = entry {
                        entries.insert(key.clone(), value.clone());
                    }
                });
            }
        }
        let scheduled = conditions::of_pod("PodScheduled", self.call.now);
        conditions::put(status_of(pod)?, scheduled);
        Ok(())
    }
}
