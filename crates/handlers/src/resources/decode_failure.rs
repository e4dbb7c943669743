//! Why a request body cannot be decoded, as upstream's BadRequest error.

use rhumb_meta::Status;

use super::codec::split_api_version;

/// Why a body cannot be decoded as the expected type.
#[derive(Debug)]
pub(super) enum DecodeFailure {
    /// The body is malformed, or its type cannot be determined.
    Unrecognized(String),
    /// The body names a type, but does not match its schema, or is of another type than expected.
    CannotHandle {
        kind: String,
        version: String,
        text: String,
    },
    /// The body is of the expected kind in another version.
    WrongVersion(String),
}

impl DecodeFailure {
    pub(super) fn cannot_handle(kind: &str, api_version: &str, text: String) -> DecodeFailure {
        DecodeFailure::CannotHandle {
            kind: kind.to_owned(),
            version: split_api_version(api_version).1.to_owned(),
            text,
        }
    }

    /// The message without upstream's prefix.
    pub(super) fn into_message(self) -> String {
        match self {
            DecodeFailure::Unrecognized(text)
            | DecodeFailure::CannotHandle { text, .. }
            | DecodeFailure::WrongVersion(text) => text,
        }
    }

    /// The BadRequest error, with upstream's prefix.
    pub(super) fn status(self, expected_kind: &str, body: &[u8]) -> Status {
        Status::bad_request(match self {
            DecodeFailure::Unrecognized(text) => format!(
                "the object provided is unrecognized (must be of type {expected_kind}): {text} ({})",
                body_excerpt(body)
            ),
            DecodeFailure::CannotHandle {
                kind,
                version,
                text,
            } => format!(
                "{kind} in version {version:?} cannot be handled as a {expected_kind}: {text}"
            ),
            DecodeFailure::WrongVersion(text) => text,
        })
    }
}

/// The first bytes of an undecodable body for the error message, as upstream shows them.
fn body_excerpt(body: &[u8]) -> String {
    const SHOWN_BYTES: usize = 30;
    let excerpt = &body[..body.len().min(SHOWN_BYTES)];
    let ellipsis = if body.len() > SHOWN_BYTES { " ..." } else { "" };
    match excerpt.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{ellipsis}", String::from_utf8_lossy(excerpt)),
        Some(_) => {
            let digits: String = excerpt.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits}{ellipsis}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecodable_bodies_are_excerpted_in_errors() {
        for (body, expect) in [
            ("", "<empty>"),
            ("{", "{"),
            ("[]", "5b5d"),
            (
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}",
                "{\"apiVersion\":\"v1\",\"kind\":\"Con ...",
            ),
        ] {
            assert_eq!(body_excerpt(body.as_bytes()), expect);
        }
    }
}
