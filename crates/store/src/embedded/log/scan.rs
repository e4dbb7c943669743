//! Scans a segment from start to end and determines where it ends.
//!
//! Each write is synced before the next one begins, so a crash can leave only one incomplete frame, the last. An
//! incomplete frame that is followed by another, or that lies before the end recorded in the status, was damaged after
//! it had been acknowledged.

use super::format::{
    FRAME_ALIGNMENT, FRAME_HEADER_BYTES, FRAMES_OFFSET, FrameHeader, FrameTableRow, STATUS_BYTES,
    STATUS_OFFSETS, SegmentHeader, SegmentStatus, salted_crc,
};
use super::load::LogLoadErrorKind;
use super::record::{RecordHeader, RecordId};
use super::segment::RecordLocation;
use crate::embedded::disk::DiskFile;

/// The result of scanning a segment.
#[derive(Debug)]
pub(super) struct ScannedSegment {
    pub(super) records: Vec<RecordLocation>,
    /// The offset of the next frame.
    pub(super) end: u64,
    pub(super) frames: u32,
    pub(super) revision: u64,
    pub(super) compacted: u64,
    pub(super) status: SegmentStatus,
    /// The sequence number of the status.
    pub(super) status_number: u64,
}

/// Scans a segment and calls `visit` for every record, in order.
pub(super) fn scan(
    file: &dyn DiskFile,
    header: &SegmentHeader,
    mut visit: impl FnMut(RecordId, &RecordHeader<'_>),
) -> Result<ScannedSegment, LogLoadErrorKind> {
    let mut scan = SegmentScanner::begin(file, header)?;
    while let Some(frame) = scan.next_frame()? {
        scan.add_frame(&frame, &mut visit)?;
    }
    scan.check_end()?;
    Ok(scan.scanned)
}

struct SegmentScanner<'a> {
    file: &'a dyn DiskFile,
    header: &'a SegmentHeader,
    size: u64,
    scanned: ScannedSegment,
    /// The records of the current frame.
    record_buffer: Vec<u8>,
}

/// A frame whose header and table have valid checksums.
struct IntactFrame {
    header: FrameHeader,
    table: Vec<u8>,
}

impl<'a> SegmentScanner<'a> {
    fn begin(file: &'a dyn DiskFile, header: &'a SegmentHeader) -> Result<Self, LogLoadErrorKind> {
        let size = file.size()?;
        if size < FRAMES_OFFSET {
            return Err(LogLoadErrorKind::damaged("the file is truncated"));
        }
        let ((status_number, status), (revision, compacted)) = match header.packed {
            Some(packed) => ((0, SegmentStatus::Open), (packed.last, packed.compacted)),
            None => (
                read_status(file, header.salt)?,
                (header.first.saturating_sub(1), 0),
            ),
        };
        Ok(SegmentScanner {
            file,
            header,
            size,
            scanned: ScannedSegment {
                records: Vec::new(),
                end: FRAMES_OFFSET,
                frames: 0,
                revision,
                compacted,
                status,
                status_number,
            },
            record_buffer: Vec::new(),
        })
    }

    /// Reads the next frame and its records; `None` at the end of the segment, for whatever reason it ends.
    fn next_frame(&mut self) -> Result<Option<IntactFrame>, LogLoadErrorKind> {
        let Some(found) = self
            .frame_at(self.scanned.end)?
            .filter(|it| self.is_next(it))
        else {
            return Ok(None);
        };
        let offset = self.scanned.end + (FRAME_HEADER_BYTES + found.table.len()) as u64;
        self.record_buffer
            .resize(found.header.record_bytes as usize, 0);
        self.file.read(offset, &mut self.record_buffer)?;
        let whole =
            salted_crc(self.header.salt, &[&self.record_buffer]) == found.header.records_crc;
        let acknowledged = whole || self.was_acknowledged(&found.header)?;
        Ok(acknowledged.then_some(found))
    }

    fn is_next(&self, found: &IntactFrame) -> bool {
        let in_order = found.header.number == self.scanned.frames;
        in_order
            && (self.header.packed.is_some()
                || found.header.previous_revision == self.scanned.revision)
    }

    /// Whether a frame with damaged records was durable before, so that the damage is not a torn write.
    fn was_acknowledged(&self, frame: &FrameHeader) -> Result<bool, LogLoadErrorKind> {
        let next = self.scanned.end + frame.total_bytes();
        let ended_later = match self.scanned.status {
            SegmentStatus::Open => self.header.packed.is_some(),
            SegmentStatus::Closed { end } | SegmentStatus::Continued { end } => end >= next,
        };
        let followed = |next: IntactFrame| next.header.number == frame.number + 1;
        Ok(ended_later || self.frame_at(next)?.is_some_and(followed))
    }

