//! The options of a CONNECT request, such as PodExecOptions, from its query parameters (upstream: `ParameterCodec`).
//! Admission gets them as the object of the request.

use rhumb_api::JsonObject;
use rhumb_meta::Status;
use serde_json::{Value, json};

use crate::request::QueryParameters;
use crate::resources::ResourceRequest;

/// The object with the options of a request to `exec`, `attach`, `portforward` or `proxy`.
pub(super) fn connect_options(request: &ResourceRequest<'_>) -> Result<JsonObject, Status> {
    let kind = request
        .subresource
        .and_then(|subresource| subresource.object.as_ref())
        .ok_or_else(|| Status::internal_error("the subresource has no options"))?;
    let mut options = JsonObject::new();
    options.insert("kind".into(), kind.kind.to_string().into());
    options.insert("apiVersion".into(), kind.group_version().to_string().into());
    match &*kind.kind {
        "PodExecOptions" => {
            stream_options(request.query, &mut options);
            let command: Vec<&str> = request.query.all("command").collect();
            // As in Go, an absent list is null.
            let command = (!command.is_empty()).then_some(command);
            options.insert("command".into(), json!(command));
        }
        "PodAttachOptions" => stream_options(request.query, &mut options),
        "PodPortForwardOptions" => {
            let ports = ports(request.query)?;
            if !ports.is_empty() {
                options.insert("ports".into(), json!(ports));
            }
        }
        _ => {
            let path = proxied_path(&request.path.rest, request.path.has_trailing_slash);
            if !path.is_empty() {
                options.insert("path".into(), path.into());
            }
        }
    }
    Ok(options)
}

fn stream_options(query: &QueryParameters, options: &mut JsonObject) {
    for name in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(name) {
            options.insert(name.into(), Value::Bool(true));
        }
    }
    let container = query.text("container");
    if !container.is_empty() {
        options.insert("container".into(), container.into());
    }
}

fn ports(query: &QueryParameters) -> Result<Vec<i32>, Status> {
    query
        .all("ports")
        .map(|text| {
            text.parse().map_err(|_| {
                let problem = match text.parse::<i128>() {
                    Ok(_) => "value out of range",
                    Err(_) => "invalid syntax",
                };
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {problem}"))
            })
        })
        .collect()
}

/// The path behind `proxy`, with a leading slash; a trailing one is kept.
fn proxied_path(segments: &[String], has_trailing_slash: bool) -> String {
    let mut path = match segments {
        [] => String::new(),
        segments => format!("/{}", segments.join("/")),
    };
    if has_trailing_slash && !path.ends_with('/') {
        path.push('/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxied_paths_keep_their_slashes() {
        let segments = |path: &[&str]| -> Vec<String> {
            path.iter().map(|segment| (*segment).to_owned()).collect()
        };
        for (path, has_trailing_slash, expect) in [
            (&[][..], false, ""),
            (&[], true, "/"),
            (&["a", "b"], false, "/a/b"),
            (&["a"], true, "/a/"),
        ] {
            assert_eq!(proxied_path(&segments(path), has_trailing_slash), expect);
        }
    }

    #[test]
    fn ports_are_32_bit_integers() {
        let parse = |text: &str| {
            let query = QueryParameters::parse(text).expect("valid query");
            ports(&query).map_err(|status| status.message)
        };
        assert_eq!(parse("ports=80&ports=443"), Ok(vec![80, 443]));
        let error = "strconv.ParseInt: parsing \"x\": invalid syntax";
        assert_eq!(parse("ports=x"), Err(error.to_owned()));
        let error = "strconv.ParseInt: parsing \"5000000000\": value out of range";
        assert_eq!(parse("ports=5000000000"), Err(error.to_owned()));
    }
}
