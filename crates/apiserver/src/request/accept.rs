//! In which form an answer is wanted: JSON, YAML or protobuf, the object itself, its metadata or a table.

use rhumb_meta::Status;

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    Json,
    Yaml,
    Protobuf,
}

/// All that can be read and written, as errors list them.
pub const MEDIA_NAMES: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

impl Media {
    pub fn name(self) -> &'static str {
        match self {
            Media::Json => MEDIA_NAMES[0],
            Media::Yaml => MEDIA_NAMES[1],
            Media::Protobuf => MEDIA_NAMES[2],
        }
    }
}

/// What a stream of changes can be written in, as errors list them.
pub const STREAM_NAMES: [&str; 2] = [
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// What of an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Object,
    /// `as=Table;v=v1;g=meta.k8s.io`
    Table,
    /// `as=PartialObjectMetadata` or `as=PartialObjectMetadataList`
    Metadata,
}

/// Whatever objects can be sent as.
pub const ALL_FORMS: &[Form] = &[Form::Object, Form::Table, Form::Metadata];

/// The answer a client wants, of those that can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    pub media: Media,
    pub form: Form,
    /// The apiVersion of tables and of metadata alone.
    pub meta_version: &'static str,
    /// Whether metadata alone is wanted of a list.
    pub of_list: bool,
}

const META_V1: &str = "meta.k8s.io/v1";
const META_V1BETA1: &str = "meta.k8s.io/v1beta1";

/// One clause of an Accept header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality_thousandths: u16,
}

/// More clauses than any client sends.
const CLAUSES_MAX: usize = 32;

impl Accept {
    /// The best of what the header asks for that `forms` allows; JSON when there is no header.
    pub fn negotiate(header: Option<&str>, forms: &[Form]) -> Result<Accept, Status> {
        let header = header.unwrap_or_default().trim();
        if header.is_empty() {
            return Ok(Accept {
                media: Media::Json,
                form: Form::Object,
                meta_version: META_V1,
                of_list: false,
            });
        }
        let mut clauses: Vec<Clause<'_>> = header
            .split(',')
            .take(CLAUSES_MAX)
            .map(Clause::parse)
            .collect();
        // The sort is stable: among equals the client's order counts.
        clauses.sort_by_key(|clause| std::cmp::Reverse(clause.quality_thousandths));
        clauses
            .iter()
            .find_map(|clause| clause.answer(forms))
            .ok_or_else(|| Status::not_acceptable(&MEDIA_NAMES))
    }

    /// The same for a stream of changes, which YAML cannot hold.
    pub fn negotiate_stream(header: Option<&str>, forms: &[Form]) -> Result<Accept, Status> {
        let header = header.unwrap_or_default();
        let streamable: Vec<&str> = header
            .split(',')
            .filter(|clause| Clause::parse(clause).media != Media::Yaml.name())
            .collect();
        if streamable.is_empty() {
            return Err(Status::not_acceptable(&STREAM_NAMES));
        }
        Accept::negotiate(Some(&streamable.join(",")), forms)
            .map_err(|_| Status::not_acceptable(&STREAM_NAMES))
    }
}

