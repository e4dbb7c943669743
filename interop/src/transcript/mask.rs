//! Replaces values that differ between runs in kubectl's output.

use crate::differential::volatile_values;

/// The output lines with placeholders for UIDs, times, versions and ages. Column spacing is normalized, because it
/// depends on the widths of ages.
pub fn mask(output: &str, namespace: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = line.replace(namespace, "NAMESPACE");
        let line = mask_identities(&line);
        let line = mask_versions(&line);
        mask_ages(&line)
    };
    output.lines().map(line).collect()
}

fn mask_identities(line: &str) -> String {
    let mut result = String::new();
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        let bytes = rest.as_bytes();
        let found = [
            (volatile_values::uuid(bytes), "<uid>"),
            (volatile_values::time(bytes), "<time>"),
            (volatile_values::token_volume(bytes), "<token volume>"),
        ];
        match found
            .into_iter()
            .find_map(|(length, name)| length.zip(Some(name)))
        {
            Some((length, name)) => {
                result += name;
                rest = &rest[length..];
            }
            None => {
                result.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    result
}

fn mask_versions(line: &str) -> String {
    let mut line = line.to_owned();
    for name in ["resourceVersion: \"", "\"resourceVersion\": \""] {
        if let Some((start, rest)) = line.clone().split_once(name) {
            let count = volatile_values::digits(rest.as_bytes());
            line = format!("{start}{name}<version>{}", &rest[count..]);
        }
    }
    line
}

/// Columns are separated by at least two spaces.
fn mask_ages(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let columns: Vec<&str> = line[indent..]
        .split("  ")
        .map(str::trim)
        .filter(|column| !column.is_empty())
        .map(|column| {
            if volatile_values::is_age(column) {
                "<age>"
            } else {
                column
            }
        })
        .collect();
    format!("{}{}", &line[..indent], columns.join("   "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        assert_eq!(mask(line, "ns-abcde"), [expected]);
    }

    #[test]
    fn volatile_values_are_masked() {
        check("NAME   AGE", "NAME   AGE");
        check("a      5s    x", "a   <age>   x");
        check("  in ns-abcde", "  in NAMESPACE");
        check(
            "    resourceVersion: \"17\"",
            "    resourceVersion: \"<version>\"",
        );
        check("at 2026-01-02T03:04:05Z", "at <time>");
    }
}
