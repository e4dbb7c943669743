//! Renders a grouped bar chart with a logarithmic axis as SVG, for light and dark pages.

use std::fmt::Write;

use crate::line_chart::{STYLE, draw_legend, line_between, short, write_text};

pub(crate) struct BarChart {
    pub(crate) title: String,
    /// Name of each bar of a group.
    pub(crate) names: Vec<String>,
    pub(crate) groups: Vec<BarGroup>,
}

pub(crate) struct BarGroup {
    pub(crate) label: String,
    /// One value per name; missing and non-positive values are not drawn.
    pub(crate) values: Vec<Option<f64>>,
}

const WIDTH: f64 = 920.0;
const LEFT: f64 = 350.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 64.0;
const BAR: f64 = 12.0;
const GAP: f64 = 14.0;
const BOTTOM: f64 = 34.0;

pub(crate) fn render(chart: &BarChart) -> String {
    let group_height = BAR * chart.names.len() as f64 + GAP;
    let end = TOP + group_height * chart.groups.len() as f64;
    let height = end + BOTTOM;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">
<style>
{STYLE}</style>
<rect class="paper" width="100%" height="100%"/>
"#
    );
    let _ = write_text(&mut svg, "title", 16.0, 26.0, "start", &chart.title);
    let mut legend = 16.0;
    for (number, name) in chart.names.iter().enumerate() {
        legend += draw_legend(&mut svg, legend, name, number);
    }
    let (first, last) = powers(chart);
    let at = |value: f64| {
        let share = (value.log10() - f64::from(first)) / f64::from(last - first);
        LEFT + share * (WIDTH - RIGHT - LEFT)
    };
    for power in first..=last {
        let tick = 10_f64.powi(power);
        svg += &line_between(at(tick), TOP, at(tick), end);
        let _ = write_text(
            &mut svg,
            "tick",
            at(tick),
            end + 18.0,
            "middle",
            &short(tick),
        );
    }
    for (number, group) in chart.groups.iter().enumerate() {
        let top = TOP + group_height * number as f64 + GAP / 2.0;
        let middle = top + (group_height - GAP) / 2.0 + 4.0;
        let _ = write_text(&mut svg, "label", LEFT - 10.0, middle, "end", &group.label);
        for (bar, value) in group.values.iter().enumerate() {
            let Some(value) = value.filter(|value| *value > 0.0) else {
                continue;
            };
            let (y, width) = (top + BAR * bar as f64, (at(value) - LEFT).max(1.0));
            let _ = writeln!(
                svg,
                r#"<rect x="{LEFT:.1}" y="{y:.1}" width="{width:.1}" height="{:.1}" class="dot{bar}"/>"#,
                BAR - 2.0
            );
            let right = LEFT + width + 6.0;
            let _ = write_text(
                &mut svg,
                "value",
                right,
                y + BAR - 3.0,
                "start",
                &short(value),
            );
        }
    }
    svg + "</svg>\n"
}

/// Powers of ten that enclose all values. The lower one is at most 1, so that bar lengths are comparable.
fn powers(chart: &BarChart) -> (i32, i32) {
    let values = chart.groups.iter().flat_map(|group| &group.values);
    let powers = values
        .flatten()
        .filter(|value| **value > 0.0)
        .map(|value| value.log10());
    let least = powers.clone().reduce(f64::min).unwrap_or(0.0).floor() as i32;
    let least = least.min(0);
    let most = powers.reduce(f64::max).unwrap_or(1.0).ceil() as i32;
    (least, most.max(least + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_be_drawn_are_omitted() {
        let chart = BarChart {
            title: "a < b".into(),
            names: vec!["one".into(), "other".into()],
            groups: vec![
                BarGroup {
                    label: "first".into(),
                    values: vec![Some(30.0), Some(1500.0)],
                },
                BarGroup {
                    label: "second".into(),
                    values: vec![Some(0.0), None],
                },
            ],
        };
        assert_eq!(powers(&chart), (0, 4));
        let svg = render(&chart);
        assert_eq!(svg.matches(r#"height="10.0""#).count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains("1,500"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