    fn frame_at(&self, offset: u64) -> Result<Option<IntactFrame>, LogLoadErrorKind> {
        let available = self.size.saturating_sub(offset);
        if available < FRAME_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut fixed = [0; FRAME_HEADER_BYTES];
        self.file.read(offset, &mut fixed)?;
        let Some(frame) = FrameHeader::decode(&fixed, self.header.salt) else {
            return Ok(None);
        };
        let behind = (FRAME_HEADER_BYTES + frame.table_bytes()) as u64;
        if behind + u64::from(frame.record_bytes) > available {
            return Ok(None);
        }
        let mut table = vec![0; frame.table_bytes()];
        self.file
            .read(offset + FRAME_HEADER_BYTES as u64, &mut table)?;
        let intact = salted_crc(self.header.salt, &[&table]) == frame.table_crc;
        Ok(intact.then_some(IntactFrame {
            header: frame,
            table,
        }))
    }

    fn add_frame(
        &mut self,
        found: &IntactFrame,
        visit: &mut impl FnMut(RecordId, &RecordHeader<'_>),
    ) -> Result<(), LogLoadErrorKind> {
        let records_offset = self.scanned.end + (FRAME_HEADER_BYTES + found.table.len()) as u64;
        let mut start = 0;
        for FrameTableRow { record_id, bytes } in FrameTableRow::decode_all(&found.table) {
            let end = start + bytes as usize;
            let record = self.record_buffer.get(start..end).unwrap_or_default();
            let head = RecordHeader::decode_either_copy(record_id, record).map_err(|bad| {
                LogLoadErrorKind::damaged(format!(
                    "revision {}: {}",
                    record_id.revision,
                    bad.reason()
                ))
            })?;
            visit(record_id, &head);
            let offset = records_offset + start as u64;
            self.scanned
                .records
                .push(RecordLocation::new(record_id, offset, bytes));
            start = end;
        }
        self.scanned.frames += 1;
        self.scanned.end += found.header.total_bytes();
        if self.header.packed.is_none() {
            self.scanned.revision = found.header.revision;
            self.scanned.compacted = self.scanned.compacted.max(found.header.compacted);
        }
        Ok(())
    }

    /// Checks that no acknowledged frame lies after the last one read.
    fn check_end(&self) -> Result<(), LogLoadErrorKind> {
        let ScannedSegment { frames, end, .. } = self.scanned;
        let whole = match (self.header.packed, self.scanned.status) {
            (Some(packed), _) => packed.frames == u64::from(frames),
            (None, SegmentStatus::Open) => !self.has_later_frame()?,
            (
                None,
                SegmentStatus::Closed { end: last } | SegmentStatus::Continued { end: last },
            ) => end == last,
        };
        if whole {
            return Ok(());
        }
        let revision = self
            .scanned
            .records
            .last()
            .map_or(0, |row| row.record_id().revision);
        Err(LogLoadErrorKind::damaged(format!(
            "the data after revision {revision} cannot be read"
        )))
    }

    fn has_later_frame(&self) -> Result<bool, LogLoadErrorKind> {
        const CHUNK_BYTES: u64 = 64 * 1024;
        let mut chunk = Vec::new();
        let mut offset = self.scanned.end + FRAME_ALIGNMENT;
        while offset < self.size {
            // Overlap with the next chunk, because a frame header may start at the end of this one.
            let bytes = (CHUNK_BYTES + FRAME_HEADER_BYTES as u64).min(self.size - offset);
            chunk.resize(bytes as usize, 0);
            self.file.read(offset, &mut chunk)?;
            let later = (0..CHUNK_BYTES as usize)
                .step_by(FRAME_ALIGNMENT as usize)
                .filter_map(|start| chunk.get(start..)?.first_chunk())
                .filter_map(|fixed| FrameHeader::decode(fixed, self.header.salt))
                .any(|frame| frame.number >= self.scanned.frames);
            if later {
                return Ok(true);
            }
            offset += CHUNK_BYTES;
        }
        Ok(false)
    }
}

/// Reads both copies of the status and returns the later one, with its sequence number.
fn read_status(file: &dyn DiskFile, salt: u64) -> Result<(u64, SegmentStatus), LogLoadErrorKind> {
    let mut latest = None;
    for offset in STATUS_OFFSETS {
        let mut bytes = [0; STATUS_BYTES];
        file.read(offset, &mut bytes)?;
        let status = SegmentStatus::decode(&bytes, salt);
        if let Some(status) = status
            && latest.is_none_or(|(number, _)| number < status.0)
        {
            latest = Some(status);
        }
    }
    latest.ok_or_else(|| LogLoadErrorKind::damaged("both copies of the segment status are damaged"))
}
