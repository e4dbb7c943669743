//! Declares `CSIDriver` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/storage/validation`.

use std::collections::HashSet;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};

use crate::feature_gates::Feature;
use crate::validation_helpers::checks;
use crate::{
    FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, StrategyContext, object_edit,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "storage.k8s.io",
        "v1",
        "CSIDriver",
        "csidrivers",
        "io.k8s.api.storage.v1.CSIDriver",
    )
    .returns_deleted()
    .requires_resource_version()
    .strategy(CsiDriverStrategy)
}

const EXPIRATION_SECONDS_MIN: i64 = 600;
const EXPIRATION_SECONDS_MAX: i64 = 1 << 32;
const UPDATE_PERIOD_SECONDS_MIN: i64 = 10;

#[derive(Debug)]
struct CsiDriverStrategy;

impl ResourceStrategy for CsiDriverStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        drop_disabled_fields(object, None, request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        drop_disabled_fields(object, Some(old), request);
        // Only updates increment the generation: a new driver has none.
        if !checks::semantically_equal_values(object.get("spec"), old.get("spec")) {
            let generation = object_edit::get(old, &["metadata", "generation"]);
            let generation = generation.and_then(serde_json::Value::as_i64).unwrap_or(0);
            object_edit::edit_child(object, &["metadata"], |metadata| {
                metadata.insert("generation".to_owned(), (generation + 1).into());
            });
        }
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        validate_spec(&spec, errors);
        let attach = spec.field("attachRequired");
        if !checks::semantically_equal(&attach, &old.field("attachRequired")) {
            let place = spec.path().child(ATTACH_REQUIRED);
            let error = Error::invalid(&place, attach.bad_value(), "field is immutable");
            errors.push(error);
        }
        let name = "volumeLifecycleModes";
        checks::immutable(&spec.field(name), &old.field(name), errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        let spec = object.field("spec");
        let tokens = spec.field("tokenRequests");
        let is_new = old.is_none_or(|old| {
            let old = old.field("spec");
            !checks::semantically_equal(&tokens, &old.field("tokenRequests"))
        });
        if is_new && !tokens.is_empty() && !spec.field("serviceAccountTokenInSecrets").exists() {
            warnings.push(
                "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to \
                 prevent possible logging of tokens in volume attributes"
                    .to_owned(),
            );
        }
    }
}

/// Name of `attachRequired` in upstream's errors.
const ATTACH_REQUIRED: &str = "attachedRequired";

fn drop_disabled_fields(
    object: &mut JsonObject,
    old: Option<&JsonObject>,
    request: &StrategyContext<'_>,
) {
    let name = "preventPodSchedulingIfMissing";
    let is_in_use = old.is_some_and(|old| object_edit::get(old, &["spec", name]).is_some());
    if !is_in_use
        && !request.gates.enabled(Feature::VolumeLimitScaling)
        && let Some(spec) = object_edit::find_object(object, &["spec"])
    {
        spec.remove(name);
    }
}

fn validate_spec(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let required = |name: &str, path: &Path<'_>, errors: &mut ErrorList| {
        if !spec.field(name).exists() {
            errors.push(Error::required(path, ""));
        }
    };
    required(
        "attachRequired",
        &spec.path().child(ATTACH_REQUIRED),
        errors,
    );
    for name in ["podInfoOnMount", "storageCapacity"] {
        required(name, &spec.path().child(name), errors);
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    checks::one_of(&spec.field("fsGroupPolicy"), &policies, errors);
    let tokens = spec.field("tokenRequests");
    validate_token_requests(&tokens, errors);
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.items() {
        let supported = ["Persistent", "Ephemeral"];
        if !supported.contains(&mode.str()) {
            let value: BadValue = mode.bad_value();
            errors.push(Error::not_supported(modes.path(), value, &supported));
        }
    }
    required("seLinuxMount", &spec.path().child("seLinuxMount"), errors);
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period
        .int()
        .is_some_and(|seconds| seconds < UPDATE_PERIOD_SECONDS_MIN)
    {
        period.invalid(errors, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.field("serviceAccountTokenInSecrets");
    if in_secrets.exists() && tokens.is_empty() {
        in_secrets.invalid(
            errors,
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        );
    }
}

fn validate_token_requests(tokens: &FieldView<'_>, errors: &mut ErrorList) {
    let mut audiences = HashSet::new();
    for token in tokens.items() {
        let audience = token.field("audience");
        if !audiences.insert(audience.str().to_owned()) {
            errors.push(Error::duplicate(audience.path(), audience.str()));
            continue;
        }
        let expiration = token.field("expirationSeconds");
        let seconds = expiration.int().unwrap_or(EXPIRATION_SECONDS_MIN);
        if seconds < EXPIRATION_SECONDS_MIN {
            expiration.invalid(errors, "may not specify a duration less than 10 minutes");
        }
        if seconds > EXPIRATION_SECONDS_MAX {
            expiration.invalid(
                errors,
                "may not specify a duration larger than 2^32 seconds",
            );
        }
    }
}
