//! Sets of completion indexes in text form: `1,3-5,7`.

use rhumb_meta::gotext;

/// Counts the indexes in a text; they must be below `completions` and increasing.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last = None;
    for interval in intervals(text) {
        let (first, end) = parse_interval(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(non_increasing_error(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first index that two texts share. Skips malformed intervals, which are rejected elsewhere.
pub(super) fn first_common_index(ours: &str, theirs: &str, completions: i64) -> Option<i64> {
    let read = |text| {
        let parsed = intervals(text).map(move |interval| parse_interval(interval, completions));
        parsed.filter_map(Result::ok)
    };
    let (mut ours, mut theirs) = (read(ours), read(theirs));
    let (mut our, mut their) = (ours.next()?, theirs.next()?);
    loop {
        if our.0 <= their.1 && their.0 <= our.1 {
            return Some(our.0.max(their.0));
        }
        if our.0 <= their.0 {
            our = ours.next()?;
        } else {
            their = theirs.next()?;
        }
    }
}

fn intervals(text: &str) -> impl Iterator<Item = &str> {
    let is_some = !text.is_empty();
    is_some.then(|| text.split(',')).into_iter().flatten()
}

fn parse_interval(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut limits = interval.split('-');
    let first = limits.next().unwrap_or_default();
    let last = limits.next();
    if limits.next().is_some() {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts \
             separated by '-'",
            gotext::quote(interval)
        ));
    }
    let first = parse_index(first, completions)?;
    let Some(last) = last else {
        return Ok((first, first));
    };
    let last = parse_index(last, completions)?;
    if first >= last {
        return Err(non_increasing_error(first, last));
    }
    Ok((first, last))
}

fn parse_index(text: &str, completions: i64) -> Result<i64, String> {
    let quoted = gotext::quote(text);
    let index: i64 = text
        .parse()
        .map_err(|_| format!("cannot convert string to integer for index: {quoted}"))?;
    if index >= completions {
        return Err(format!("too large index: {quoted}"));
    }
    Ok(index)
}

fn non_increasing_error(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

#[cfg(test)]
mod tests {
    use super::{count_indexes, first_common_index};

    #[test]
    fn indexes_are_counted() {
        let table: [(&str, Result<i64, &str>); 8] = [
            ("", Ok(0)),
            ("1,3-5,7", Ok(5)),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
                ),
            ),
            (
                "a",
                Err("cannot convert string to integer for index: \"a\""),
            ),
            ("10", Err("too large index: \"10\"")),
            ("1-10", Err("too large index: \"10\"")),
            ("5-3", Err("non-increasing order, previous: 5, current: 3")),
            (
                "1-4,4",
                Err("non-increasing order, previous: 4, current: 4"),
            ),
        ];
        for (text, expect) in table {
            assert_eq!(
                count_indexes(text, 10),
                expect.map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn overlapping_indexes_are_detected() {
        let table = [
            ("", "1", None),
            ("1,3", "2,4", None),
            ("1-5", "4-6", Some(4)),
            ("0,7", "a,7", Some(7)),
            ("0,2-3,9", "1,4-8,9", Some(9)),
        ];
        for (ours, theirs, expect) in table {
            assert_eq!(
                first_common_index(ours, theirs, 10),
                expect,
                "{ours} {theirs}"
            );
            assert_eq!(
                first_common_index(theirs, ours, 10),
                expect,
                "{theirs} {ours}"
            );
        }
    }
}
