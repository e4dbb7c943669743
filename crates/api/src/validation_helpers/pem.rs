//! PEM decoding, for certificates and certificate signing requests. As with Go's `pem.Decode`, text between blocks and
//! malformed blocks are skipped; `parse_many` of the crate `pem` fails at the first malformed block.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A PEM block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PemBlock<'a> {
    pub label: &'a str,
    pub has_headers: bool,
    pub data: Vec<u8>,
}

/// All PEM blocks of a text. Text between them and malformed blocks are skipped.
pub(crate) fn blocks(text: &str) -> Vec<PemBlock<'_>> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((label, body, after)) = next_block(rest) {
        blocks.extend(decode(label, body));
        rest = after;
    }
    blocks
}

/// The label and body of the next block, and the remaining text.
fn next_block(text: &str) -> Option<(&str, &str, &str)> {
    const BEGIN: &str = "-----BEGIN ";
    let start = text.find(BEGIN)? + BEGIN.len();
    let (label, rest) = text[start..].split_once("-----")?;
    let end = format!("-----END {label}-----");
    let at = rest.find(&end)?;
    Some((label, &rest[..at], &rest[at + end.len()..]))
}

fn decode<'a>(label: &'a str, body: &str) -> Option<PemBlock<'a>> {
    let has_headers = body.lines().any(|line| line.contains(':'));
    let lines = body.lines().filter(|line| !line.contains(':'));
    let base64: String = lines.flat_map(str::split_whitespace).collect();
    let data = STANDARD.decode(base64).ok()?;
    Some(PemBlock {
        label,
        has_headers,
        data,
    })
}

#[cfg(test)]
mod tests {
    use super::{PemBlock, blocks};

    #[test]
    fn pem_blocks_are_found_among_other_text() {
        let text = "hello\n-----BEGIN A B-----\nAQI=\n-----END A B-----\nand\n-----BEGIN C-----\nK: v\n\nAw==\n\
                    -----END C-----\n-----BEGIN D-----\n!\n-----END D-----\n-----BEGIN E-----\nAQI=\n";
        let block = |label, has_headers, data: &[u8]| PemBlock {
            label,
            has_headers,
            data: data.to_vec(),
        };
        let expect = [block("A B", false, &[1, 2]), block("C", true, &[3])];
        assert_eq!(blocks(text), expect);
    }
}
