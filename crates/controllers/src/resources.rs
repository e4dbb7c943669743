//! Which resources a server has, and what kube-rs has no call for.

use http::header::{ACCEPT, CONTENT_TYPE};
use kube::api::{ListParams, ObjectList, PartialObjectMeta};
use kube::core::DynamicObject;
use kube::discovery::{ApiResource, Discovery, Scope, verbs};
use kube::{Api, Client, Resource};

use crate::Error;

/// Objects in a page: few enough that no request takes long.
const PAGE: u32 = 500;
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// One kind that a server has, at its best version.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) api: ApiResource,
    pub(crate) is_namespaced: bool,
    verbs: Vec<String>,
}

impl Kind {
    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    /// `pods`, `deployments.apps`.
    pub(crate) fn name(&self) -> String {
        match self.api.group.as_str() {
            "" => self.api.plural.clone(),
            group => format!("{}.{group}", self.api.plural),
        }
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.api.group == group && self.api.plural == plural
    }

    pub(crate) fn in_namespace(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.api)
    }
}

/// All kinds whose objects can be listed and deleted.
pub(crate) async fn deletable(client: &Client) -> Result<Vec<Kind>, Error> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let kinds = discovery.groups().flat_map(|group| {
        group
            .resources_by_stability()
            .into_iter()
            .map(|(api, capabilities)| Kind {
                api,
                is_namespaced: capabilities.scope == Scope::Namespaced,
                verbs: capabilities.operations,
            })
    });
    let mut kinds: Vec<Kind> = kinds
        .filter(|kind| kind.can(verbs::DELETE) && kind.can(verbs::LIST))
        .collect();
    kinds.sort_by_key(Kind::name);
    Ok(kinds)
}

/// Deletes all objects of a kind in a namespace, page by page, in the way that is the kind's own.
pub(crate) async fn delete_all(client: &Client, kind: &Kind, namespace: &str) -> Result<(), Error> {
    let path = DynamicObject::url_path(&kind.api, Some(namespace));
    let mut rest = String::new();
    loop {
        let request = http::Request::delete(format!("{path}?limit={PAGE}{rest}"))
            .header(ACCEPT, METADATA_LIST)
            .header(CONTENT_TYPE, "application/json")
            .body(
                br#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#
                    .to_vec(),
            )
            .map_err(|error| Error::Other(error.to_string()))?;
        let page: ObjectList<PartialObjectMeta> = client.request(request).await?;
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => rest = format!("&continue={token}"),
            _ => return Ok(()),
        }
    }
}

/// Calls `each` for the metadata of every object.
pub(crate) async fn each_metadata(
    objects: &Api<DynamicObject>,
    mut each: impl FnMut(&PartialObjectMeta<DynamicObject>),
) -> Result<(), Error> {
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = objects.list_metadata(&params).await?;
        page.items.iter().for_each(&mut each);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params.continue_token = Some(token),
            _ => return Ok(()),
        }
    }
}

/// Whether there is none.
pub(crate) async fn is_empty(objects: &Api<DynamicObject>) -> Result<bool, Error> {
    let page = objects
        .list_metadata(&ListParams::default().limit(1))
        .await?;
    Ok(page.items.is_empty())
}
