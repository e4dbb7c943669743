//! The legend: the states that occur in the matrix.

use super::super::pod_groups::{PairReachability, PodGroups, state};
use super::super::reachability::ReachabilityMatrix;
use super::layout::{MARGIN, SvgLayout};
use super::svg_text::text_width;
use super::{rectangle, sign};

const LINE: usize = 36;
const SIZE: usize = 13;
const TILE_MAX: usize = 40;

pub(super) struct SvgLegend {
    pub(super) svg: String,
    pub(super) height: usize,
}

pub(super) fn draw(
    reach: &ReachabilityMatrix<'_>,
    groups: &PodGroups,
    layout: &SvgLayout,
) -> SvgLegend {
    let mut shown = Vec::new();
    for from in &groups.list {
        for to in &groups.list {
            let state = state(reach, from, to);
            if !shown.contains(&state) {
                shown.push(state);
            }
        }
    }
    let (mut x, mut y) = (MARGIN, layout.legend_top);
    let mut svg = String::new();
    for (state, what) in meanings(layout.is_roomy) {
        if !shown.contains(&state) {
            continue;
        }
        let tile_width = layout.cell_width.min(TILE_MAX);
        let width = tile_width + 8 + text_width(what, SIZE);
        if x > MARGIN && x + width + MARGIN > layout.width {
            (x, y) = (MARGIN, y + LINE);
        }
        let sample = match (layout.is_roomy, state) {
            (true, PairReachability::Allowed | PairReachability::Partly) => "80",
            (true, PairReachability::Itself) => "self",
            _ => sign(state),
        };
        let (text_x, text_y) = (x + tile_width + 8, y + layout.cell_height / 2 + 5);
        svg.push_str(&format!(
            "<g class=\"legend\">{}<text x=\"{text_x}\" y=\"{text_y}\" font-size=\"{SIZE}\">{what}</text></g>\n",
            rectangle(layout, (x, y, tile_width), state, sample)
        ));
        x += width + 12;
    }
    y += LINE + 14;
    svg.push_str(&format!(
        "<text x=\"{MARGIN}\" y=\"{y}\" font-size=\"12\" class=\"quiet\">Who is in a row connects to who is above a column. \
         Hold the pointer over a cell for all ports.</text>\n"
    ));
    SvgLegend {
        svg,
        height: y - layout.legend_top,
    }
}

fn meanings(is_roomy: bool) -> [(PairReachability, &'static str); 6] {
    let (allowed, partly) = match is_roomy {
        true => ("allowed on all its ports", "allowed on these ports only"),
        false => ("allowed on all its ports", "allowed on some ports"),
    };
    [
        (PairReachability::Allowed, allowed),
        (PairReachability::Partly, partly),
        (PairReachability::Denied, "denied"),
        (PairReachability::Itself, "itself: always allowed"),
        (PairReachability::Unrelated, "no address of the same family"),
        (PairReachability::Taken, "another pod has the address"),
    ]
}
