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
    /// How many namespaces there are before each.
    gaps: Vec<usize>,
}

impl Layout {
    pub(super) fn new(groups: &Groups) -> Layout {
        let count = groups.list.len();
        let (cell_width, cell_height, font_size) = match count {
            ..=ROOMY_MAX => (76, 28, 13),
            ..=MIDDLE_MAX => (24, 24, 13),
            _ => (17, 17, 12),
        };
        // Where columns are narrow, flat names would run into each other.
        let (angle, across, upwards) = match count {
            ..=ROOMY_MAX => (45, 71, 71),
            _ => (60, 50, 87),
        };
        let mut gaps = Vec::with_capacity(count);
        let mut before: Option<&str> = None;
        let mut namespaces = 0;
        for group in &groups.list {
            let is_other = before.is_some_and(|before| before != group.namespace);
            namespaces += usize::from(is_other);
            before = Some(&group.namespace);
            gaps.push(namespaces);
        }
        let lengths = groups.list.iter().map(|group| {
            let shown = format!(
                "{}/{}",
                shortened(&group.namespace),
                shortened(&group.label)
            );
            text_width(&shown, font_size)
        });
        let lengths: Vec<usize> = lengths.collect();
        let longest = lengths.iter().copied().max().unwrap_or_default();
        let corner = text_width("from ↓ to →", 12);
        let mut layout = Layout {
            is_roomy: count <= ROOMY_MAX,
            cell_width,
            cell_height,
            font_size,
            angle,
            left: MARGIN + longest.max(corner) + 12,
            top: HEAD + longest * upwards / 100 + 12,
            width: 0,
            legend_top: 0,
            gaps,
        };
        let reaches = lengths.iter().enumerate();
        let right =
            reaches.map(|(at, length)| layout.x(at) + cell_width / 2 + length * across / 100 + 12);
        let cells_end = layout.x(count.saturating_sub(1)) + cell_width;
        let right = right.max().unwrap_or_default().max(cells_end);
        layout.width = (right + MARGIN).max(WIDTH_MIN);
        layout.legend_top = layout.y(count.saturating_sub(1)) + cell_height + 24;
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
