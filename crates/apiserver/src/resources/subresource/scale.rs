//! How many replicas, for whoever knows only that.

use async_trait::async_trait;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use rhumb_api::{Object, fields};
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, LabelSelector, Status};
use serde_json::{Map, Value, json};

use crate::admission::Operation;
use crate::http::Reply;
use crate::objects::{Metadata, MetadataMut};
use crate::request::{FieldValidation, WriteOptions};
use crate::resources::codec::Expected;
use crate::resources::patch::Patch;
use crate::resources::prepare::Part;
use crate::resources::update::{check_uid, check_version, update_to};
use crate::resources::write::{Change, Current, Edit};
use crate::resources::{Call, render};

const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// Where an object keeps what a Scale shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paths {
    pub(super) replicas: &'static str,
    pub(super) status_replicas: &'static str,
    pub(super) selector: &'static str,
}

pub(super) async fn answer(call: &Call<'_>, paths: Paths) -> Result<Reply, Status> {
    let key = call.key()?;
    let expected = Expected {
        api_version: API_VERSION,
        kind: KIND,
        schema: call.api.type_named("io.k8s.api.autoscaling.v1.Scale")?,
    };
    let (options, wanted) = match call.verb {
        "update" => {
            let options = WriteOptions::parse(call.query, "UpdateOptions")?;
            let scale = call.decode(expected, options.field_validation)?;
            (options, Wanted::Scale(scale))
        }
        "patch" => {
            call.record_patch();
            let patch = Patch::parse(call.header(CONTENT_TYPE), &call.body)?;
            (
                WriteOptions::parse(call.query, "PatchOptions")?,
                Wanted::Patch(patch),
            )
        }
        _ => {
            let current = call.current(&key).await?;
            return render::value(
                call,
                StatusCode::OK,
                &Value::Object(scale_of(&current.object, paths)),
            );
        }
    };
    let edit = Rescale {
        call,
        paths,
        wanted,
        expected,
        validation: options.field_validation,
        dry_run: options.dry_run,
    };
    let written = call.change(&key, options.dry_run, &edit).await?;
    render::value(
        call,
        StatusCode::OK,
        &Value::Object(scale_of(&written.object, paths)),
    )
}

/// What an object looks like to whoever scales it.
fn scale_of(object: &Object, paths: Paths) -> Object {
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
        _ => Object::new(),
    }
}

/// A selector as queries write it, be it a LabelSelector or the plain map of old kinds.
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

enum Wanted {
    Scale(Object),
    Patch(Patch),
}

struct Rescale<'a> {
    call: &'a Call<'a>,
    paths: Paths,
    wanted: Wanted,
    expected: Expected<'a>,
    validation: FieldValidation,
    dry_run: bool,
}

#[async_trait]
impl Edit for Rescale<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        let before = scale_of(&current.object, self.paths);
        let mut scale = match &self.wanted {
            Wanted::Scale(scale) => scale.clone(),
            Wanted::Patch(patch) => {
                patch.outcome(self.call, self.expected, before.clone(), self.validation)?
            }
        };
        let attributes = self
            .call
            .attributes(Operation::Update, Some(&before), self.dry_run);
        let chain = &self.call.api.admission;
        chain.mutate(&attributes, Some(&mut scale)).await?;
        check_scale(self.call, &scale)?;
        check_uid(self.call, current, &scale)?;
        check_version(self.call, current, &scale)?;
        let replicas = fields::int(&scale, "spec.replicas").unwrap_or(0);
        let mut new = current.object.clone();
        fields::set(&mut new, self.paths.replicas, replicas);
        new.set_meta("resourceVersion", current.revision.to_string());
        chain.validate(&attributes, Some(&scale)).await?;
        update_to(self.call, current, new, Part::Admitted, self.dry_run).await
    }

    fn is_conditional(&self) -> bool {
        matches!(&self.wanted, Wanted::Scale(scale) if !scale.resource_version().is_empty())
    }
}

fn check_scale(call: &Call<'_>, scale: &Object) -> Result<(), Status> {
    if scale.name() != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            scale.name(),
            call.name()
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
