//! The `scale` subresource: presents a workload as an autoscaling/v1 Scale.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, LabelSelector, Status};
use serde_json::{Map, Value, json};

use crate::http::Reply;
use crate::request::{FieldValidation, WriteOptions};
use crate::resources::codec::ExpectedType;
use crate::resources::patch::ParsedPatch;
use crate::resources::update::{check_resource_version, check_uid};
use crate::resources::{ResourceRequest, render};
use rhumb_registry::RequestContext;
use rhumb_registry::objects::ObjectMetadata;
use rhumb_registry::write::{ObjectUpdate, ProposedWrite, StoredObject};

const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// The field paths of an object that a Scale maps to.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScalePaths<'a> {
    pub(super) replicas: &'a str,
    pub(super) status_replicas: &'a str,
    pub(super) selector: &'a str,
}

pub(super) async fn serve_scale(
    request: &ResourceRequest<'_>,
    paths: ScalePaths<'_>,
) -> Result<Reply, Status> {
    let key = request.key()?;
    let schema = request
        .registry
        .schema_type("io.k8s.api.autoscaling.v1.Scale")?;
    let expected = ExpectedType {
        api_version: API_VERSION,
        kind: KIND,
        schema: &schema,
    };
    let (options, requested) = match request.verb {
        "update" => {
            let options = WriteOptions::parse(request.query, "UpdateOptions")?;
            let scale = request.decode(expected, options.field_validation)?;
            (options, RequestedScale::Replace(scale))
        }
        "patch" => {
            request.audit_patch();
            let patch = ParsedPatch::parse(request.header(CONTENT_TYPE), &request.body)?;
            (
                WriteOptions::parse(request.query, "PatchOptions")?,
                RequestedScale::Patch(patch),
            )
        }
        _ => {
            let current = request.current_from_cache(&key).await?;
            return render::value_response(
                request,
                StatusCode::OK,
                &Value::Object(scale_from_object(&current.object, paths)),
            );
        }
    };
    let update = ScaleUpdate {
        context: request,
        paths,
        requested,
        expected,
        validation: options.field_validation,
    };
    let result = request.update_object(&key, options.dry_run, &update);
    let object = result.await?.object.decode(request.storage()?)?;
    render::value_response(
        request,
        StatusCode::OK,
        &Value::Object(scale_from_object(&object, paths)),
    )
}

/// The Scale of an object.
fn scale_from_object(object: &JsonObject, paths: ScalePaths<'_>) -> JsonObject {
    let metadata: Map<String, Value> = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ]
    .iter()
    .filter_map(|&field| Some((field.to_owned(), object.metadata()?.get(field)?.clone())))
    .collect();
    let mut spec = json!({});
    let replicas = fields::int(object, paths.replicas).unwrap_or(0);
    if replicas != 0 {
        spec["replicas"] = replicas.into();
    }
    let current = fields::int(object, paths.status_replicas).unwrap_or(0);
    let mut status = json!({"replicas": current});
    if let Some(selector) = fields::get(object, paths.selector)
        .map(selector_text)
        .filter(|text| !text.is_empty())
    {
        status["selector"] = selector.into();
    }
    let scale = json!({
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    });
    match scale {
        Value::Object(scale) => scale,
        _ => JsonObject::new(),
    }
}

/// A selector in query syntax, from a LabelSelector or the plain map of ReplicationController.
fn selector_text(selector: &Value) -> String {
    let is_plain = selector
        .as_object()
        .is_some_and(|map| map.values().all(Value::is_string));
    if is_plain {
        let pairs: Vec<String> = selector
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        return pairs.join(",");
    }
    serde_json::from_value::<LabelSelector>(selector.clone())
        .ok()
        .and_then(|selector| LabelSelector::to_selector(Some(&selector)).ok())
        .map(|selector| selector.to_string())
        .unwrap_or_default()
}

/// The requested scale: a whole Scale (update) or a patch.
enum RequestedScale {
    Replace(JsonObject),
    Patch(ParsedPatch),
}

/// Updates the replicas of an object from a Scale.
struct ScaleUpdate<'a> {
    context: &'a RequestContext<'a>,
    paths: ScalePaths<'a>,
    requested: RequestedScale,
    expected: ExpectedType<'a>,
    validation: FieldValidation,
}

impl ObjectUpdate for ScaleUpdate<'_> {
    fn propose(&self, current: Option<&StoredObject>) -> Result<ProposedWrite, Status> {
        let current = current.ok_or_else(|| self.context.not_found())?;
        let old_view = scale_from_object(&current.object, self.paths);
        let view = match &self.requested {
            RequestedScale::Replace(scale) => scale.clone(),
            RequestedScale::Patch(patch) => patch.apply_and_decode(
                self.context,
                self.expected,
                old_view.clone(),
                self.validation,
            )?,
        };
        Ok(ProposedWrite::ReplaceByView { view, old_view })
    }

    fn apply_view(&self, current: &StoredObject, scale: &JsonObject) -> Result<JsonObject, Status> {
        check_scale(self.context, scale)?;
        check_uid(self.context, current.object.uid(), scale)?;
        check_resource_version(self.context, current, scale)?;
        let replicas = fields::int(scale, "spec.replicas").unwrap_or(0);
        let mut object = current.object.clone();
        fields::set(&mut object, self.paths.replicas, replicas);
        Ok(object)
    }

    fn needs_object(&self) -> bool {
        true
    }

    fn is_conditional(&self) -> bool {
        matches!(&self.requested, RequestedScale::Replace(scale) if !scale.resource_version().is_empty())
    }
}

fn check_scale(context: &RequestContext<'_>, scale: &JsonObject) -> Result<(), Status> {
    if scale.name() != context.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            scale.name(),
            context.name()
        )));
    }
    let replicas = fields::int(scale, "spec.replicas").unwrap_or(0);
    if replicas < 0 {
        let mut errors = ErrorList::new();
        errors.push(Error::invalid(
            &Path::new("spec.replicas"),
            replicas,
            "must be greater than or equal to 0",
        ));
        return Err(Status::invalid(
            &GroupKind::new("autoscaling", KIND),
            scale.name(),
            &errors,
        ));
    }
    Ok(())
}
