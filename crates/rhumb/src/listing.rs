//! All objects of a kind, as a server lists them.

use anyhow::{Context, Result, anyhow};
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Objects of one answer.
const PAGE: usize = 2000;

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    metadata: ListMetadata<'a>,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMetadata<'a> {
    #[serde(borrow, rename = "continue")]
    more: std::borrow::Cow<'a, str>,
}

/// Gives all objects of a path to `each`, page by page. What it cannot read is left out and noted.
pub(crate) async fn list(
    client: &Client,
    path: &str,
    notes: &mut Vec<String>,
    mut each: impl FnMut(&[u8]) -> Result<(), serde_json::Error>,
) -> Result<()> {
    let mut more = String::new();
    loop {
        let query = match more.as_str() {
            "" => format!("{path}?limit={PAGE}"),
            more => format!("{path}?limit={PAGE}&continue={more}"),
        };
        let request = http::Request::get(query).body(Vec::new())?;
        let text = client.request_text(request).await;
        let text = text
            .map_err(plain)
            .with_context(|| format!("{path} cannot be read"))?;
        let page: List<'_> =
            serde_json::from_str(&text).with_context(|| format!("{path} is no list"))?;
        for item in page.items {
            if let Err(problem) = each(item.get().as_bytes()) {
                let name = name_of(item.get());
                notes.push(format!("{path}: {name} is left out: {problem}"));
            }
        }
        if page.metadata.more.is_empty() {
            return Ok(());
        }
        more = page.metadata.more.into_owned();
    }
}

/// What the server said, without how kube-rs shows it: it would be there twice.
fn plain(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        error => error.into(),
    }
}

/// As far as it can be told, of an object that cannot be read.
fn name_of(json: &str) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Names {
        namespace: String,
        name: String,
    }
    #[derive(Deserialize)]
    struct Named {
        metadata: Names,
    }
    match serde_json::from_str(json).map(|named: Named| named.metadata) {
        Err(_) => "an object".to_owned(),
        Ok(names) if names.namespace.is_empty() => names.name,
        Ok(names) => format!("{}/{}", names.namespace, names.name),
    }
}