/// Whether a client takes any of our media types at all, whatever it wants in them. This is asked before anything
/// else, and without wildcards but the one for everything.
pub fn is_acceptable(header: Option<&str>) -> bool {
    let header = header.unwrap_or_default();
    header.is_empty()
        || header
            .split(',')
            .map(|clause| Clause::parse(clause).media)
            .any(|media| media == "*/*" || MEDIA_NAMES.contains(&media))
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Clause<'a> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let mut quality_thousandths = 1000;
        let mut parameters = Vec::new();
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim().trim_matches('"');
            match name.trim() {
                "q" => quality_thousandths = quality(value),
                name => parameters.push((name, value)),
            }
        }
        Clause {
            media,
            parameters,
            quality_thousandths,
        }
    }

    fn answer(&self, forms: &[Form]) -> Option<Accept> {
        let media = match self.media {
            "application/json" | "*/*" | "application/*" => Media::Json,
            "application/yaml" => Media::Yaml,
            "application/vnd.kubernetes.protobuf" => Media::Protobuf,
            _ => return None,
        };
        let parameter = |name: &str| {
            self.parameters
                .iter()
                .find(|(parameter, _)| *parameter == name)
                .map(|(_, value)| *value)
        };
        let meta_version = match parameter("v") {
            Some("v1beta1") => META_V1BETA1,
            _ => META_V1,
        };
        let form = match parameter("as") {
            None => Form::Object,
            Some(form) => {
                let is_known = matches!(parameter("v"), Some("v1" | "v1beta1"));
                if parameter("g") != Some("meta.k8s.io") || !is_known {
                    return None;
                }
                match form {
                    "Table" => Form::Table,
                    "PartialObjectMetadata" | "PartialObjectMetadataList" => Form::Metadata,
                    _ => return None,
                }
            }
        };
        // Tables have no protobuf form.
        let writable = (media, form) != (Media::Protobuf, Form::Table);
        (writable && forms.contains(&form)).then_some(Accept {
            media,
            form,
            meta_version,
            of_list: parameter("as") == Some("PartialObjectMetadataList"),
        })
    }
}

/// `0.5` as 500. What is no number counts as 1, as it does where the parameter is absent.
fn quality(text: &str) -> u16 {
    match text.parse::<f32>() {
        Ok(quality) if (0.0..=1.0).contains(&quality) => (quality * 1000.0) as u16,
        _ => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expect: Option<(Media, Form)>) {
        let got = Accept::negotiate(Some(header), ALL_FORMS)
            .ok()
            .map(|accept| (accept.media, accept.form));
        assert_eq!(got, expect, "{header}");
    }

    #[test]
    fn the_best_acceptable_form_is_chosen() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        check("", Some((Media::Json, Form::Object)));
        check("*/*", Some((Media::Json, Form::Object)));
        check("application/yaml", Some((Media::Yaml, Form::Object)));
        check(kubectl, Some((Media::Json, Form::Table)));
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Some((Media::Json, Form::Metadata)),
        );
        check(
            "application/vnd.kubernetes.protobuf, application/json",
            Some((Media::Protobuf, Form::Object)),
        );
        check(
            "application/vnd.kubernetes.protobuf;stream=watch",
            Some((Media::Protobuf, Form::Object)),
        );
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Some((Media::Protobuf, Form::Metadata)),
        );
        check(
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
            Some((Media::Json, Form::Object)),
        );
        check(
            "application/yaml;q=0.2, application/json;q=0.8",
            Some((Media::Json, Form::Object)),
        );
        check("application/cbor", None);
        check(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            Some((Media::Json, Form::Table)),
        );
        check("application/json;as=Table;v=v2;g=meta.k8s.io", None);
        check("text/html", None);
    }

    #[test]
    fn a_stream_is_not_yaml() {
        let stream = |header: &str| {
            Accept::negotiate_stream(Some(header), ALL_FORMS)
                .ok()
                .map(|accept| accept.media)
        };
        assert_eq!(stream(""), Some(Media::Json));
        assert_eq!(stream("application/yaml, */*"), Some(Media::Json));
        assert_eq!(stream("application/yaml"), None);
    }

    #[test]
    fn media_types_are_looked_at_before_their_parameters() {
        for (header, fine) in [
            ("", true),
            ("*/*", true),
            ("text/html, application/yaml;q=0.1", true),
            ("application/json;as=Nothing", true),
            ("application/*", false),
            ("text/html", false),
        ] {
            assert_eq!(is_acceptable(Some(header)), fine, "{header}");
        }
    }

    #[test]
    fn a_form_that_is_not_offered_is_passed_over() {
        let header = Some("application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
        let accept = Accept::negotiate(header, &[Form::Object]).unwrap();
        assert_eq!(accept.form, Form::Object);
    }
}
