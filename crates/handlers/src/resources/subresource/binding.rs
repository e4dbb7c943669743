//! The `binding` subresource of pods, and the legacy `bindings` resource: assigns a pod to a node.

use rhumb_api::JsonObject;
use rhumb_api::feature_gates::Feature;
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, ObjectKey, Status};
use serde_json::Value;

use super::conditions::{self, status_mut};
use crate::http::Reply;
use crate::request::WriteOptions;
use crate::resources::ResourceRequest;
use crate::resources::codec::ExpectedType;
use rhumb_registry::RequestContext;
use rhumb_registry::admission::Operation;
use rhumb_registry::ensure_request_namespace;
use rhumb_registry::objects::{ObjectMetadata, ObjectMetadataMut};
use rhumb_registry::write::{ObjectUpdate, ProposedWrite, StoredObject};

const KIND: &str = "Binding";

/// POST to `pods/<name>/binding`.
pub(super) async fn bind(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let (binding, options) = decode_binding(request)?;
    if binding.name() != request.name() {
        return Err(Status::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    bind_pod(request, request, binding, options).await
}

/// POST to `bindings`: the binding has the name of the pod.
pub(crate) async fn bind_collection(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let (binding, options) = decode_binding(request)?;
    let on_pods = request
        .for_resource("", "pods")
        .ok_or_else(|| request.not_found())?;
    bind_pod(request, &on_pods, binding, options).await
}

fn decode_binding(request: &ResourceRequest<'_>) -> Result<(JsonObject, WriteOptions), Status> {
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let schema = request.registry.schema_type("io.k8s.api.core.v1.Binding")?;
    let expected = ExpectedType {
        api_version: "v1",
        kind: KIND,
        schema: &schema,
    };
    let binding = request.decode(expected, options.field_validation)?;
    Ok((binding, options))
}

/// Binds a pod. `original` is the request as received, which admission sees.
async fn bind_pod(
    original: &ResourceRequest<'_>,
    context: &RequestContext<'_>,
    mut binding: JsonObject,
    options: WriteOptions,
) -> Result<Reply, Status> {
    ensure_request_namespace(context, &mut binding)?;
    let name = binding.name().to_owned();
    let attributes = original.admission_attributes(Operation::Create, None, options.dry_run);
    let chain = &context.registry.admission;
    chain.mutate(&attributes, Some(&mut binding)).await?;
    validate_binding(&binding, &name)?;
    chain.validate(&attributes, Some(&binding)).await?;
    let key = ObjectKey::new(context.namespace(), &name).map_err(|_| context.not_found())?;
    let update = BindingUpdate {
        context,
        binding: &binding,
    };
    context
        .update_object(&key, options.dry_run, &update)
        .await?;
    super::created_status(original)
}

fn target_node(binding: &JsonObject) -> &str {
    binding
        .get("target")
        .and_then(|target| target.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn validate_binding(binding: &JsonObject, name: &str) -> Result<(), Status> {
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
    if target_node(binding).is_empty() {
        errors.push(Error::required(&Path::new("target.name"), ""));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("", KIND), name, &errors))
}

/// Sets the node of a pod.
struct BindingUpdate<'a> {
    context: &'a RequestContext<'a>,
    binding: &'a JsonObject,
}

impl ObjectUpdate for BindingUpdate<'_> {
    fn propose(&self, current: Option<&StoredObject>) -> Result<ProposedWrite, Status> {
        let resource = &self.context.resource.group_resource;
        let current = current.ok_or_else(|| Status::not_found(resource, self.binding.name()))?;
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
        Ok(ProposedWrite::Put(pod))
    }
}

impl BindingUpdate<'_> {
    /// Upstream returns the error of its storage layer here.
    fn precondition_failed(&self, pod: &JsonObject, message: std::fmt::Arguments<'_>) -> Status {
        let (namespace, name) = (pod.namespace(), pod.name());
        Status::conflict(
            &self.context.resource.group_resource,
            name,
            format_args!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, AdditionalErrorMsg: {message}"
            ),
        )
    }

    fn assign(&self, pod: &mut JsonObject, mut spec: JsonObject) -> Result<(), Status> {
        spec.insert("nodeName".into(), target_node(self.binding).into());
        pod.insert("spec".into(), Value::Object(spec));
        // Annotations of the binding are copied to the pod, and labels while the feature that needs them is enabled.
        let gates = &self.context.registry.gates;
        let copies_labels = gates.enabled(Feature::PodTopologyLabelsAdmission);
        let copied_maps: &[&str] = match copies_labels {
            true => &["annotations", "labels"],
            false => &["annotations"],
        };
        for &map in copied_maps {
            let entries = self
                .binding
                .metadata()
                .and_then(|metadata| metadata.get(map))
                .and_then(Value::as_object);
            for (key, value) in entries.into_iter().flatten() {
                pod.edit_metadata(|metadata| {
                    let entry = metadata
                        .entry(map)
                        .or_insert_with(|| Value::Object(JsonObject::new()));
                    if let Value::Object(entries) = entry {
                        entries.insert(key.clone(), value.clone());
                    }
                });
            }
        }
        let scheduled = conditions::true_pod_condition("PodScheduled", self.context.now);
        conditions::set_condition(status_mut(pod)?, scheduled);
        Ok(())
    }
}
