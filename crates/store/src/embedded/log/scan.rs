//! Reads a segment from its beginning to its end, and finds out where that is.
//!
//! Each write is made durable before the next one begins, so a crash can leave only one frame that is not
//! whole, and it is the last. A frame that is not whole but followed by another, or that lies before the end
//! which the status names, was damaged after it had been acknowledged.

use super::format::{
    FRAME_ALIGNMENT, FRAME_BYTES, FRAMES_OFFSET, Frame, Header, STATUS_BYTES, STATUS_OFFSETS,
    Status, TableRow, salted_crc,
};
use super::load::Why;
use super::record::{Head, Place};
use super::segment::Row;
use crate::embedded::disk::DiskFile;

/// What a segment was found to hold.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) rows: Vec<Row>,
    /// Where the next frame belongs.
    pub(super) end: u64,
    pub(super) frames: u32,
    pub(super) revision: u64,
    pub(super) compacted: u64,
    pub(super) status: Status,
    /// How often the status has been written.
    pub(super) status_number: u64,
}

/// Shows every record of a segment to `visit`, in order.
pub(super) fn scan(
    file: &dyn DiskFile,
    header: &Header,
    mut visit: impl FnMut(Place, &Head<'_>),
) -> Result<Scanned, Why> {
    let mut scan = Scan::begin(file, header)?;
    while let Some(frame) = scan.next_frame()? {
        scan.take_in(&frame, &mut visit)?;
    }
    scan.check_end()?;
    Ok(scan.found)
}

struct Scan<'a> {
    file: &'a dyn DiskFile,
    header: &'a Header,
    size: u64,
    found: Scanned,
    /// The records of the frame at hand.
    records: Vec<u8>,
}

/// A frame whose header and table are as they were written.
struct Found {
    frame: Frame,
    table: Vec<u8>,
}

impl<'a> Scan<'a> {
    fn begin(file: &'a dyn DiskFile, header: &'a Header) -> Result<Self, Why> {
        let size = file.size()?;
        if size < FRAMES_OFFSET {
            return Err(Why::damaged("the file is cut off"));
        }
        let ((status_number, status), (revision, compacted)) = match header.packed {
            Some(packed) => ((0, Status::Open), (packed.last, packed.compacted)),
            None => (
                read_status(file, header.salt)?,
                (header.first.saturating_sub(1), 0),
            ),
        };
        Ok(Scan {
            file,
            header,
            size,
            found: Scanned {
                rows: Vec::new(),
                end: FRAMES_OFFSET,
                frames: 0,
                revision,
                compacted,
                status,
                status_number,
            },
            records: Vec::new(),
        })
    }

    /// The frame that belongs here, with its records; `None` at the end, whatever the reason.
    fn next_frame(&mut self) -> Result<Option<Found>, Why> {
        let Some(found) = self.frame_at(self.found.end)?.filter(|it| self.follows(it)) else {
            return Ok(None);
        };
        let offset = self.found.end + (FRAME_BYTES + found.table.len()) as u64;
        self.records.resize(found.frame.bytes as usize, 0);
        self.file.read(offset, &mut self.records)?;
        let whole = salted_crc(self.header.salt, &[&self.records]) == found.frame.crc;
        let acknowledged = whole || self.was_acknowledged(&found.frame)?;
        Ok(acknowledged.then_some(found))
    }

    fn follows(&self, found: &Found) -> bool {
        let in_order = found.frame.number == self.found.frames;
        in_order && (self.header.packed.is_some() || found.frame.before == self.found.revision)
    }

    /// Whether a frame with damaged records has been durable once, so that the damage is no torn write.
    fn was_acknowledged(&self, frame: &Frame) -> Result<bool, Why> {
        let next = self.found.end + frame.total_bytes();
        let ended_later = match self.found.status {
            Status::Open => self.header.packed.is_some(),
            Status::Closed { end } | Status::Continued { end } => end >= next,
        };
        let followed = |next: Found| next.frame.number == frame.number + 1;
        Ok(ended_later || self.frame_at(next)?.is_some_and(followed))
    }

