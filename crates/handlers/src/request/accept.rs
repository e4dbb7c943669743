//! Content negotiation by the Accept header: media type (JSON, YAML, protobuf) and representation (object, table,
//! partial metadata) of a response (upstream: `handlers/negotiation`).

use rhumb_meta::Status;

/// The media type of a request or response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    Json,
    Yaml,
    Protobuf,
}

/// The supported media types, as errors list them.
pub const MEDIA_TYPE_NAMES: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

impl MediaType {
    pub fn name(self) -> &'static str {
        match self {
            MediaType::Json => MEDIA_TYPE_NAMES[0],
            MediaType::Yaml => MEDIA_TYPE_NAMES[1],
            MediaType::Protobuf => MEDIA_TYPE_NAMES[2],
        }
    }
}

/// The supported media types of watches, as errors list them.
pub const STREAM_MEDIA_TYPE_NAMES: [&str; 2] = [
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// How objects are represented in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectRepresentation {
    Object,
    /// `as=Table;v=v1;g=meta.k8s.io`
    Table,
    /// `as=PartialObjectMetadata` or `as=PartialObjectMetadataList`
    PartialObjectMetadata,
}

/// All representations of objects.
pub const ALL_REPRESENTATIONS: &[ObjectRepresentation] = &[
    ObjectRepresentation::Object,
    ObjectRepresentation::Table,
    ObjectRepresentation::PartialObjectMetadata,
];

/// The negotiated media type and representation of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegotiatedAccept {
    pub media: MediaType,
    pub representation: ObjectRepresentation,
    /// The apiVersion of Table and PartialObjectMetadata.
    pub meta_version: &'static str,
    /// Whether `PartialObjectMetadataList` was requested.
    pub is_metadata_list: bool,
}

const META_V1: &str = "meta.k8s.io/v1";
const META_V1BETA1: &str = "meta.k8s.io/v1beta1";

/// One clause of an Accept header.
struct AcceptClause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality_thousandths: u16,
}

/// The maximum number of clauses; more than any client sends.
const CLAUSES_MAX: usize = 32;

impl NegotiatedAccept {
    /// The most preferred clause that is supported and allowed by `representations`; JSON without a header.
    pub fn negotiate(
        header: Option<&str>,
        representations: &[ObjectRepresentation],
    ) -> Result<NegotiatedAccept, Status> {
        let header = header.unwrap_or_default().trim();
        if header.is_empty() {
            return Ok(NegotiatedAccept {
                media: MediaType::Json,
                representation: ObjectRepresentation::Object,
                meta_version: META_V1,
                is_metadata_list: false,
            });
        }
        let mut clauses: Vec<AcceptClause<'_>> = header
            .split(',')
            .take(CLAUSES_MAX)
            .map(AcceptClause::parse)
            .collect();
        // The sort is stable, so clauses of equal quality keep their order.
        clauses.sort_by_key(|clause| std::cmp::Reverse(clause.quality_thousandths));
        clauses
            .iter()
            .find_map(|clause| clause.negotiate(representations))
            .ok_or_else(|| Status::not_acceptable(&MEDIA_TYPE_NAMES))
    }

    /// Negotiates the format of a watch, which cannot be YAML.
    pub fn negotiate_stream(
        header: Option<&str>,
        representations: &[ObjectRepresentation],
    ) -> Result<NegotiatedAccept, Status> {
        let header = header.unwrap_or_default();
        let streamable: Vec<&str> = header
            .split(',')
            .filter(|clause| AcceptClause::parse(clause).media != MediaType::Yaml.name())
            .collect();
        if streamable.is_empty() {
            return Err(Status::not_acceptable(&STREAM_MEDIA_TYPE_NAMES));
        }
        NegotiatedAccept::negotiate(Some(&streamable.join(",")), representations)
            .map_err(|_| Status::not_acceptable(&STREAM_MEDIA_TYPE_NAMES))
    }
}

/// Whether the header names a supported media type, whatever its parameters. As upstream does, this is checked before
/// anything else, and `*/*` is the only wildcard.
pub fn accepts_any_media_type(header: Option<&str>) -> bool {
    let header = header.unwrap_or_default();
    header.is_empty()
        || header
            .split(',')
            .map(|clause| AcceptClause::parse(clause).media)
            .any(|media| media == "*/*" || MEDIA_TYPE_NAMES.contains(&media))
}

