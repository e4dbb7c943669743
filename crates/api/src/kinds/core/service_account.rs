//! Declares `ServiceAccount` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use crate::{
    FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, StrategyContext, SubresourceKind,
    Verb, fields,
};

const ENFORCE_MOUNTABLE_SECRETS_ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        "io.k8s.api.core.v1.ServiceAccount",
    )
    .returns_deleted()
    .short_names(&["sa"])
    .subresource("token", SubresourceKind::Token, &[Verb::Create])
    .with_subresource_object("authentication.k8s.io", "v1", "TokenRequest")
    .strategy(ServiceAccountStrategy)
}

#[derive(Debug)]
struct ServiceAccountStrategy;

impl ResourceStrategy for ServiceAccountStrategy {
    fn prepare_create(&self, object: &mut JsonObject, _: &StrategyContext<'_>) {
        strip_secret_references(object);
    }

    fn prepare_update(&self, object: &mut JsonObject, _: &JsonObject, _: &StrategyContext<'_>) {
        strip_secret_references(object);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        if old.is_some_and(enforces_mountable_secrets) || !enforces_mountable_secrets(object) {
            return;
        }
        warnings.push(format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS_ANNOTATION}]: deprecated in v1.32+; prefer separate namespaces to isolate \
             access to mounted secrets"
        ));
    }
}

/// Reduces secret references to the name: the secrets are in the namespace of the account.
fn strip_secret_references(account: &mut JsonObject) {
    for secret in fields::objects_mut(account, "secrets") {
        secret.retain(|name, _| name == "name");
    }
}

fn enforces_mountable_secrets(account: &FieldView<'_>) -> bool {
    let metadata = account.field("metadata");
    let annotations = metadata.field("annotations");
    annotations
        .key(ENFORCE_MOUNTABLE_SECRETS_ANNOTATION)
        .exists()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{FeatureGates, testing};

    #[test]
    fn secret_references_keep_only_the_name() {
        let account = testing::kind("", "ServiceAccount");
        let object = json!({"secrets": [{"name": "a", "namespace": "b", "uid": "c"}]});
        let (made, errors) = testing::create(&account, object, &FeatureGates::default());
        assert!(errors.is_empty(), "{errors}");
        assert_eq!(made["secrets"], json!([{"name": "a"}]));
    }

    #[test]
    fn deprecated_annotation_causes_a_warning() {
        let account = testing::kind("", "ServiceAccount");
        let object =
            json!({"metadata": {"annotations": {ENFORCE_MOUNTABLE_SECRETS_ANNOTATION: "true"}}});
        let want = concat!(
            "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate ",
            "namespaces to isolate access to mounted secrets"
        );
        assert_eq!(testing::warnings(&account, object), [want]);
        assert_eq!(testing::warnings(&account, json!({})), [""; 0]);
    }
}
