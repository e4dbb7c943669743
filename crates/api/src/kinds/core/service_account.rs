//! ServiceAccount.

use crate::{Kind, Object, Request, Rules, Scope, SubresourceKind, Verb, View, fields};

const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        "io.k8s.api.core.v1.ServiceAccount",
    )
    .returns_deleted()
    .short(&["sa"])
    .subresource("token", SubresourceKind::Token, &[Verb::Create])
    .speaks("authentication.k8s.io", "v1", "TokenRequest")
    .rules(ServiceAccountRules)
}

#[derive(Debug)]
struct ServiceAccountRules;

impl Rules for ServiceAccountRules {
    fn prepare_create(&self, object: &mut Object, _: &Request<'_>) {
        name_secrets_only(object);
    }

    fn prepare_update(&self, object: &mut Object, _: &Object, _: &Request<'_>) {
        name_secrets_only(object);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        if old.is_some_and(enforces_mountable_secrets) || !enforces_mountable_secrets(object) {
            return;
        }
        warnings.push(format!(
            "metadata.annotations[{MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate \
             access to mounted secrets"
        ));
    }
}

/// A secret of an account is in the same namespace: of a reference, only the name means anything.
fn name_secrets_only(account: &mut Object) {
    for secret in fields::objects_mut(account, "secrets") {
        secret.retain(|name, _| name == "name");
    }
}

fn enforces_mountable_secrets(account: &View<'_>) -> bool {
    let metadata = account.field("metadata");
    let annotations = metadata.field("annotations");
    annotations.key(MOUNTABLE_SECRETS).exists()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Gates, testing};

    #[test]
    fn secrets_are_known_by_name() {
        let account = testing::kind("", "ServiceAccount");
        let object = json!({"secrets": [{"name": "a", "namespace": "b", "uid": "c"}]});
        let (made, errors) = testing::create(&account, object, &Gates::default());
        assert!(errors.is_empty(), "{errors}");
        assert_eq!(made["secrets"], json!([{"name": "a"}]));
    }

    #[test]
    fn a_deprecated_annotation_is_warned_of() {
        let account = testing::kind("", "ServiceAccount");
        let object = json!({"metadata": {"annotations": {MOUNTABLE_SECRETS: "true"}}});
        let want = concat!(
            "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate ",
            "namespaces to isolate access to mounted secrets"
        );
        assert_eq!(testing::warnings(&account, object), [want]);
        assert_eq!(testing::warnings(&account, json!({})), [""; 0]);
    }
}
