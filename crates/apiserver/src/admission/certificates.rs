//! Who may approve and sign certificates, and what may not be asked for.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_api::{Object, fields};
use rhumb_auth::Authorizer as _;
use rhumb_meta::Status;

use super::{Attributes, Operation, Plugin, Step};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// Approval needs a right to approve for the signer.
#[derive(Debug)]
pub(super) struct CertificateApproval;

/// So does signing.
#[derive(Debug)]
pub(super) struct CertificateSigning;

/// Nobody asks for a certificate of those who may do everything.
#[derive(Debug)]
pub(super) struct CertificateSubjectRestriction;

#[async_trait]
impl Plugin for CertificateApproval {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Validation && attributes.is_below(GROUP, REQUESTS)
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        match attributes.old {
            Some(old) if is_update_of(attributes, "approval") => {
                require(attributes, object, old, "approve")
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Plugin for CertificateSigning {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Validation && attributes.is_below(GROUP, REQUESTS)
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let (Some(old), Some(new)) = (attributes.old, object) else {
            return Ok(());
        };
        if !is_update_of(attributes, "status") {
            return Ok(());
        }
        let is_same = |path: &str| fields::get(old, path) == fields::get(new, path);
        if is_same("status.certificate") && is_same("status.conditions") {
            return Ok(());
        }
        require(attributes, object, old, "sign")
    }
}

#[async_trait]
impl Plugin for CertificateSubjectRestriction {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Validation && attributes.is_below(GROUP, REQUESTS)
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let is_create = attributes.operation == Operation::Create;
        let Some(request) = object.filter(|_| is_create && attributes.is_about(GROUP, REQUESTS))
        else {
            return Ok(());
        };
        check_subject(request).map_err(|reason| attributes.forbidden(object, reason))
    }
}

fn is_update_of(attributes: &Attributes<'_>, subresource: &str) -> bool {
    attributes.operation == Operation::Update
        && attributes.subresource() == subresource
        && attributes.is_below(GROUP, REQUESTS)
}

/// The right is to the signer of the request as it was: a client must not change that on the way.
fn require(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
    old: &Object,
    verb: &str,
) -> Result<(), Status> {
    let signer = fields::str(old, "spec.signerName");
    let domain = signer.split('/').next().unwrap_or_default();
    let policy = attributes.call.api.policy.policy();
    let may = |name: &str| {
        let question = rhumb_auth::Attributes {
            api_version: "*",
            name,
            ..rhumb_auth::Attributes::resource(attributes.call.user, verb, GROUP, "signers")
        };
        policy.authorize(&question).require(&question).is_ok()
    };
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    let reason = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(attributes.forbidden(object, reason))
}

fn check_subject(request: &Object) -> Result<(), String> {
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
    use crate::testing::object;

    fn request(signer: &str, groups: &[&str]) -> Object {
        let mut name = rcgen::DistinguishedName::new();
        for &group in groups {
            name.push(rcgen::DnType::OrganizationName, group);
        }
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = name;
        let key = rcgen::KeyPair::generate().expect("a key");
        let pem = params
            .serialize_request(&key)
            .and_then(|request| request.pem())
            .expect("a request");
        object(json!({"spec": {"signerName": signer, "request": STANDARD.encode(pem)}}))
    }

    #[test]
    fn nobody_becomes_a_master_by_a_certificate() {
        let refusal = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
        let table = [
            (request(CLIENT_SIGNER, &["dev"]), Ok(())),
            (request(CLIENT_SIGNER, &[MASTERS]), Err(refusal)),
            (request("example.com/own", &[MASTERS]), Ok(())),
        ];
        for (request, want) in table {
            assert_eq!(check_subject(&request), want.map_err(str::to_owned));
        }
        let broken = object(json!({"spec": {"signerName": CLIENT_SIGNER, "request": "AAAA"}}));
        let got = check_subject(&broken).expect_err("it is no request");
        assert!(got.starts_with("failed to parse CSR: "), "{got}");
    }
}
