//! Declares `PersistentVolumeClaim` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{gotext, validation};
use serde_json::{Value, json};

use super::volume_validation;
use crate::feature_gates::Feature;
use crate::{
    FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, SelectableField, StrategyContext,
    checks, fields, resource_names, selectors,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "io.k8s.api.core.v1.PersistentVolumeClaim",
    )
    .returns_deleted()
    .short_names(&["pvc"])
    // Not a path of the object, but clients have relied on it since the first release.
    .selectable(&[SelectableField::string("name", "metadata.name")])
    .status()
    .strategy(PersistentVolumeClaimStrategy)
}

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

#[derive(Debug)]
struct PersistentVolumeClaimStrategy;

impl ResourceStrategy for PersistentVolumeClaimStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        object.insert("status".to_owned(), json!({"phase": "Pending"}));
        normalize_data_sources(object, &JsonObject::new(), request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        normalize_data_sources(object, old, request);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), selectors::Options::default(), errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let old_spec = old.field("spec");
        let options = checks::selector_validation_options([&old_spec.field("selector")]);
        validate_spec(&object.field("spec"), options, errors);
        validate_change(object, old, errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        _: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        let metadata = object.field("metadata");
        if metadata.field("annotations").key(CLASS_ANNOTATION).exists() {
            warnings.push(format!(
                "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        let spec = object.field("spec");
        let resources = spec.field("resources");
        for name in ["requests", "limits"] {
            let amounts = resources.field(name);
            let storage = amounts.key("storage");
            if let Some(amount) = resource_names::quantity(&storage)
                && !amount.is_integer_at_milli()
            {
                let text = amount.to_string();
                warnings.push(format!(
                    "{}: fractional byte value {} is invalid, must be an integer",
                    storage.path(),
                    gotext::quote(&text)
                ));
            }
        }
    }
}

/// Keeps `dataSource` and `dataSourceRef` equal; old clients know only the first. Kinds that `dataSource` does not
/// support are dropped from it.
fn normalize_data_sources(claim: &mut JsonObject, old: &JsonObject, request: &StrategyContext<'_>) {
    let (source, reference) = ("spec.dataSource", "spec.dataSourceRef");
    let is_elsewhere =
        |claim: &JsonObject| !fields::str(claim, "spec.dataSourceRef.namespace").is_empty();
    let crosses = request
        .gates
        .enabled(Feature::CrossNamespaceVolumeDataSource);
    if !crosses && is_elsewhere(claim) && fields::get(old, reference).is_none() {
        fields::remove(claim, reference);
    }
    let is_old_client = fields::get(claim, reference).is_none();
    if fields::get(old, source).is_none() && is_old_client && !has_claim_or_snapshot_source(claim) {
        fields::remove(claim, source);
    }
    let copy = |claim: &JsonObject, path: &str| {
        let mut copied = fields::get(claim, path)?.as_object()?.clone();
        copied.retain(|name, _| matches!(name.as_str(), "apiGroup" | "kind" | "name"));
        Some(copied)
    };
    match (copy(claim, source), copy(claim, reference)) {
        (Some(copied), None) => fields::set(claim, reference, copied),
        (None, Some(copied)) if !is_elsewhere(claim) => fields::set(claim, source, copied),
        _ => {}
    }
}

fn has_claim_or_snapshot_source(claim: &JsonObject) -> bool {
    let kind = fields::str(claim, "spec.dataSource.kind");
    let group = fields::str(claim, "spec.dataSource.apiGroup");
    matches!(
        (kind, group),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    )
}

/// Validates a claim spec; also used for the claim templates of a stateful set.
pub(in crate::kinds) fn validate_spec(
    spec: &FieldView<'_>,
    options: selectors::Options,
    errors: &mut ErrorList,
) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        modes.required(errors, "at least 1 access mode is required");
    }
    selectors::validate_label_selector(&spec.field("selector"), options, errors);
    volume_validation::validate_access_modes(&modes, errors);
    let resources = spec.field("resources");
    let requests = resources.field("requests");
    let (storage, at) = (requests.key("storage"), resources.key("storage"));
    if storage.exists() {
        volume_validation::validate_positive(&storage, &at, errors);
    } else {
        at.required(errors, "");
    }
    volume_validation::validate_class_name(&spec.field("storageClassName"), errors);
    volume_validation::validate_volume_mode(&spec.field("volumeMode"), errors);
    for name in ["dataSource", "dataSourceRef"] {
        let source = spec.field(name);
        if source.exists() {
            validate_source(&source, errors);
        }
    }
    volume_validation::validate_class_name(&spec.field("volumeAttributesClassName"), errors);
}

