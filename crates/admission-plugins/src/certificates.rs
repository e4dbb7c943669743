//! The plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction for
//! CertificateSigningRequests.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::Status;

use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// Requires permission to `approve` for the signer of the request.
#[derive(Debug)]
pub(super) struct CertificateApprovalPlugin;

/// Requires permission to `sign` for the signer of the request.
#[derive(Debug)]
pub(super) struct CertificateSigningPlugin;

/// Rejects requests for client certificates of the group `system:masters`.
#[derive(Debug)]
pub(super) struct CertificateSubjectRestrictionPlugin;

#[async_trait]
impl AdmissionPlugin for CertificateApprovalPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation && attributes.is_resource_or_subresource(GROUP, REQUESTS)
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        match attributes.old_object {
            Some(old) if is_update_of(attributes, "approval") => {
                require_signer_permission(attributes, object, old, "approve")
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl AdmissionPlugin for CertificateSigningPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation && attributes.is_resource_or_subresource(GROUP, REQUESTS)
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let (Some(old), Some(new)) = (attributes.old_object, object) else {
            return Ok(());
        };
        if !is_update_of(attributes, "status") {
            return Ok(());
        }
        let is_same = |path: &str| fields::get(old, path) == fields::get(new, path);
        if is_same("status.certificate") && is_same("status.conditions") {
            return Ok(());
        }
        require_signer_permission(attributes, object, old, "sign")
    }
}

#[async_trait]
impl AdmissionPlugin for CertificateSubjectRestrictionPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation && attributes.is_resource_or_subresource(GROUP, REQUESTS)
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let is_create = attributes.operation == Operation::Create;
        let Some(request) = object.filter(|_| is_create && attributes.is_resource(GROUP, REQUESTS))
        else {
            return Ok(());
        };
        check_subject(request).map_err(|reason| attributes.forbidden(object, reason))
    }
}

fn is_update_of(attributes: &AdmissionAttributes<'_>, subresource: &str) -> bool {
    attributes.operation == Operation::Update
        && attributes.subresource() == subresource
        && attributes.is_resource_or_subresource(GROUP, REQUESTS)
}

/// Checks the permission for the signer of the stored request, so that an update cannot change the signer to pass.
fn require_signer_permission(
    attributes: &AdmissionAttributes<'_>,
    object: Option<&JsonObject>,
    old: &JsonObject,
    verb: &str,
) -> Result<(), Status> {
    let signer = fields::str(old, "spec.signerName");
    let domain = signer.split('/').next().unwrap_or_default();
    let authorizer = &attributes.context.registry.authorizer;
    let may = |name: &str| {
        let attributes_to_authorize = rhumb_auth::Attributes {
            api_version: "*",
            name,
            ..rhumb_auth::Attributes::resource(attributes.context.user, verb, GROUP, "signers")
        };
        authorizer
            .authorize(&attributes_to_authorize)
            .require(&attributes_to_authorize)
            .is_ok()
    };
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    let reason = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(attributes.forbidden(object, reason))
}

fn check_subject(request: &JsonObject) -> Result<(), String> {
    if fields::str(request, "spec.signerName") != CLIENT_SIGNER {
        return Ok(());
    }
    let groups = STANDARD
        .decode(fields::str(request, "spec.request"))
        .map_err(|error| error.to_string())
        .and_then(|pem| rhumb_auth::authn::organizations_of_request(&pem))
        .map_err(|error| format!("failed to parse CSR: {error}"))?;
    if groups.iter().any(|group| group == MASTERS) {
        return Err(format!(
            "use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::object;

    fn request(signer: &str, groups: &[&str]) -> JsonObject {
        let mut name = rcgen::DistinguishedName::new();
        for &group in groups {
            name.push(rcgen::DnType::OrganizationName, group);
        }
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = name;
        let key = rcgen::KeyPair::generate().expect("a key pair");
        let pem = params
            .serialize_request(&key)
            .and_then(|request| request.pem())
            .expect("a certificate request");
        object(json!({"spec": {"signerName": signer, "request": STANDARD.encode(pem)}}))
    }

    #[test]
    fn certificates_cannot_grant_system_masters() {
        let message = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
        let table = [
            (request(CLIENT_SIGNER, &["dev"]), Ok(())),
            (request(CLIENT_SIGNER, &[MASTERS]), Err(message)),
            (request("example.com/own", &[MASTERS]), Ok(())),
        ];
        for (request, want) in table {
            assert_eq!(check_subject(&request), want.map_err(str::to_owned));
        }
        let broken = object(json!({"spec": {"signerName": CLIENT_SIGNER, "request": "AAAA"}}));
        let got = check_subject(&broken).expect_err("it is not a certificate request");
        assert!(got.starts_with("failed to parse CSR: "), "{got}");
    }
}
