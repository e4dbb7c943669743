//! Counts responses to pod creates by HTTP status code, with an example message for each.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;
use serde_json::Value;

/// Maximum length of an example message.
const MESSAGE_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct ResponseCounts {
    by_code: BTreeMap<u16, StatusCodeCount>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct StatusCodeCount {
    count: usize,
    /// Message of the first response, unless it is a success.
    example: Option<String>,
}

impl ResponseCounts {
    pub(super) fn add(&mut self, status: StatusCode, body: &[u8]) {
        let answer = self.by_code.entry(status.as_u16()).or_default();
        answer.count += 1;
        if answer.example.is_none() && !status.is_success() {
            answer.example = Some(message(body));
        }
    }

    pub(super) fn merge(&mut self, other: ResponseCounts) {
        for (code, answer) in other.by_code {
            let own = self.by_code.entry(code).or_default();
            own.count += answer.count;
            own.example = own.example.take().or(answer.example);
        }
    }

    pub(super) fn count(&self, status: StatusCode) -> usize {
        let answer = self.by_code.get(&status.as_u16());
        answer.map_or(0, |answer| answer.count)
    }

    pub(super) fn total(&self) -> usize {
        self.by_code.values().map(|answer| answer.count).sum()
    }

    /// Counts of all unsuccessful responses, such as `409: 12, 500: 1`.
    pub(super) fn refusals(&self) -> String {
        let created = StatusCode::CREATED.as_u16();
        let others = self.by_code.iter().filter(|(code, _)| **code != created);
        let parts: Vec<String> = others
            .map(|(code, answer)| format!("{code}: {}", answer.count))
            .collect();
        match parts.is_empty() {
            true => "none".into(),
            false => parts.join(", "),
        }
    }

    /// Example message of each status code that has one.
    pub(super) fn examples(&self) -> impl Iterator<Item = (u16, &str)> {
        self.by_code
            .iter()
            .filter_map(|(code, answer)| Some((*code, answer.example.as_deref()?)))
    }
}

/// Message of a `Status` body, or the body itself, truncated.
pub(super) fn message(body: &[u8]) -> String {
    let status: Option<Value> = serde_json::from_slice(body).ok();
    let said = status
        .as_ref()
        .and_then(|status| status["message"].as_str());
    let text = match said {
        Some(said) => said.into(),
        None => String::from_utf8_lossy(body),
    };
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(said: &[(u16, &str)]) -> ResponseCounts {
        let mut answers = ResponseCounts::default();
        for (code, body) in said {
            answers.add(StatusCode::from_u16(*code).unwrap(), body.as_bytes());
        }
        answers
    }

    #[test]
    fn rejections_are_counted_by_status_code() {
        let mut all = answers(&[(201, "{}"), (409, r#"{"message": "first"}"#)]);
        all.merge(answers(&[(409, "second"), (500, "bad"), (201, "{}")]));
        assert_eq!(all.count(StatusCode::CREATED), 2);
        assert_eq!(all.count(StatusCode::FORBIDDEN), 0);
        assert_eq!(all.total(), 5);
        assert_eq!(all.refusals(), "409: 2, 500: 1");
        let examples: Vec<_> = all.examples().collect();
        assert_eq!(examples, [(409, "first"), (500, "bad")]);
        assert_eq!(answers(&[(201, "{}")]).refusals(), "none");
    }
}
