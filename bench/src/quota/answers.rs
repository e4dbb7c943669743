//! What a server says to those who make pods, by the code of its answer.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;
use serde_json::Value;

/// How much of a message is kept.
const MESSAGE_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Answers {
    by_code: BTreeMap<u16, Answer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Answer {
    count: usize,
    /// What the first of them said, if it is a refusal.
    example: Option<String>,
}

impl Answers {
    pub(super) fn add(&mut self, status: StatusCode, body: &[u8]) {
        let answer = self.by_code.entry(status.as_u16()).or_default();
        answer.count += 1;
        if answer.example.is_none() && !status.is_success() {
            answer.example = Some(message(body));
        }
    }

    pub(super) fn merge(&mut self, other: Answers) {
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

    /// Everything but success, as `409: 12, 500: 1`.
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

    /// One message for each code that has one.
    pub(super) fn examples(&self) -> impl Iterator<Item = (u16, &str)> {
        self.by_code
            .iter()
            .filter_map(|(code, answer)| Some((*code, answer.example.as_deref()?)))
    }
}

/// What a `Status` says, or whatever stands there instead.
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

    fn answers(said: &[(u16, &str)]) -> Answers {
        let mut answers = Answers::default();
        for (code, body) in said {
            answers.add(StatusCode::from_u16(*code).unwrap(), body.as_bytes());
        }
        answers
    }

    #[test]
    fn refusals_are_counted_by_their_code() {
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
