//! The options of an explained CONNECT request, such as PodExecOptions: webhooks and policies get them as its object.

use anyhow::{Result, anyhow, bail};
use rhumb_api::{Kind, SubresourceKind};
use rhumb_meta::GroupVersionKind;
use rhumb_schema::{DecodeOptions, Table};
use serde_json::{Value, json};

use crate::manifests::UnstructuredObject;

/// Decodes options of this kind. Without any, they are those of a request without query parameters.
pub(super) fn connect_options(
    kind: &GroupVersionKind,
    options: Option<UnstructuredObject>,
) -> Result<UnstructuredObject> {
    let name = &*kind.kind;
    let api_version = kind.group_version().to_string();
    let types = json!({"apiVersion": api_version, "kind": name});
    let options = options.map_or_else(|| types.clone(), Value::Object);
    for (field, expected) in [("apiVersion", &*api_version), ("kind", name)] {
        if options[field] != expected {
            bail!(
                "--connect-options: {field} is {}; the options of this request are of kind {name} in {api_version}",
                options[field]
            );
        }
    }
    let table = Table::builtin();
    let schema = format!("io.k8s.api.core.{}.{name}", kind.version);
    let schema = table
        .type_id(&schema)
        .ok_or_else(|| anyhow!("the schema table has no type {schema}"))?;
    // The server ignores unknown query parameters; an unknown field in a file is a mistake.
    let decoded = rhumb_schema::decode_value(table, schema, &options, DecodeOptions::default())
        .map_err(|error| anyhow!("--connect-options: {error}"))?;
    if let Some(problem) = decoded.problems.first() {
        bail!("--connect-options: {problem}");
    }
    let mut options = decoded.object;
    rhumb_schema::canonicalize(table, schema, &mut options);
    Ok(options)
}

/// Whether the kind holds the options of CONNECT requests.
pub(super) fn is_connect_options(kinds: &[Kind], gvk: &GroupVersionKind) -> bool {
    let mut subresources = kinds.iter().flat_map(|kind| &kind.subresources);
    subresources.any(|subresource| {
        subresource.kind == SubresourceKind::NodeProxied && subresource.object.as_ref() == Some(gvk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connect_subresource_has_default_options() {
        let mut names = Vec::new();
        for kind in rhumb_api::kinds::all() {
            for subresource in &kind.subresources {
                let Some(object) = &subresource.object else {
                    continue;
                };
                if subresource.kind == SubresourceKind::NodeProxied {
                    let options = connect_options(object, None).expect("default options");
                    let mut expect = json!({"apiVersion": "v1", "kind": object.kind.to_string()});
                    if object.kind == "PodExecOptions" {
                        expect["command"] = Value::Null;
                    }
                    assert_eq!(Value::Object(options), expect);
                    names.push(object.kind.to_string());
                }
            }
        }
        names.sort();
        names.dedup();
        assert_eq!(
            names,
            [
                "NodeProxyOptions",
                "PodAttachOptions",
                "PodExecOptions",
                "PodPortForwardOptions",
                "PodProxyOptions",
                "ServiceProxyOptions",
            ]
        );
    }
}
