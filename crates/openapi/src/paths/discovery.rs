//! The paths that tell what is served.

use super::Path;
use crate::names;
use crate::operation::{Content, JSON, OBJECTS, OK, Operation};

fn get(path: &str, id: &str, tag: &str, description: &str, content: Content) -> Path {
    let operation = Operation {
        method: "get",
        id: id.to_string(),
        description: description.to_string(),
        tag: tag.to_string(),
        action: None,
        parameters: Vec::new(),
        body: None,
        answers: &[OK],
        content,
        produces: OBJECTS,
        consumes: OBJECTS,
    };
    (path.to_string(), vec![operation])
}

/// `/apis/apps/v1/`: the resources of a version.
pub(crate) fn group_version_path(group: &str, version: &str) -> Path {
    let group_version = names::group_in_id(group) + &names::capital(version);
    get(
        &format!("/{}/", names::root(group, version)),
        &format!("get{group_version}APIResources"),
        &format!("{}_{version}", names::group_tag(group)),
        "get available resources",
        Content::Object(names::meta("APIResourceList")),
    )
}

/// `/apis/apps/`: the versions of a group; `/api/` for the core group.
pub(crate) fn group_path(group: &str) -> Path {
    let in_id = names::group_in_id(group);
    let tag = names::group_tag(group);
    if group.is_empty() {
        get(
            "/api/",
            "getCoreAPIVersions",
            &tag,
            "get available API versions",
            Content::Object(names::meta("APIVersions")),
        )
    } else {
        get(
            &format!("/apis/{group}/"),
            &format!("get{in_id}APIGroup"),
            &tag,
            "get information of a group",
            Content::Object(names::meta("APIGroup")),
        )
    }
}

/// What is there whatever kinds are served, with the name of its document.
pub(crate) fn root_paths() -> Vec<(&'static str, Path)> {
    let groups = get(
        "/apis/",
        "getAPIVersions",
        "apis",
        "get available API versions",
        Content::Object(names::meta("APIGroupList")),
    );
    let mut version = get(
        "/version/",
        "getCodeVersion",
        "version",
        "get the version of the server",
        Content::Object("io.k8s.apimachinery.pkg.version.Info".to_string()),
    );
    let mut issuer = get(
        "/.well-known/openid-configuration/",
        "getServiceAccountIssuerOpenIDConfiguration",
        "WellKnown",
        "get where tokens of service accounts come from",
        Content::Text,
    );
    let mut keys = get(
        "/openid/v1/jwks/",
        "getServiceAccountIssuerOpenIDKeyset",
        "openid",
        "get the keys that tokens of service accounts are signed with",
        Content::Text,
    );
    for ((_, operations), produces, consumes) in [
        (&mut version, JSON, JSON),
        (&mut issuer, JSON, &[]),
        (&mut keys, &["application/jwk-set+json"], &[]),
    ] as [(&mut Path, &[&str], &[&str]); 3]
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
