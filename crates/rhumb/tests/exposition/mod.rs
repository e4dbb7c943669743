//! A strict check of metrics in the OpenMetrics 1.0 text format, as a Prometheus server reads them.

use std::collections::{BTreeMap, HashSet};

type Labels = BTreeMap<String, String>;

/// Why a text is rejected, with the line.
pub(crate) type ExpositionError = String;

/// One line with a value.
#[derive(Debug)]
struct Sample<'a> {
    name: &'a str,
    labels: Labels,
    value: f64,
}

/// The samples of one metric name.
#[derive(Debug)]
struct MetricFamily<'a> {
    name: &'a str,
    metric_type: &'a str,
    samples: Vec<Sample<'a>>,
}

/// Rejects a text that violates the format, and histograms from which no quantile can be computed.
pub(crate) fn check_openmetrics(text: &str) -> Result<(), ExpositionError> {
    let body = text
        .strip_suffix("# EOF\n")
        .ok_or("the last line is not # EOF")?;
    let mut families: Vec<MetricFamily<'_>> = Vec::new();
    let mut names = HashSet::new();
    let mut described = "";
    for line in body.lines() {
        let fail = |problem: &str| format!("{problem}: {line}");
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').ok_or_else(|| fail("no text"))?;
            if name == described || help.trim().is_empty() {
                return Err(fail("HELP is repeated or empty"));
            }
            described = name;
        } else if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, metric_type) = declared.split_once(' ').ok_or_else(|| fail("no type"))?;
            if name != described || !is_name(name, true) || !names.insert(name) {
                return Err(fail("TYPE without HELP, of an invalid name, or repeated"));
            }
            families.push(MetricFamily {
                name,
                metric_type,
                samples: Vec::new(),
            });
        } else {
            let sample = parse_sample(line).ok_or_else(|| fail("not a sample"))?;
            let family = families
                .last_mut()
                .ok_or_else(|| fail("sample without TYPE"))?;
            if family.name != described || !family.accepts(&sample) {
                return Err(fail("sample does not belong to the family before it"));
            }
            family.samples.push(sample);
        }
    }
    families.iter().try_for_each(MetricFamily::check)
}

impl MetricFamily<'_> {
    fn suffix<'s>(&self, sample: &'s Sample<'_>) -> Option<&'s str> {
        sample.name.strip_prefix(self.name)
    }

    fn accepts(&self, sample: &Sample<'_>) -> bool {
        let allowed: &[&str] = match self.metric_type {
            "counter" => &["_total"],
            "gauge" | "unknown" => &[""],
            "histogram" => &["_bucket", "_count", "_sum"],
            "info" => &["_info"],
            _ => &[],
        };
        let suffix = self.suffix(sample);
        suffix.is_some_and(|suffix| allowed.contains(&suffix))
    }

    fn check(&self) -> Result<(), ExpositionError> {
        let mut series = HashSet::new();
        for sample in &self.samples {
            if !series.insert((sample.name, &sample.labels)) {
                return Err(format!("duplicate series: {sample:?}"));
            }
            if self.metric_type != "gauge" && (sample.value.is_nan() || sample.value < 0.0) {
                return Err(format!("negative or not a number: {sample:?}"));
            }
        }
        match self.metric_type {
            "histogram" => self.check_histograms(),
            _ => Ok(()),
        }
    }

    fn check_histograms(&self) -> Result<(), ExpositionError> {
        let mut histograms: BTreeMap<Labels, Vec<&Sample<'_>>> = BTreeMap::new();
        for sample in &self.samples {
            let mut labels = sample.labels.clone();
            labels.remove("le");
            histograms.entry(labels).or_default().push(sample);
        }
        for (labels, samples) in histograms {
            self.check_histogram(&samples)
                .map_err(|problem| format!("{} {labels:?}: {problem}", self.name))?;
        }
        Ok(())
    }

    fn check_histogram(&self, samples: &[&Sample<'_>]) -> Result<(), &'static str> {
        let value = |suffix| {
            let mut with_suffix = samples
                .iter()
                .filter(|sample| self.suffix(sample) == Some(suffix));
            with_suffix.next().map(|sample| sample.value)
        };
        let (Some(count), Some(_)) = (value("_count"), value("_sum")) else {
            return Err("no _count or no _sum");
        };
        let (mut bound, mut cumulative) = (f64::NEG_INFINITY, 0.0);
        for sample in samples {
            if self.suffix(sample) != Some("_bucket") {
                continue;
            }
            let le = sample.labels.get("le").and_then(|le| parse_number(le));
            let le = le.ok_or("a bucket without bound")?;
            if le <= bound || sample.value < cumulative {
                return Err("buckets are not ascending");
            }
            (bound, cumulative) = (le, sample.value);
        }
        match bound == f64::INFINITY && cumulative == count {
            true => Ok(()),
            false => Err("no bucket +Inf with all values"),
        }
    }
}

fn is_name(name: &str, colons: bool) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || (colons && c == ':');
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// `1`, `2.5e-3`, `+Inf`, but not Rust's `inf`.
fn parse_number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ if text.contains(|c: char| c.is_ascii_alphabetic() && c != 'e') => None,
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn parse_sample(line: &str) -> Option<Sample<'_>> {
    let name_end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(name_end);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (Labels::new(), rest),
    };
    let value = parse_number(value.strip_prefix(' ')?)?;
    is_name(name, true).then_some(Sample {
        name,
        labels,
        value,
    })
}