fn validate_source(source: &FieldView<'_>, errors: &mut ErrorList) {
    for name in ["name", "kind"] {
        if source.field(name).is_empty() {
            source.field(name).required(errors, "");
        }
    }
    let (group, kind) = (source.field("apiGroup"), source.field("kind"));
    if group.is_empty() && kind.str() != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(Error::invalid(source.path(), kind.str(), detail));
    }
    if !group.is_empty() {
        checks::push_problems(&group, validation::dns1123_subdomain(group.str()), errors);
    }
    let namespace = source.field("namespace");
    if !namespace.is_empty() {
        checks::push_problems(
            &namespace,
            validation::dns1123_label(namespace.str()),
            errors,
        );
    }
}

const IMMUTABLE_SPEC: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// Allows setting `volumeName` and an unset storage class once, and growing a bound claim.
fn validate_change(object: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let (spec, old_spec) = (object.field("spec"), old.field("spec"));
    let is_bound = object.field("status").field("phase").str() == "Bound";
    let may_change = |name: &str| match name {
        "volumeName" => old_spec.field(name).is_empty(),
        "storageClassName" => !old_spec.field(name).exists() && spec.field(name).exists(),
        "volumeAttributesClassName" => is_bound,
        _ => false,
    };
    let without = |spec: &FieldView<'_>| {
        let mut rest = spec.object().cloned().unwrap_or_default();
        rest.retain(|name, _| !may_change(name));
        if !old_spec.field("dataSourceRef").exists() {
            rest.remove("dataSourceRef");
        }
        if is_bound {
            fields::remove(&mut rest, "resources.requests.storage");
        }
        fields::without_empty(Value::Object(rest))
    };
    validate_class_annotation(object, old, errors);
    if without(&spec) != without(&old_spec) {
        spec.forbidden(errors, IMMUTABLE_SPEC);
    }
    let storage = |resources: FieldView<'_>| {
        let requests = resources.field("requests");
        resource_names::quantity(&requests.key("storage")).unwrap_or_default()
    };
    let (now, before) = (
        storage(spec.field("resources")),
        storage(old_spec.field("resources")),
    );
    let old_status = old.field("status");
    let capacity = old_status.field("capacity");
    let has = resource_names::quantity(&capacity.key("storage")).unwrap_or_default();
    if now < before && now <= has {
        let path = Path::new("spec.resources.requests.storage");
        let detail = "field can not be less than status.capacity";
        errors.push(Error::forbidden(&path, detail));
    }
    // Upstream leaves `spec` out of this path.
    let mode = FieldView::at(spec.field("volumeMode").value(), Path::new("volumeMode"));
    checks::immutable(&mode, &old_spec.field("volumeMode"), errors);
}

