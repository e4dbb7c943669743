//! Reads metrics in the Prometheus text format.

/// The value of a metric with exactly these labels, in any order; 0 if absent.
pub(crate) fn metric_value(metrics: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let mut wanted: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}=\"{value}\""))
        .collect();
    wanted.sort_unstable();
    let of_line = |line: &str| {
        let (head, value) = line.rsplit_once(' ')?;
        let rest = head.strip_prefix(name)?;
        let inside = match rest.strip_prefix('{') {
            Some(inside) => inside.strip_suffix('}')?,
            None => rest,
        };
        let mut found: Vec<&str> = inside
            .split(',')
            .filter(|label| !label.is_empty())
            .collect();
        found.sort_unstable();
        (found == wanted).then(|| value.parse().expect("a number"))
    };
    metrics.lines().find_map(of_line).unwrap_or(0.0)
}
