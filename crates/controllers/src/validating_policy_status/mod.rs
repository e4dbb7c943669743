//! ValidatingAdmissionPolicy status controller (upstream: `validatingadmissionpolicystatus`): type-checks the CEL
//! expressions of each policy and writes the warnings into its status. Admission does not depend on it.

mod served_kinds;
#[cfg(test)]
mod tests;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::discovery::ApiResource;
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use rhumb_admission::{Object, SchemaResolver, expression_warnings};
use rhumb_client::error::none_if_not_found;
use rhumb_client::informer::{Event, watch};
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};
use serde_json::{Value, json};

use self::served_kinds::ServedKindCache;
use crate::{ControllerContext, Error};

/// Policies that are checked concurrently, as upstream.
const WORKERS: usize = 5;

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let resource = ApiResource::erase::<ValidatingAdmissionPolicy>(&());
    let queue = WorkQueue::new();
    let policies: Api<DynamicObject> = Api::all_with(context.reader, &resource);
    let watched = watch(
        policies,
        Config::default(),
        ResourceExt::name_any,
        |event| {
            if let Event::Applied(policy) = event
                && needs_type_checking(&policy)
            {
                queue.add(policy.name_any());
            }
        },
    );
    let policies: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
    let kinds = ServedKindCache::new(context.client);
    let work = queue.run_workers(WORKERS, |name: String| {
        let (policies, kinds) = (&policies, &kinds);
        async move {
            check_policy(policies, kinds, &name).await?;
            Ok(ReconcileAction::AwaitChange)
        }
    });
    tokio::select! {
        watched = watched => watched,
        worked = work => worked,
    }
}

/// Whether the spec has changed since it was checked.
fn needs_type_checking(policy: &DynamicObject) -> bool {
    policy.data["status"]["observedGeneration"].as_i64() != policy.metadata.generation
}

async fn check_policy(
    policies: &Api<DynamicObject>,
    kinds: &ServedKindCache,
    name: &str,
) -> Result<(), Error> {
    let Some(policy) = none_if_not_found(policies.get(name).await)? else {
        return Ok(());
    };
    if !needs_type_checking(&policy) {
        return Ok(());
    }
    let metadata = json!({"resourceVersion": policy.metadata.resource_version});
    let generation = policy.metadata.generation;
    let Ok(Value::Object(policy)) = serde_json::to_value(policy) else {
        return Ok(());
    };
    let kinds = kinds.get().await?;
    let patch = Patch::Merge(json!({
        "metadata": metadata,
        "status": type_checking_status(&policy, generation, &*kinds),
    }));
    let written = policies
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    none_if_not_found(written).map(drop)
}

/// The change of the status. Warnings of an earlier check are removed.
fn type_checking_status(
    policy: &Object,
    generation: Option<i64>,
    kinds: &dyn SchemaResolver,
) -> Value {
    let warnings = expression_warnings(policy, kinds);
    let warnings = (!warnings.is_empty()).then_some(warnings);
    json!({
        "observedGeneration": generation,
        "typeChecking": {"expressionWarnings": warnings},
    })
}
