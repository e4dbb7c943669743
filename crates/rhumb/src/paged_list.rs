//! Lists all objects of a resource from an API server, in pages. Entry point: [`list`].

use anyhow::{Context, Result, anyhow};
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The `limit` of each request.
const PAGE_SIZE: usize = 2000;

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(borrow)]
    metadata: RawListMetadata<'a>,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawListMetadata<'a> {
    #[serde(borrow, rename = "continue")]
    continue_token: std::borrow::Cow<'a, str>,
}

/// Passes the JSON of every object of a list path to `each`. Objects that `each` cannot decode are skipped and added to
/// `notes`.
pub(crate) async fn list(
    client: &Client,
    path: &str,
    notes: &mut Vec<String>,
    mut each: impl FnMut(&[u8]) -> Result<(), serde_json::Error>,
) -> Result<()> {
    let mut continue_token = String::new();
    loop {
        let query = match continue_token.as_str() {
            "" => format!("{path}?limit={PAGE_SIZE}"),
            token => format!("{path}?limit={PAGE_SIZE}&continue={token}"),
        };
        let request = http::Request::get(query).body(Vec::new())?;
        let text = client.request_text(request).await;
        let text = text
            .map_err(status_message)
            .with_context(|| format!("failed to list {path}"))?;
        let page: RawList<'_> = serde_json::from_str(&text)
            .with_context(|| format!("{path}: the response is not a list"))?;
        for item in page.items {
            if let Err(problem) = each(item.get().as_bytes()) {
                let name = name_of(item.get());
                notes.push(format!("{path}: {name} is skipped: {problem}"));
            }
        }
        if page.metadata.continue_token.is_empty() {
            return Ok(());
        }
        continue_token = page.metadata.continue_token.into_owned();
    }
}

/// The message of the server's Status. kube-rs would print the message twice.
fn status_message(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        error => error.into(),
    }
}

/// `namespace/name` of an object that cannot be decoded, as far as its metadata can.
fn name_of(json: &str) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct PartialMetadata {
        namespace: String,
        name: String,
    }
    #[derive(Deserialize)]
    struct NamedObject {
        metadata: PartialMetadata,
    }
    match serde_json::from_str(json).map(|object: NamedObject| object.metadata) {
        Err(_) => "an object".to_owned(),
        Ok(metadata) if metadata.namespace.is_empty() => metadata.name,
        Ok(metadata) => format!("{}/{}", metadata.namespace, metadata.name),
    }
}
