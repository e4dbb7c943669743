//! The decoded query string of a request.

use std::borrow::Cow;

use rhumb_meta::Status;

/// The maximum number of parameters; more than any client sends.
const PARAMETERS_MAX: usize = 256;

/// The decoded parameters of a query string, in their order.
#[derive(Debug, Clone, Default)]
pub struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    pub fn parse(text: &str) -> Result<QueryParameters, Status> {
        let mut parameters = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            if parameters.len() == PARAMETERS_MAX {
                return Err(Status::bad_request(format!(
                    "the query has more than {PARAMETERS_MAX} parameters"
                )));
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            // As upstream does, parameters with invalid escapes are ignored.
            if let (Some(name), Some(value)) = (decode(name, true), decode(value, true)) {
                parameters.push((name.into_owned(), value.into_owned()));
            }
        }
        Ok(QueryParameters(parameters))
    }

    /// The first value of a parameter; `None` if it is absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(parameter, _)| parameter == name)
            .map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter; empty if it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(parameter, _)| parameter == name)
            .map(|(_, value)| value.as_str())
    }

    /// A boolean as upstream parses it: present, and not `0` or `false`.
    pub fn flag(&self, name: &str) -> bool {
        match self.get(name) {
            None => false,
            Some(value) => !matches!(value.to_ascii_lowercase().as_str(), "0" | "false"),
        }
    }

    /// An integer; `None` if the parameter is absent or empty.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.text(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Status::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax"
                ))
            }),
        }
    }
}

/// Decodes the escapes of a path; `None` if an escape is invalid or the result is not UTF-8.
pub fn decode_path(text: &str) -> Option<Cow<'_, str>> {
    decode(text, false)
}

fn decode(text: &str, plus_is_space: bool) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query =
            QueryParameters::parse("a=1&labelSelector=a%3Db%2Cc+in+%28d%29&flag&empty=&a=2")
                .unwrap();
        assert_eq!(query.text("labelSelector"), "a=b,c in (d)");
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("empty"), Some(""));
        assert!(query.flag("flag"));
        assert!(!query.flag("absent"));
    }

    #[test]
    fn undecodable_parameters_are_ignored() {
        for text in ["a=%", "a=%4", "a=%zz", "a=%ff", "%=1"] {
            let query = QueryParameters::parse(&format!("{text}&b=1")).unwrap();
            assert_eq!((query.get("a"), query.text("b")), (None, "1"), "{text}");
        }
    }

    #[test]
    fn the_number_of_parameters_is_limited() {
        assert!(QueryParameters::parse(&"a=1&".repeat(PARAMETERS_MAX)).is_ok());
        assert!(QueryParameters::parse(&"a=1&".repeat(PARAMETERS_MAX + 1)).is_err());
    }

    #[test]
    fn integers_are_parsed() {
        let query = QueryParameters::parse("limit=5&bad=x&none=").unwrap();
        assert_eq!(query.integer("limit").unwrap(), Some(5));
        assert_eq!(query.integer("none").unwrap(), None);
        assert!(query.integer("bad").is_err());
    }
}
