//! The matrix as SVG: sources in rows, destinations in columns, a colored cell for each pair.

mod layout;
mod legend;
mod svg_text;

use super::pod_groups::{PairReachability, PodGroup, PodGroups, answers, state};
use super::reachability::ReachabilityMatrix;
use super::table::headline;
use layout::SvgLayout;
use svg_text::{escaped, ports_in_short, shortened};

/// Fill color, text color and CSS class of each state.
fn look(state: PairReachability) -> (&'static str, &'static str, &'static str) {
    match state {
        PairReachability::Allowed => ("#2da44e", "#ffffff", "allowed"),
        PairReachability::Partly => ("#eac54f", "#3b2300", "partly"),
        PairReachability::Denied => ("#f4b3ae", "#8f1d16", "denied"),
        PairReachability::Itself => ("#e3e8ed", "#57606a", "itself"),
        PairReachability::Unrelated => ("#ffffff", "#57606a", "unrelated"),
        PairReachability::Taken => ("#ffffff", "#57606a", "taken"),
    }
}

const STYLE: &str = "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1f2328}\
     .quiet{fill:#656d76}.cell text{text-anchor:middle}.cell:hover rect{stroke:#1f2328;stroke-width:2}";

pub(super) fn svg(reach: &ReachabilityMatrix<'_>, groups: &PodGroups, policies: usize) -> String {
    let layout = SvgLayout::new(groups);
    let legend = legend::draw(reach, groups, &layout);
    let (width, height) = (
        layout.width,
        layout.legend_top + legend.height + layout::MARGIN,
    );
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\">\n<title>Who can reach whom</title>\n<style>{STYLE}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    picture.push_str(&heading(&layout, &headline(reach, groups, policies)));
    picture.push_str(&labels(groups, &layout));
    for (row, from) in groups.list.iter().enumerate() {
        for (column, to) in groups.list.iter().enumerate() {
            picture.push_str(&cell(reach, &layout, (row, from), (column, to)));
        }
    }
    picture.push_str(&legend.svg);
    picture.push_str("</svg>\n");
    picture
}

fn heading(layout: &SvgLayout, about: &str) -> String {
    let left = layout::MARGIN;
    let (x, y) = (layout.left - 12, layout.top - 10);
    format!(
        "<text x=\"{left}\" y=\"40\" font-size=\"20\" font-weight=\"600\">Who can reach whom</text>\n\
         <text x=\"{left}\" y=\"62\" font-size=\"13\" class=\"quiet\">{}</text>\n\
         <text x=\"{x}\" y=\"{y}\" font-size=\"12\" class=\"quiet\" text-anchor=\"end\">from ↓ to →</text>\n",
        escaped(about)
    )
}

fn labels(groups: &PodGroups, layout: &SvgLayout) -> String {
    let mut text = String::new();
    let (size, angle) = (layout.font_size, layout.angle);
    for (at, group) in groups.list.iter().enumerate() {
        let full = escaped(&group.full_name());
        let name = format!(
            "<title>{full}</title><tspan class=\"quiet\">{}/</tspan>{}",
            escaped(&shortened(&group.namespace)),
            escaped(&shortened(&group.label))
        );
        let (x, y) = (layout.left - 12, layout.y(at) + layout.cell_height / 2);
        let middle = y + size * 35 / 100;
        text.push_str(&format!(
            "<text x=\"{x}\" y=\"{middle}\" font-size=\"{size}\" text-anchor=\"end\">{name}</text>\n"
        ));
        let (x, y) = (layout.x(at) + layout.cell_width / 2 + 3, layout.top - 8);
        text.push_str(&format!(
            "<text transform=\"translate({x} {y}) rotate(-{angle})\" font-size=\"{size}\">{name}</text>\n"
        ));
    }
    text
}

fn cell(
    reach: &ReachabilityMatrix<'_>,
    layout: &SvgLayout,
    (row, from): (usize, &PodGroup),
    (column, to): (usize, &PodGroup),
) -> String {
    let state = state(reach, from, to);
    let text = match (layout.is_roomy, state) {
        (true, PairReachability::Allowed | PairReachability::Partly) => {
            ports_in_short(reach, from, to)
        }
        (true, PairReachability::Itself) => "self".to_owned(),
        _ => sign(state).to_owned(),
    };
    let tip = tooltip(reach, from, to, state);
    let position = (layout.x(column), layout.y(row), layout.cell_width);
    format!(
        "<g class=\"cell {}\"><title>{}</title>{}</g>\n",
        look(state).2,
        escaped(&tip),
        rectangle(layout, position, state, &text)
    )
}

fn sign(state: PairReachability) -> &'static str {
    match state {
        PairReachability::Allowed => "✓",
        PairReachability::Partly => "~",
        PairReachability::Denied => "×",
        PairReachability::Itself => "·",
        PairReachability::Unrelated => "?",
        PairReachability::Taken => "!",
    }
}

/// A rectangle in the color of a state, with a short text.
fn rectangle(
    layout: &SvgLayout,
    (x, y, width): (usize, usize, usize),
    state: PairReachability,
    text: &str,
) -> String {
    let (fill, ink, _) = look(state);
    let height = layout.cell_height;
    let size = (layout.font_size - 1).min(height * 7 / 10);
    let (middle, base) = (x + width / 2, y + height / 2 + size * 35 / 100);
    let stroke = match state {
        PairReachability::Unrelated | PairReachability::Taken => " stroke=\"#d0d7de\"",
        _ => "",
    };
    format!(
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"3\" fill=\"{fill}\"{stroke}/>\
         <text x=\"{middle}\" y=\"{base}\" font-size=\"{size}\" style=\"fill:{ink};text-anchor:middle\">{}</text>",
        escaped(text)
    )
}

/// The tooltip of a cell: all ports with their verdicts.
fn tooltip(
    reach: &ReachabilityMatrix<'_>,
    from: &PodGroup,
    to: &PodGroup,
    state: PairReachability,
) -> String {
    let mut tip = format!("{} → {}", from.full_name(), to.full_name());
    match state {
        PairReachability::Itself => tip.push_str("\na pod may always reach itself"),
        PairReachability::Unrelated => tip.push_str("\nno address of the same family"),
        PairReachability::Taken => {
            tip.push_str("\nanother pod has the address of one of them by now");
        }
        _ => {
            let (mut allowed, mut denied) = (Vec::new(), Vec::new());
            for (queried, answer) in answers(reach, from, to) {
                let port = queried.port;
                match (answer.egress, answer.ingress) {
                    (true, true) => allowed.push(port.to_string()),
                    (false, true) => denied.push(format!("{port} (egress)")),
                    (true, false) => denied.push(format!("{port} (ingress)")),
                    (false, false) => denied.push(format!("{port} (both)")),
                }
            }
            for (word, ports) in [("allowed", allowed), ("denied", denied)] {
                if !ports.is_empty() {
                    tip.push_str(&format!("\n{word}: {}", ports.join(", ")));
                }
            }
        }
    }
    tip
}