impl<'a> AcceptClause<'a> {
    fn parse(text: &'a str) -> AcceptClause<'a> {
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
        AcceptClause {
            media,
            parameters,
            quality_thousandths,
        }
    }

    fn negotiate(&self, representations: &[ObjectRepresentation]) -> Option<NegotiatedAccept> {
        let media = match self.media {
            "application/json" | "*/*" | "application/*" => MediaType::Json,
            "application/yaml" => MediaType::Yaml,
            "application/vnd.kubernetes.protobuf" => MediaType::Protobuf,
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
        let representation = match parameter("as") {
            None => ObjectRepresentation::Object,
            Some(representation) => {
                let is_known = matches!(parameter("v"), Some("v1" | "v1beta1"));
                if parameter("g") != Some("meta.k8s.io") || !is_known {
                    return None;
                }
                match representation {
                    "Table" => ObjectRepresentation::Table,
                    "PartialObjectMetadata" | "PartialObjectMetadataList" => {
                        ObjectRepresentation::PartialObjectMetadata
                    }
                    _ => return None,
                }
            }
        };
        // Tables cannot be encoded as protobuf.
        let writable =
            (media, representation) != (MediaType::Protobuf, ObjectRepresentation::Table);
        (writable && representations.contains(&representation)).then_some(NegotiatedAccept {
            media,
            representation,
            meta_version,
            is_metadata_list: parameter("as") == Some("PartialObjectMetadataList"),
        })
    }
}

/// Parses `0.5` as 500. Invalid values count as 1, like an absent parameter.
fn quality(text: &str) -> u16 {
    match text.parse::<f32>() {
        Ok(quality) if (0.0..=1.0).contains(&quality) => (quality * 1000.0) as u16,
        _ => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expect: Option<(MediaType, ObjectRepresentation)>) {
        let got = NegotiatedAccept::negotiate(Some(header), ALL_REPRESENTATIONS)
            .ok()
            .map(|accept| (accept.media, accept.representation));
        assert_eq!(got, expect, "{header}");
    }

    #[test]
    fn the_best_acceptable_representation_is_chosen() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        check("", Some((MediaType::Json, ObjectRepresentation::Object)));
        check("*/*", Some((MediaType::Json, ObjectRepresentation::Object)));
        check(
            "application/yaml",
            Some((MediaType::Yaml, ObjectRepresentation::Object)),
        );
        check(
            kubectl,
            Some((MediaType::Json, ObjectRepresentation::Table)),
        );
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Some((MediaType::Json, ObjectRepresentation::PartialObjectMetadata)),
        );
        check(
            "application/vnd.kubernetes.protobuf, application/json",
            Some((MediaType::Protobuf, ObjectRepresentation::Object)),
        );
        check(
            "application/vnd.kubernetes.protobuf;stream=watch",
            Some((MediaType::Protobuf, ObjectRepresentation::Object)),
        );
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Some((
                MediaType::Protobuf,
                ObjectRepresentation::PartialObjectMetadata,
            )),
        );
        check(
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
            Some((MediaType::Json, ObjectRepresentation::Object)),
        );
        check(
            "application/yaml;q=0.2, application/json;q=0.8",
            Some((MediaType::Json, ObjectRepresentation::Object)),
        );
        check("application/cbor", None);
        check(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            Some((MediaType::Json, ObjectRepresentation::Table)),
        );
        check("application/json;as=Table;v=v2;g=meta.k8s.io", None);
        check("text/html", None);
    }

    #[test]
    fn a_stream_is_not_yaml() {
        let stream = |header: &str| {
            NegotiatedAccept::negotiate_stream(Some(header), ALL_REPRESENTATIONS)
                .ok()
                .map(|accept| accept.media)
        };
        assert_eq!(stream(""), Some(MediaType::Json));
        assert_eq!(stream("application/yaml, */*"), Some(MediaType::Json));
        assert_eq!(stream("application/yaml"), None);
    }

    #[test]
    fn media_types_are_checked_before_their_parameters() {
        for (header, fine) in [
            ("", true),
            ("*/*", true),
            ("text/html, application/yaml;q=0.1", true),
            ("application/json;as=Nothing", true),
            ("application/*", false),
            ("text/html", false),
        ] {
            assert_eq!(accepts_any_media_type(Some(header)), fine, "{header}");
        }
    }

    #[test]
    fn a_representation_that_is_not_offered_is_skipped() {
        let header = Some("application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
        let accept = NegotiatedAccept::negotiate(header, &[ObjectRepresentation::Object]).unwrap();
        assert_eq!(accept.representation, ObjectRepresentation::Object);
    }
}
