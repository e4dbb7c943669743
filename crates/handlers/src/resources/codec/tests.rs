use super::*;

#[test]
fn content_types_are_read_with_their_parameters() {
    for (content_type, expect) in [
        (None, Some(MediaType::Json)),
        (Some(""), Some(MediaType::Json)),
        (Some("application/json"), Some(MediaType::Json)),
        (
            Some("application/yaml; charset=utf-8"),
            Some(MediaType::Yaml),
        ),
        (
            Some("application/vnd.kubernetes.protobuf"),
            Some(MediaType::Protobuf),
        ),
        (Some("application/json;"), Some(MediaType::Json)),
        (Some("application/json;;"), None),
        (Some("application/json; x"), None),
        (Some("application/cbor"), None),
        (Some("text/plain"), None),
    ] {
        assert_eq!(
            body_media_type(content_type).ok(),
            expect,
            "{content_type:?}"
        );
    }
}

#[test]
fn an_invalid_protobuf_body_gets_upstreams_error() {
    let check = |body: &[u8], expect: &str| {
        let failure = DecodeFailure::Unrecognized(open_envelope(body).err().unwrap());
        let status = failure.status("Pod", body);
        let message =
            format!("the object provided is unrecognized (must be of type Pod): {expect}");
        assert_eq!((status.code, status.message), (400, message));
    };
    check(b"", "empty data (<empty>)");
    check(b"k8s\0", "empty body (6b387300)");
    check(b"k8s\0\x0a\x05", "unexpected EOF (6b3873000a05)");
    let prefix =
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    check(
        br#"{"apiVersion":"v1","kind":"Pod"}"#,
        &format!(r#"{prefix} ({{"apiVersion":"v1","kind":"Pod ...)"#),
    );
}