/// Reads labels up to the closing brace; returns what follows it.
fn parse_labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = parse_label_value(after)?;
        let is_new = labels.insert(key.to_owned(), value).is_none();
        if !is_new || !is_name(key, false) {
            return None;
        }
        rest = match after.strip_prefix(',') {
            Some(next) if !next.starts_with('}') => next,
            Some(_) => return None,
            None if after.starts_with('}') => after,
            None => return None,
        };
    }
}

/// Reads an escaped value up to its closing quote; returns what follows it.
fn parse_label_value(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.chars());
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => value.push(match chars.next()? {
                'n' => '\n',
                escaped @ ('\\' | '"') => escaped,
                _ => return None,
            }),
            other => value.push(other),
        }
    }
}

#[test]
fn violations_of_the_format_are_found() {
    let histogram = "# HELP h A histogram.\n# TYPE h histogram\n";
    let valid = [
        "",
        "# HELP c Requests.\n# TYPE c counter\nc_total{a=\"x\\\"\\n,}\"} 1\nc_total 2.5\n",
        &format!(
            "{histogram}h_sum 3.0\nh_count 2\nh_bucket{{le=\"1.0\"}} 1\nh_bucket{{le=\"+Inf\"}} 2\n"
        ),
    ];
    for text in valid {
        assert_eq!(check_openmetrics(&format!("{text}# EOF\n")), Ok(()));
    }
    let invalid = [
        "c_total 1\n",
        "# TYPE c counter\nc_total 1\n",
        "# HELP c Requests.\n# TYPE c counter\nc 1\n",
        "# HELP c Requests.\n# TYPE c counter\nc_total -1\n",
        "# HELP c Requests.\n# TYPE c counter\nc_total 1\nc_total 2\n",
        "# HELP c Requests.\n# TYPE c counter\nc_total{a=\"1\",a=\"2\"} 2\n",
        "# HELP c Requests.\n# TYPE c counter\nc_total{a=1} 2\n",
        "# HELP c Requests.\n# TYPE c counter\n# HELP d D.\n# TYPE d gauge\nc_total 1\n",
        "# HELP c C.\n# TYPE c counter\n# HELP d D.\n# TYPE d gauge\n# HELP c C.\n# TYPE c counter\n",
        &format!("{histogram}h_sum 3.0\nh_count 2\nh_bucket{{le=\"1.0\"}} 1\n"),
        &format!(
            "{histogram}h_sum 3.0\nh_count 2\nh_bucket{{le=\"1.0\"}} 1\nh_bucket{{le=\"+Inf\"}} 1\n"
        ),
        &format!("{histogram}h_sum 3.0\nh_count 1\nh_bucket{{le=\"1.8e308\"}} 1\n"),
        &format!("{histogram}h_count 0\nh_bucket{{le=\"+Inf\"}} 0\n"),
    ];
    for text in invalid {
        let checked = check_openmetrics(&format!("{text}# EOF\n"));
        assert!(checked.is_err(), "accepted: {text}");
    }
    assert!(check_openmetrics("# HELP c C.\n").is_err());
}
