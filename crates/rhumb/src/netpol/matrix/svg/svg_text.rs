//! Text in the SVG: escaping, truncation and width estimates.

use super::super::pod_groups::{PodGroup, answers};
use super::super::reachability::ReachabilityMatrix;
use rhumb_netpol::Protocol;

/// Longer names are truncated in the middle; the tooltip has the full name.
const NAME_MAX: usize = 36;
/// Maximum number of characters in a cell.
const PORTS_MAX: usize = 9;

pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

pub(super) fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= NAME_MAX {
        return name.to_owned();
    }
    let half = NAME_MAX / 2;
    let head = letters.iter().take(half);
    let tail = letters.iter().skip(letters.len() - half + 1);
    head.chain(&['…']).chain(tail).collect()
}

/// Estimates the width of a text, on the high side, since fonts differ.
pub(super) fn text_width(text: &str, font_size: usize) -> usize {
    text.chars().count() * font_size * 62 / 100
}

/// The allowed ports, or their number if they do not fit.
pub(super) fn ports_in_short(
    reach: &ReachabilityMatrix<'_>,
    from: &PodGroup,
    to: &PodGroup,
) -> String {
    let answers = answers(reach, from, to);
    let has_own = answers
        .clone()
        .any(|(queried, answer)| queried.is_own && answer.is_allowed());
    let allowed =
        answers.filter(|(queried, answer)| answer.is_allowed() && (queried.is_own || !has_own));
    let ports: Vec<String> = allowed
        .map(|(queried, _)| match queried.port.protocol {
            Protocol::Tcp => queried.port.port.to_string(),
            _ => queried.port.to_string(),
        })
        .collect();
    let all = ports.join(" ");
    match all.chars().count() {
        ..=PORTS_MAX => all,
        _ => format!("{} ports", ports.len()),
    }
}