/// Rejects changes of the storage class annotation, unless `storageClassName` replaces it.
fn validate_class_annotation(object: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let annotation = |claim: &FieldView<'_>| -> Option<String> {
        let metadata = claim.field("metadata");
        let annotations = metadata.field("annotations");
        let annotation = annotations.key(CLASS_ANNOTATION);
        annotation.exists().then(|| annotation.str().to_owned())
    };
    let class = |claim: &FieldView<'_>| -> Option<String> {
        let spec = claim.field("spec");
        let class = spec.field("storageClassName");
        class.exists().then(|| class.str().to_owned())
    };
    let (now, before) = (annotation(object), annotation(old));
    let takes_its_place =
        before.is_some() && class(old).is_none() && class(object) == before && now.is_none();
    let now = now.unwrap_or_default();
    if now != before.unwrap_or_default() && !takes_its_place {
        let path = Path::new("metadata.annotations");
        let path = path.child(CLASS_ANNOTATION);
        errors.push(Error::invalid(&path, now.as_str(), checks::IMMUTABLE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_create, check_update, create, kind, patched, warnings};

    #[test]
    fn storage_class_annotation_is_immutable() {
        let with = |annotation: Value, class: Value| {
            claim(json!({
                "metadata": {"annotations": {CLASS_ANNOTATION: annotation}},
                "spec": {"storageClassName": class},
            }))
        };
        let refused = |to: &str| {
            vec![format!(
                "metadata.annotations.{CLASS_ANNOTATION}: Invalid value: \"{to}\": field is immutable"
            )]
        };
        let none = Vec::new();
        let table = [
            (
                with(Value::Null, "gold".into()),
                with("silver".into(), "gold".into()),
                refused("silver"),
            ),
            (
                with("gold".into(), Value::Null),
                with("silver".into(), Value::Null),
                refused("silver"),
            ),
            (
                with("gold".into(), Value::Null),
                with("gold".into(), Value::Null),
                none.clone(),
            ),
            (
                with("gold".into(), Value::Null),
                with("gold".into(), "gold".into()),
                none,
            ),
            (
                with("gold".into(), Value::Null),
                json!({"metadata": {"annotations": {CLASS_ANNOTATION: ""}}}),
                refused(""),
            ),
        ];
        for (old, new, want) in table {
            let want: Vec<&str> = want.iter().map(String::as_str).collect();
            check_update(&kind("", "PersistentVolumeClaim"), old, new, &want);
        }
    }

    fn claim(changes: Value) -> Value {
        let base = json!({"spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Gi"}}}});
        Value::Object(patched(base.as_object().expect("an object"), changes))
    }

    fn check(changes: Value, want: &[&str]) {
        let object = claim(json!({"spec": changes}));
        check_create(&kind("", "PersistentVolumeClaim"), object, want);
    }

    #[test]
    fn storage_request_and_access_mode_are_required() {
        check(json!({}), &[]);
        check(
            json!({"accessModes": [], "resources": null, "volumeMode": "Odd"}),
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
                "spec.volumeMode: Unsupported value: \"Odd\": supported values: \"Block\", \"Filesystem\"",
            ],
        );
        check(
            json!({"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"],
                "resources": {"requests": {"storage": "0"}}}),
            &[
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            ],
        );
    }

    #[test]
    fn data_source_and_data_source_ref_are_synchronized() {
        let gates = crate::FeatureGates::default();
        let source = json!({"kind": "PersistentVolumeClaim", "name": "b"});
        for name in ["dataSource", "dataSourceRef"] {
            let object = claim(json!({"spec": {name: source}}));
            let (made, errors) = create(&kind("", "PersistentVolumeClaim"), object, &gates);
            assert!(errors.is_empty(), "{errors}");
            assert_eq!(made["spec"]["dataSource"], source);
            assert_eq!(made["spec"]["dataSourceRef"], source);
        }
        let odd = claim(json!({"spec": {"dataSource": {"kind": "Odd", "name": "b"}}}));
        let (made, _) = create(&kind("", "PersistentVolumeClaim"), odd, &gates);
        assert_eq!(made["spec"].get("dataSource"), None);
    }

    #[test]
    fn only_bound_claims_can_be_expanded() {
        let bound = claim(json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}));
        let size = |text: &str| json!({"spec": {"resources": {"requests": {"storage": text}}}});
        let claims = kind("", "PersistentVolumeClaim");
        check_update(&claims, bound.clone(), size("2Gi"), &[]);
        check_update(
            &claims,
            claim(json!({})),
            json!({"spec": {"volumeName": "v"}}),
            &[],
        );
        let fixed = format!("spec: Forbidden: {IMMUTABLE_SPEC}");
        check_update(&claims, claim(json!({})), size("2Gi"), &[&fixed]);
        let less = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity";
        check_update(&claims, bound, size("1"), &[less]);
    }

    #[test]
    fn fractional_bytes_cause_a_warning() {
        let odd = claim(json!({"spec": {"resources": {"requests": {"storage": "100m"}}}}));
        let want = "spec.resources.requests[storage]: fractional byte value \"100m\" is invalid, must be an integer";
        assert_eq!(warnings(&kind("", "PersistentVolumeClaim"), odd), [want]);
    }
}
