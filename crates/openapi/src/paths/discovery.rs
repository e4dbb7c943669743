//! The discovery paths, `/version` and the service account issuer paths.

use super::PathItem;
use crate::names;
use crate::operation::{JSON_MEDIA_TYPE, OBJECT_MEDIA_TYPES, OK, Operation, ResponseContent};

fn get(path: &str, id: &str, tag: &str, description: &str, content: ResponseContent) -> PathItem {
    let operation = Operation {
        method: "get",
        id: id.to_string(),
        description: description.to_string(),
        tag: tag.to_string(),
        action: None,
        parameters: Vec::new(),
        body: None,
        success_responses: &[OK],
        content,
        produces: OBJECT_MEDIA_TYPES,
        consumes: OBJECT_MEDIA_TYPES,
    };
    (path.to_string(), vec![operation])
}

/// `/apis/apps/v1/`: the resources of a group version.
pub(crate) fn group_version_path(group: &str, version: &str) -> PathItem {
    let group_version = names::group_operation_id(group) + &names::capitalize(version);
    get(
        &format!("/{}/", names::group_version_root(group, version)),
        &format!("get{group_version}APIResources"),
        &format!("{}_{version}", names::group_tag(group)),
        "get available resources",
        ResponseContent::Object(names::meta_v1_type("APIResourceList")),
    )
}

/// `/apis/apps/`: the versions of a group; `/api/` for the core group.
pub(crate) fn group_path(group: &str) -> PathItem {
    let in_id = names::group_operation_id(group);
    let tag = names::group_tag(group);
    if group.is_empty() {
        get(
            "/api/",
            "getCoreAPIVersions",
            &tag,
            "get available API versions",
            ResponseContent::Object(names::meta_v1_type("APIVersions")),
        )
    } else {
        get(
            &format!("/apis/{group}/"),
            &format!("get{in_id}APIGroup"),
            &tag,
            "get information of a group",
            ResponseContent::Object(names::meta_v1_type("APIGroup")),
        )
    }
}

/// The paths that do not depend on the served kinds, each with the name of its document.
pub(crate) fn root_paths() -> Vec<(&'static str, PathItem)> {
    let groups = get(
        "/apis/",
        "getAPIVersions",
        "apis",
        "get available API versions",
        ResponseContent::Object(names::meta_v1_type("APIGroupList")),
    );
    let mut version = get(
        "/version/",
        "getCodeVersion",
        "version",
        "get the version of the server",
        ResponseContent::Object("io.k8s.apimachinery.pkg.version.Info".to_string()),
    );
    let mut issuer = get(
        "/.well-known/openid-configuration/",
        "getServiceAccountIssuerOpenIDConfiguration",
        "WellKnown",
        "get the OpenID configuration of the service account issuer",
        ResponseContent::Text,
    );
    let mut keys = get(
        "/openid/v1/jwks/",
        "getServiceAccountIssuerOpenIDKeyset",
        "openid",
        "get the keys that sign service account tokens",
        ResponseContent::Text,
    );
    for ((_, operations), produces, consumes) in [
        (&mut version, JSON_MEDIA_TYPE, JSON_MEDIA_TYPE),
        (&mut issuer, JSON_MEDIA_TYPE, &[]),
        (&mut keys, &["application/jwk-set+json"], &[]),
    ] as [(&mut PathItem, &[&str], &[&str]); 3]
    {
        for operation in operations {
            operation.produces = produces;
            operation.consumes = consumes;
        }
    }
    vec![
        ("apis", groups),
        ("version", version),
        (".well-known/openid-configuration", issuer),
        ("openid/v1/jwks", keys),
    ]
}
