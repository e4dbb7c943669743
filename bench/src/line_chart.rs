//! Renders line charts with logarithmic axes as SVG, for light and dark pages.

use std::fmt::Write;

pub(crate) struct PlotPanel {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) series: Vec<PlotSeries>,
}

pub(crate) struct PlotSeries {
    pub(crate) name: String,
    /// Points (x, y), both positive, sorted by x.
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 30.0;
/// Distance between the first point and the tick labels of the axis.
const INSET: f64 = 24.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 52.0;

/// Plain CSS classes, because not every viewer supports CSS variables.
pub(crate) const STYLE: &str = "\
text { font-family: system-ui, sans-serif; font-size: 12px; fill: #656d76 }
.title { font-size: 14px; font-weight: 600; fill: #1f2328 }
.value { font-size: 11px; paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
.grid { stroke: #d8dee4; stroke-width: 1 }
.line { fill: none; stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round }
.paper { fill: #ffffff }
.dot0 { fill: #0969da } .line0 { stroke: #0969da }
.dot1 { fill: #bc4c00 } .line1 { stroke: #bc4c00 }
.dot2 { fill: #8250df } .line2 { stroke: #8250df }
@media (prefers-color-scheme: dark) {
  text { fill: #8d96a0 }
  .title { fill: #e6edf3 }
  .value { stroke: #0d1117 }
  .grid { stroke: #2b323b }
  .paper { fill: #0d1117 }
  .dot0 { fill: #58a6ff } .line0 { stroke: #58a6ff }
  .dot1 { fill: #f0883e } .line1 { stroke: #f0883e }
  .dot2 { fill: #bc8cff } .line2 { stroke: #bc8cff }
}
";

/// Renders the panels side by side.
pub(crate) fn render(panels: &[PlotPanel]) -> String {
    let width = WIDTH * panels.len() as f64;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" role="img">
<style>
{STYLE}</style>
<rect class="paper" width="100%" height="100%"/>
"#
    );
    for (number, panel) in panels.iter().enumerate() {
        let left = WIDTH * number as f64;
        svg += &format!("<g transform=\"translate({left} 0)\">\n");
        svg += &PlotFrame::around(panel).draw(panel);
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

/// Maps values to coordinates; both axes span whole powers of ten.
struct PlotFrame {
    x: LogAxis,
    y: LogAxis,
}

/// A logarithmic axis.
struct LogAxis {
    first_power: i32,
    last_power: i32,
    from: f64,
    to: f64,
}

impl LogAxis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let powers: Vec<f64> = values
            .filter(|value| *value > 0.0)
            .map(f64::log10)
            .collect();
        let least = powers.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let most = powers.iter().copied().reduce(f64::max).unwrap_or(1.0);
        let first_power = least.floor() as i32;
        Self {
            first_power,
            last_power: (most.ceil() as i32).max(first_power + 1),
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let first = f64::from(self.first_power);
        let span = f64::from(self.last_power) - first;
        let share = (value.log10() - first) / span;
        self.from + share * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.first_power..=self.last_power).map(|power| 10_f64.powi(power))
    }
}

impl PlotFrame {
    fn around(panel: &PlotPanel) -> Self {
        let points = || panel.series.iter().flat_map(|series| &series.points);
        Self {
            x: LogAxis::over(
                points().map(|point| point.0),
                LEFT + INSET,
                WIDTH - RIGHT - INSET,
            ),
            y: LogAxis::over(points().map(|point| point.1), HEIGHT - BOTTOM, TOP),
        }
    }

    fn draw(&self, panel: &PlotPanel) -> String {
        let mut svg = String::new();
        let _ = write_text(&mut svg, "title", LEFT, 26.0, "start", &panel.title);
        for tick in self.x.ticks() {
            let x = self.x.at(tick);
            svg += &line_between(x, self.y.from, x, self.y.to);
            let below = self.y.from + 18.0;
            let _ = write_text(&mut svg, "tick", x, below, "middle", &short(tick));
        }
        for tick in self.y.ticks() {
            let y = self.y.at(tick);
            svg += &line_between(LEFT, y, WIDTH - RIGHT, y);
            let beside = LEFT - 8.0;
            let _ = write_text(&mut svg, "tick", beside, y + 4.0, "end", &short(tick));
        }
        let middle = f64::midpoint(self.x.from, self.x.to);
        let below = HEIGHT - 12.0;
        let _ = write_text(&mut svg, "label", middle, below, "middle", &panel.x_label);
        let mut legend = LEFT;
        for (number, series) in panel.series.iter().enumerate() {
            svg += &self.draw_series(series, number);
            legend += draw_legend(&mut svg, legend, &series.name, number);
        }
        svg
    }

    fn draw_series(&self, series: &PlotSeries, number: usize) -> String {
        let points = series.points.iter();
        let drawable = points.filter(|point| point.0 > 0.0 && point.1 > 0.0);
        let places: Vec<(f64, f64, f64)> = drawable
            .map(|point| (self.x.at(point.0), self.y.at(point.1), point.1))
            .collect();
        let path: Vec<String> = places
            .iter()
            .map(|(x, y, _)| format!("{x:.1},{y:.1}"))
            .collect();
        let mut svg = format!(
            "<polyline class=\"line line{number}\" points=\"{}\"/>\n",
            path.join(" ")
        );
        for (x, y, value) in places {
            let _ = writeln!(
                svg,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" class="dot{number}"/>"#
            );
            let _ = write_text(&mut svg, "value", x, y - 10.0, "middle", &short(value));
        }
        svg
    }
}

/// Draws a legend entry and returns its width.
pub(crate) fn draw_legend(svg: &mut String, x: f64, name: &str, number: usize) -> f64 {
    /// Approximate width of a letter.
    const LETTER: f64 = 6.5;
    let _ = writeln!(
        svg,
        r#"<rect x="{x:.1}" y="40" width="14" height="4" rx="2" class="dot{number}"/>"#
    );
    let _ = write_text(svg, "name", x + 20.0, 46.0, "start", name);
    40.0 + LETTER * name.chars().count() as f64
}

pub(crate) fn line_between(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!("<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n")
}

pub(crate) fn write_text(
    svg: &mut String,
    class: &str,
    x: f64,
    y: f64,
    anchor: &str,
    text: &str,
) -> std::fmt::Result {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(
        svg,
        r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
    )
}

/// Formats a value with few significant digits and thousands separators.
pub(crate) fn short(value: f64) -> String {
    if value < 1000.0 {
        let digits = (1.0 - value.log10().floor()).clamp(0.0, 4.0) as usize;
        let text = format!("{value:.digits$}");
        let trimmed = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        return trimmed.to_owned();
    }
    let (thousands, rest) = ((value / 1000.0).floor(), value % 1000.0);
    format!("{},{rest:03.0}", short_whole(thousands))
}

fn short_whole(value: f64) -> String {
    match value < 1000.0 {
        true => format!("{value:.0}"),
        false => format!("{:.0},{:03.0}", (value / 1000.0).floor(), value % 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_values_are_formatted_shortly() {
        let check = |value, expected| assert_eq!(short(value), expected);
        check(0.012, "0.012");
        check(0.5, "0.5");
        check(1.26, "1.3");
        check(10.0, "10");
        check(345.6, "346");
        check(1000.0, "1,000");
        check(6432.1, "6,432");
        check(10_000.0, "10,000");
        check(1_000_000.0, "1,000,000");
    }

    #[test]
    fn powers_of_ten_are_equally_spaced() {
        let axis = LogAxis::over([100.0, 10_000.0].into_iter(), 0.0, 200.0);
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [100.0, 1000.0, 10_000.0]);
        assert!((axis.at(1000.0) - 100.0).abs() < 1e-9);
        let upward = LogAxis::over([3.0, 40.0].into_iter(), 100.0, 0.0);
        assert!((upward.at(1.0) - 100.0).abs() < 1e-9);
        assert!((upward.at(100.0)).abs() < 1e-9);
    }

    #[test]
    fn values_that_cannot_be_drawn_are_omitted() {
        let panel = PlotPanel {
            title: "a < b".into(),
            x_label: "x".into(),
            series: vec![PlotSeries {
                name: "one".into(),
                points: vec![(10.0, 0.0), (100.0, 5.0)],
            }],
        };
        let svg = render(&[panel]);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(svg.contains("a &lt; b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
