//! Positions and sizes of the SVG, in pixels.

use super::super::pod_groups::PodGroups;
use super::svg_text::{shortened, text_width};

pub(super) const MARGIN: usize = 24;
/// Height of title and subtitle.
const HEAD: usize = 84;
/// Gaps between cells, and between namespaces.
const GAP: usize = 2;
const NAMESPACE_GAP: usize = 12;
/// Up to this many groups, cells are wide enough for ports.
const ROOMY_MAX: usize = 16;
/// Up to this many groups, cells have the medium size.
const MIDDLE_MAX: usize = 32;
/// Minimum width, for the legend.
const WIDTH_MIN: usize = 620;

pub(super) struct SvgLayout {
    pub(super) is_roomy: bool,
    pub(super) cell_width: usize,
    pub(super) cell_height: usize,
    pub(super) font_size: usize,
    /// Angle of the column names, in degrees.
    pub(super) angle: usize,
    /// Origin of the cells.
    pub(super) left: usize,
    pub(super) top: usize,
    pub(super) width: usize,
    pub(super) legend_top: usize,
    gaps: Vec<usize>,
}

/// Sizes that depend on the number of groups.
struct CellSizes {
    is_roomy: bool,
    /// Width and height.
    cell: (usize, usize),
    font: usize,
    angle: usize,
    /// Width and height of a name at that angle, in percent of its length.
    tilted: (usize, usize),
}

const ROOMY: CellSizes = CellSizes {
    is_roomy: true,
    cell: (76, 28),
    font: 13,
    angle: 45,
    tilted: (71, 71),
};

// Narrow columns need a steeper angle, so that names do not overlap.
const MIDDLE: CellSizes = CellSizes {
    is_roomy: false,
    cell: (24, 24),
    font: 13,
    angle: 60,
    tilted: (50, 87),
};

const DENSE: CellSizes = CellSizes {
    cell: (17, 17),
    font: 12,
    ..MIDDLE
};

impl SvgLayout {
    pub(super) fn new(groups: &PodGroups) -> SvgLayout {
        let count = groups.list.len();
        let sizes = match count {
            ..=ROOMY_MAX => ROOMY,
            count if count <= MIDDLE_MAX => MIDDLE,
            _ => DENSE,
        };
        let lengths = groups.list.iter().map(|group| {
            let (namespace, label) = (shortened(&group.namespace), shortened(&group.label));
            text_width(&format!("{namespace}/{label}"), sizes.font)
        });
        let lengths: Vec<usize> = lengths.collect();
        let longest = lengths.iter().copied().max().unwrap_or_default();
        let corner = text_width("from ↓ to →", 12);
        let (across, upwards) = sizes.tilted;
        let mut layout = SvgLayout {
            is_roomy: sizes.is_roomy,
            cell_width: sizes.cell.0,
            cell_height: sizes.cell.1,
            font_size: sizes.font,
            angle: sizes.angle,
            left: MARGIN + longest.max(corner) + 12,
            top: HEAD + longest * upwards / 100 + 12,
            width: 0,
            legend_top: 0,
            gaps: namespace_boundaries(groups),
        };
        let last = count.saturating_sub(1);
        let names_end = lengths
            .iter()
            .enumerate()
            .map(|(at, length)| layout.x(at) + layout.cell_width / 2 + length * across / 100 + 12);
        let cells_end = layout.x(last) + layout.cell_width;
        let right = names_end.max().unwrap_or_default().max(cells_end);
        layout.width = (right + MARGIN).max(WIDTH_MIN);
        layout.legend_top = layout.y(last) + layout.cell_height + 24;
        layout
    }

    pub(super) fn x(&self, column: usize) -> usize {
        self.left + column * (self.cell_width + GAP) + self.gap(column)
    }

    pub(super) fn y(&self, row: usize) -> usize {
        self.top + row * (self.cell_height + GAP) + self.gap(row)
    }

    fn gap(&self, at: usize) -> usize {
        self.gaps.get(at).copied().unwrap_or_default() * NAMESPACE_GAP
    }
}

/// For each group, the number of namespace boundaries before it.
fn namespace_boundaries(groups: &PodGroups) -> Vec<usize> {
    let mut changes = 0;
    let mut before: Option<&str> = None;
    let gaps = groups.list.iter().map(|group| {
        let is_other = before.is_some_and(|before| before != group.namespace);
        changes += usize::from(is_other);
        before = Some(&group.namespace);
        changes
    });
    gaps.collect()
}
