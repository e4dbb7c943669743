//! Where things are, in pixels.

use super::super::groups::Groups;
use super::words::{shortened, text_width};

pub(super) const MARGIN: usize = 24;
/// Below title and subtitle.
const HEAD: usize = 84;
/// Between cells, and between namespaces.
const GAP: usize = 2;
const NAMESPACE_GAP: usize = 12;
/// With no more than this, there is room for ports in the cells.
const ROOMY_MAX: usize = 16;
/// With no more than this, cells are of the size of a hand-written check mark.
const MIDDLE_MAX: usize = 32;
/// So that the legend has room.
const WIDTH_MIN: usize = 620;

pub(super) struct Layout {
    pub(super) is_roomy: bool,
    pub(super) cell_width: usize,
    pub(super) cell_height: usize,
    pub(super) font_size: usize,
    /// At which the names of columns stand, in degrees.
    pub(super) angle: usize,
    /// Where the cells begin.
    pub(super) left: usize,
    pub(super) top: usize,
    pub(super) width: usize,
    pub(super) legend_top: usize,
    gaps: Vec<usize>,
}

/// What follows from how many there are.
struct Sizes {
    is_roomy: bool,
    /// Width and height.
    cell: (usize, usize),
    font: usize,
    angle: usize,
    /// How wide and how high a name at that angle is, in hundredths of its length.
    tilted: (usize, usize),
}

const ROOMY: Sizes = Sizes {
    is_roomy: true,
    cell: (76, 28),
    font: 13,
    angle: 45,
    tilted: (71, 71),
};

// Where columns are narrow, flat names would run into each other.
const MIDDLE: Sizes = Sizes {
    is_roomy: false,
    cell: (24, 24),
    font: 13,
    angle: 60,
    tilted: (50, 87),
};

const DENSE: Sizes = Sizes {
    cell: (17, 17),
    font: 12,
    ..MIDDLE
};

impl Layout {
    pub(super) fn new(groups: &Groups) -> Layout {
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
        let mut layout = Layout {
            is_roomy: sizes.is_roomy,
            cell_width: sizes.cell.0,
            cell_height: sizes.cell.1,
            font_size: sizes.font,
            angle: sizes.angle,
            left: MARGIN + longest.max(corner) + 12,
            top: HEAD + longest * upwards / 100 + 12,
            width: 0,
            legend_top: 0,
            gaps: gaps(groups),
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

/// How many times the namespace has changed before each.
fn gaps(groups: &Groups) -> Vec<usize> {
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
