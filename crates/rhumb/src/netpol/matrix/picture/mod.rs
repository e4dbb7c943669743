//! The matrix as a picture: who connects in rows, to whom in columns, and a colour for each pair.

mod layout;
mod legend;
mod words;

use super::groups::{Group, Groups, State, answers, state};
use super::reach::Reach;
use super::table::headline;
use layout::Layout;
use words::{escaped, ports_in_short, shortened};

/// How each state looks: fill, text, name of its class.
fn look(state: State) -> (&'static str, &'static str, &'static str) {
    match state {
        State::Allowed => ("#2da44e", "#ffffff", "allowed"),
        State::Partly => ("#eac54f", "#3b2300", "partly"),
        State::Denied => ("#f4b3ae", "#8f1d16", "denied"),
        State::Itself => ("#e3e8ed", "#57606a", "itself"),
        State::Unrelated => ("#ffffff", "#57606a", "unrelated"),
        State::Taken => ("#ffffff", "#57606a", "taken"),
    }
}

const STYLE: &str = "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1f2328}\
     .quiet{fill:#656d76}.cell text{text-anchor:middle}.cell:hover rect{stroke:#1f2328;stroke-width:2}";

pub(super) fn svg(reach: &Reach<'_>, groups: &Groups, policies: usize) -> String {
    let layout = Layout::new(groups);
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

fn heading(layout: &Layout, about: &str) -> String {
    let left = layout::MARGIN;
    let (x, y) = (layout.left - 12, layout.top - 10);
    format!(
        "<text x=\"{left}\" y=\"40\" font-size=\"20\" font-weight=\"600\">Who can reach whom</text>\n\
         <text x=\"{left}\" y=\"62\" font-size=\"13\" class=\"quiet\">{}</text>\n\
         <text x=\"{x}\" y=\"{y}\" font-size=\"12\" class=\"quiet\" text-anchor=\"end\">from ↓ to →</text>\n",
        escaped(about)
    )
}

fn labels(groups: &Groups, layout: &Layout) -> String {
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
    reach: &Reach<'_>,
    layout: &Layout,
    (row, from): (usize, &Group),
    (column, to): (usize, &Group),
) -> String {
    let state = state(reach, from, to);
    let text = match (layout.is_roomy, state) {
        (true, State::Allowed | State::Partly) => ports_in_short(reach, from, to),
        (true, State::Itself) => "self".to_owned(),
        _ => sign(state).to_owned(),
    };
    let tip = tip(reach, from, to, state);
    let place = (layout.x(column), layout.y(row), layout.cell_width);
    format!(
        "<g class=\"cell {}\"><title>{}</title>{}</g>\n",
        look(state).2,
        escaped(&tip),
        tile(layout, place, state, &text)
    )
}

fn sign(state: State) -> &'static str {
    match state {
        State::Allowed => "✓",
        State::Partly => "~",
        State::Denied => "×",
        State::Itself => "·",
        State::Unrelated => "?",
        State::Taken => "!",
    }
}

/// A rectangle in the colour of a state, with a short text in it.
fn tile(layout: &Layout, (x, y, width): (usize, usize, usize), state: State, text: &str) -> String {
    let (fill, ink, _) = look(state);
    let height = layout.cell_height;
    let size = (layout.font_size - 1).min(height * 7 / 10);
    let (middle, base) = (x + width / 2, y + height / 2 + size * 35 / 100);
    let stroke = match state {
        State::Unrelated | State::Taken => " stroke=\"#d0d7de\"",
        _ => "",
    };
    format!(
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"3\" fill=\"{fill}\"{stroke}/>\
         <text x=\"{middle}\" y=\"{base}\" font-size=\"{size}\" style=\"fill:{ink};text-anchor:middle\">{}</text>",
        escaped(text)
    )
}

/// All ports, for whoever holds the pointer over a cell.
fn tip(reach: &Reach<'_>, from: &Group, to: &Group, state: State) -> String {
    let mut tip = format!("{} → {}", from.full_name(), to.full_name());
    match state {
        State::Itself => tip.push_str("\na pod may always reach itself"),
        State::Unrelated => tip.push_str("\nno address of the same family"),
        State::Taken => tip.push_str("\nanother pod has the address of one of them by now"),
        _ => {
            let (mut allowed, mut denied) = (Vec::new(), Vec::new());
            for (asked, answer) in answers(reach, from, to) {
                let port = asked.port;
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
