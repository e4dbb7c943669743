//! The `Host` header of HTTP/1.1, which every request must have exactly once (RFC 9112, section 3.2).

use http::header::{CONNECTION, HOST};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};
use rhumb_handlers::http::{Reply, ResponseBody};

/// The 400 for a request without exactly one `Host`, worded like Go's server. The connection is closed after it.
pub(super) fn rejection(version: Version, headers: &HeaderMap) -> Option<Response<ResponseBody>> {
    if version != Version::HTTP_11 {
        return None;
    }
    let text = match headers.get_all(HOST).iter().count() {
        0 => "400 Bad Request: missing required Host header",
        1 => return None,
        _ => "400 Bad Request: too many Host headers",
    };
    let mut response = Reply::text(StatusCode::BAD_REQUEST, text).into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_required_once() {
        let status = |version, hosts: usize| {
            let hosts = (0..hosts).map(|_| (HOST, HeaderValue::from_static("a")));
            let mut headers = HeaderMap::new();
            hosts.for_each(|(name, value)| {
                headers.append(name, value);
            });
            rejection(version, &headers).map(|response| response.status().as_u16())
        };
        assert_eq!(status(Version::HTTP_11, 0), Some(400));
        assert_eq!(status(Version::HTTP_11, 1), None);
        assert_eq!(status(Version::HTTP_11, 2), Some(400));
        assert_eq!(status(Version::HTTP_10, 0), None);
        assert_eq!(status(Version::HTTP_2, 0), None);
    }
}
