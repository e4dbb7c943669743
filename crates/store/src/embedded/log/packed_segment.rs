//! Writing of packed segments: cleaned copies of other segments, backups, restored stores.

use std::io;
use std::sync::Arc;

use super::SegmentedLog;
use super::format::{self, FRAMES_OFFSET, SegmentHeader, random_salt};
use super::frame::{FrameBuilder, FramePosition};
use super::load::{segment_name, unfinished_name};
use super::record::{LogRecord, RecordId};
use super::segment::{LogSegment, RecordLocation};
use crate::embedded::disk::DiskFile;

/// The approximate size of a frame.
const FRAME_TARGET_BYTES: usize = 1 << 20;

/// Writes a packed segment to a file.
#[derive(Debug)]
pub(in crate::embedded) struct PackedSegmentWriter {
    file: Box<dyn DiskFile>,
    header: SegmentHeader,
    frame: FrameBuilder,
    buffer: Vec<u8>,
    rows: Vec<RecordLocation>,
    end: u64,
    frames: u32,
}

/// A packed segment that is complete and durable, but still has its temporary name.
#[derive(Debug)]
pub(in crate::embedded) struct PackedSegmentFile {
    file: Box<dyn DiskFile>,
    first: u64,
    rows: Vec<RecordLocation>,
}

impl PackedSegmentWriter {
    /// Starts a segment in an empty file; it covers revisions from `first` on.
    pub(in crate::embedded) fn new(file: Box<dyn DiskFile>, first: u64) -> Self {
        PackedSegmentWriter {
            file,
            header: SegmentHeader {
                salt: random_salt(),
                first,
                packed: None,
            },
            frame: FrameBuilder::default(),
            buffer: Vec::new(),
            rows: Vec::new(),
            end: FRAMES_OFFSET,
            frames: 0,
        }
    }

    /// Adds a record. Records must be added in the order of their ids.
    pub(in crate::embedded) fn add(
        &mut self,
        record_id: RecordId,
        record: &LogRecord<'_>,
    ) -> io::Result<()> {
        self.frame.add(record_id, record);
        self.flush_if_large()
    }

    pub(in crate::embedded) fn add_encoded(
        &mut self,
        record_id: RecordId,
        record: &[u8],
    ) -> io::Result<()> {
        self.frame.add_encoded(record_id, record);
        self.flush_if_large()
    }

    /// The size of the segment so far.
    pub(in crate::embedded) fn bytes(&self) -> u64 {
        self.end + self.frame.record_bytes() as u64
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        if self.frame.record_bytes() < FRAME_TARGET_BYTES {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        // A packed segment has the revisions in its segment header instead.
        let position = FramePosition {
            number: self.frames,
            previous_revision: 0,
            revision: 0,
            compacted: 0,
        };
        self.frame
            .build(self.header.salt, position, &mut self.buffer);
        self.file.write(self.end, &self.buffer)?;
        self.rows.extend(self.frame.locations_at(self.end));
        self.end += self.buffer.len() as u64;
        self.frames += 1;
        self.frame.clear();
        Ok(())
    }

    /// Writes the header last, which makes the file a valid segment, and syncs it.
    pub(in crate::embedded) fn finish(
        self,
        last: u64,
        compacted: u64,
    ) -> io::Result<PackedSegmentFile> {
        self.finish_as(last, compacted, false)
    }

    /// The same, for a backup of a whole store as of `revision`.
    pub(in crate::embedded) fn finish_backup(self, revision: u64) -> io::Result<()> {
        self.finish_as(revision, revision, true).map(|_| ())
    }

    fn finish_as(
        mut self,
        last: u64,
        compacted: u64,
        is_backup: bool,
    ) -> io::Result<PackedSegmentFile> {
        self.flush()?;
        self.header.packed = Some(format::PackedSegmentInfo {
            last,
            frames: u64::from(self.frames),
            compacted,
            is_backup,
        });
        let mut start = [0; FRAMES_OFFSET as usize];
        let header = self.header.encode();
        start[..header.len()].copy_from_slice(&header);
        self.file.write(0, &start)?;
        self.file.sync()?;
        Ok(PackedSegmentFile {
            file: self.file,
            first: self.header.first,
            rows: self.rows,
        })
    }
}

impl SegmentedLog {
    /// Starts a packed copy of these segments.
    pub(in crate::embedded) fn begin_packed_segment(
        &self,
        segments: &[Arc<LogSegment>],
    ) -> io::Result<PackedSegmentWriter> {
        let first = segments
            .first()
            .ok_or(io::ErrorKind::NotFound)?
            .first_revision;
        let file = self.disk.create(&unfinished_name(first))?;
        Ok(PackedSegmentWriter::new(file, first))
    }

    /// Removes an unfinished packed copy.
    pub(in crate::embedded) fn discard_packed_segment(&self, segments: &[Arc<LogSegment>]) {
        if let Some(first) = segments.first() {
            // Best effort: the next start removes it otherwise.
            let _ = self.disk.remove(&unfinished_name(first.first_revision));
        }
    }

    /// Renames a packed copy to the name of the first segment that it replaces. From then on the other segments are
    /// leftovers.
    pub(in crate::embedded) fn install_packed_segment(
        &self,
        packed: PackedSegmentFile,
    ) -> io::Result<Arc<LogSegment>> {
        let name = segment_name(packed.first);
        self.disk.rename(&unfinished_name(packed.first), &name)?;
        let PackedSegmentFile { file, first, rows } = packed;
        Ok(Arc::new(LogSegment::new(name, first, file, rows)))
    }

    /// Removes the files replaced by a packed copy, except the first, which was overwritten by the rename.
    pub(in crate::embedded) fn remove_leftovers(&self, segments: &[Arc<LogSegment>]) {
        for segment in segments.iter().skip(1) {
            if let Err(error) = self.disk.remove(&segment.name) {
                tracing::warn!(
                    %error,
                    file = segment.name,
                    "failed to remove a log segment that was packed; the next start removes it"
                );
            }
        }
    }
}