    fn frame_at(&self, offset: u64) -> Result<Option<Found>, Why> {
        let room = self.size.saturating_sub(offset);
        if room < FRAME_BYTES as u64 {
            return Ok(None);
        }
        let mut fixed = [0; FRAME_BYTES];
        self.file.read(offset, &mut fixed)?;
        let Some(frame) = Frame::decode(&fixed, self.header.salt) else {
            return Ok(None);
        };
        let behind = (FRAME_BYTES + frame.table_bytes()) as u64;
        if behind + u64::from(frame.bytes) > room {
            return Ok(None);
        }
        let mut table = vec![0; frame.table_bytes()];
        self.file.read(offset + FRAME_BYTES as u64, &mut table)?;
        let intact = salted_crc(self.header.salt, &[&table]) == frame.table_crc;
        Ok(intact.then_some(Found { frame, table }))
    }

    fn take_in(
        &mut self,
        found: &Found,
        visit: &mut impl FnMut(Place, &Head<'_>),
    ) -> Result<(), Why> {
        let records_offset = self.found.end + (FRAME_BYTES + found.table.len()) as u64;
        let mut start = 0;
        for TableRow { place, bytes } in TableRow::all(&found.table) {
            let end = start + bytes as usize;
            let record = self.records.get(start..end).unwrap_or_default();
            let head = Head::of(place, record).map_err(|bad| {
                Why::damaged(format!("revision {}: {}", place.revision, bad.reason()))
            })?;
            visit(place, &head);
            let offset = records_offset + start as u64;
            self.found.rows.push(Row::new(place, offset, bytes));
            start = end;
        }
        self.found.frames += 1;
        self.found.end += found.frame.total_bytes();
        if self.header.packed.is_none() {
            self.found.revision = found.frame.revision;
            self.found.compacted = self.found.compacted.max(found.frame.compacted);
        }
        Ok(())
    }

    /// Makes sure that nothing that was acknowledged lies behind the last frame.
    fn check_end(&self) -> Result<(), Why> {
        let Scanned { frames, end, .. } = self.found;
        let whole = match (self.header.packed, self.found.status) {
            (Some(packed), _) => packed.frames == u64::from(frames),
            (None, Status::Open) => !self.has_later_frame()?,
            (None, Status::Closed { end: last } | Status::Continued { end: last }) => end == last,
        };
        if whole {
            return Ok(());
        }
        let revision = self.found.rows.last().map_or(0, |row| row.place().revision);
        Err(Why::damaged(format!(
            "what follows revision {revision} cannot be read"
        )))
    }

    fn has_later_frame(&self) -> Result<bool, Why> {
        const CHUNK_BYTES: u64 = 64 * 1024;
        let mut chunk = Vec::new();
        let mut offset = self.found.end + FRAME_ALIGNMENT;
        while offset < self.size {
            // With the beginning of what follows: a frame may begin at the end of a chunk.
            let bytes = (CHUNK_BYTES + FRAME_BYTES as u64).min(self.size - offset);
            chunk.resize(bytes as usize, 0);
            self.file.read(offset, &mut chunk)?;
            let later = (0..CHUNK_BYTES as usize)
                .step_by(FRAME_ALIGNMENT as usize)
                .filter_map(|start| chunk.get(start..)?.first_chunk())
                .filter_map(|fixed| Frame::decode(fixed, self.header.salt))
                .any(|frame| frame.number >= self.found.frames);
            if later {
                return Ok(true);
            }
            offset += CHUNK_BYTES;
        }
        Ok(false)
    }
}

/// The later one of the two, and which one it is.
fn read_status(file: &dyn DiskFile, salt: u64) -> Result<(u64, Status), Why> {
    let mut latest = None;
    for offset in STATUS_OFFSETS {
        let mut bytes = [0; STATUS_BYTES];
        file.read(offset, &mut bytes)?;
        let status = Status::decode(&bytes, salt);
        if let Some(status) = status
            && latest.is_none_or(|(number, _)| number < status.0)
        {
            latest = Some(status);
        }
    }
    latest.ok_or_else(|| Why::damaged("both copies of its status are damaged"))
}
