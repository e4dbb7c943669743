//! Image reference parsing, for the default of `imagePullPolicy`.

const NAME_MAX_BYTES: usize = 255;
const TAG_MAX_BYTES: usize = 128;

/// `Always` for the tag `latest`, `IfNotPresent` for any other tag or a digest.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    }
}

/// Whether it is a valid reference with the tag `latest`, which is implied without tag and digest.
fn is_latest(image: &str) -> bool {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to a port.
    let path_start = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[path_start..].find(':') {
        Some(colon) => {
            let colon = path_start + colon;
            (&rest[..colon], Some(&rest[colon + 1..]))
        }
        None => (rest, None),
    };
    let is_latest = match (tag, digest) {
        (Some(tag), _) => tag == "latest",
        (None, digest) => digest.is_none(),
    };
    is_latest && is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

fn is_name(name: &str) -> bool {
    let is_identifier = name.len() == 64 && name.bytes().all(is_lower_hex);
    if is_identifier || name.len() > NAME_MAX_BYTES {
        return false;
    }
    let path = match name.split_once('/') {
        Some((first, rest)) if is_domain_like(first) => {
            if !is_domain(first) {
                return false;
            }
            rest
        }
        _ => name,
    };
    path.split('/').all(is_component)
}

/// Whether the first component of a name is a registry domain rather than part of the path.
fn is_domain_like(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((address, rest)) => {
            let is_address = !address.is_empty()
                && address
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || byte == b':');
            if !is_address || !(rest.is_empty() || rest.starts_with(':')) {
                return false;
            }
            (None, rest.strip_prefix(':'))
        }
        None => match domain.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(domain), None),
        },
    };
    host.is_none_or(|host| host.split('.').all(is_domain_label))
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_domain_label(label: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = label.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Lower case letters and digits, with `.`, `_`, `__` or any number of `-` between them.
fn is_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    is_word(first)
        && is_word(last)
        && component
            .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            .all(|separator| {
                matches!(separator, "" | "." | "_" | "__")
                    || separator.bytes().all(|byte| byte == b'-')
            })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_MAX_BYTES
        && tag.bytes().next().is_some_and(is_word)
        && tag
            .bytes()
            .all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return false;
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_images_have_pull_policy_always() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let table = [
            ("nginx".to_owned(), "Always"),
            ("nginx:latest".to_owned(), "Always"),
            ("nginx:1.25".to_owned(), "IfNotPresent"),
            ("library/nginx".to_owned(), "Always"),
            ("example.com/nginx".to_owned(), "Always"),
            ("example.com:5000/a/b".to_owned(), "Always"),
            ("example.com:5000/a/b:v1".to_owned(), "IfNotPresent"),
            ("localhost/a__b-c.d".to_owned(), "Always"),
            ("[::1]:5000/a".to_owned(), "Always"),
            (format!("nginx@{digest}"), "IfNotPresent"),
            (format!("nginx:latest@{digest}"), "Always"),
            ("nginx:latest@sha256:abc".to_owned(), "IfNotPresent"),
            // Invalid image references.
            (String::new(), "IfNotPresent"),
            ("Nginx".to_owned(), "IfNotPresent"),
            ("a b".to_owned(), "IfNotPresent"),
            ("nginx:".to_owned(), "IfNotPresent"),
            ("-nginx".to_owned(), "IfNotPresent"),
            ("a..b".to_owned(), "IfNotPresent"),
            ("a".repeat(64), "IfNotPresent"),
        ];
        for (image, want) in table {
            assert_eq!(pull_policy(&image), want, "{image}");
        }
    }
}
