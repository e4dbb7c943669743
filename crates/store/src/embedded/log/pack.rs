//! Writes packed segments: copies of what is still needed, backups, restored stores.

use std::io;
use std::sync::Arc;

use super::Log;
use super::format::{self, FRAMES_OFFSET, Header, draw};
use super::frame::{FrameBuilder, Position};
use super::load::{segment_name, unfinished_name};
use super::record::{Place, Record};
use super::segment::{Row, Segment};
use crate::embedded::disk::DiskFile;

/// Records are written in frames of about this size.
const FRAME_BYTES: usize = 1 << 20;

/// A packed segment in the making.
#[derive(Debug)]
pub(in crate::embedded) struct PackWriter {
    file: Box<dyn DiskFile>,
    header: Header,
    frame: FrameBuilder,
    buffer: Vec<u8>,
    rows: Vec<Row>,
    end: u64,
    frames: u32,
}

/// A packed segment that is whole and durable, under a name that no log reads.
#[derive(Debug)]
pub(in crate::embedded) struct Packed {
    file: Box<dyn DiskFile>,
    first: u64,
    rows: Vec<Row>,
}

impl PackWriter {
    /// Begins with an empty file that covers revisions from `first` on.
    pub(in crate::embedded) fn new(file: Box<dyn DiskFile>, first: u64) -> Self {
        PackWriter {
            file,
            header: Header {
                salt: draw(),
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

    /// Records come in the order of their places.
    pub(in crate::embedded) fn add(&mut self, place: Place, record: &Record<'_>) -> io::Result<()> {
        self.frame.add(place, record);
        self.flush_if_large()
    }

    pub(in crate::embedded) fn add_encoded(
        &mut self,
        place: Place,
        record: &[u8],
    ) -> io::Result<()> {
        self.frame.add_encoded(place, record);
        self.flush_if_large()
    }

    /// How much has been added.
    pub(in crate::embedded) fn bytes(&self) -> u64 {
        self.end + self.frame.record_bytes() as u64
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        if self.frame.record_bytes() < FRAME_BYTES {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        // What a growing segment's frames say of the store stands in the header of a packed one.
        let position = Position {
            number: self.frames,
            before: 0,
            revision: 0,
            compacted: 0,
        };
        self.frame
            .build(self.header.salt, position, &mut self.buffer);
        self.file.write(self.end, &self.buffer)?;
        self.rows.extend(self.frame.rows_at(self.end));
        self.end += self.buffer.len() as u64;
        self.frames += 1;
        self.frame.clear();
        Ok(())
    }

    /// Writes the header, which makes it a segment, and makes all of it durable.
    pub(in crate::embedded) fn finish(self, last: u64, compacted: u64) -> io::Result<Packed> {
        self.finish_as(last, compacted, false)
    }

    /// The same, for a file that holds a whole store as of a revision.
    pub(in crate::embedded) fn finish_backup(self, revision: u64) -> io::Result<()> {
        self.finish_as(revision, revision, true).map(|_| ())
    }

    fn finish_as(mut self, last: u64, compacted: u64, is_backup: bool) -> io::Result<Packed> {
        self.flush()?;
        self.header.packed = Some(format::Packed {
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
        Ok(Packed {
            file: self.file,
            first: self.header.first,
            rows: self.rows,
        })
    }
}

impl Log {
    /// Begins a packed copy of these segments.
    pub(in crate::embedded) fn begin_packing(
        &self,
        segments: &[Arc<Segment>],
    ) -> io::Result<PackWriter> {
        let first = segments.first().ok_or(io::ErrorKind::NotFound)?.first;
        let file = self.disk.create(&unfinished_name(first))?;
        Ok(PackWriter::new(file, first))
    }

    /// Gives a packed copy that nobody wants up.
    pub(in crate::embedded) fn discard_packing(&self, segments: &[Arc<Segment>]) {
        if let Some(first) = segments.first() {
            // If it cannot be removed now, the next start does it.
            let _ = self.disk.remove(&unfinished_name(first.first));
        }
    }

    /// Gives a packed copy the name of the first of the segments that it stands for. From then on the others
    /// are left over.
    pub(in crate::embedded) fn place_packed(&self, packed: Packed) -> io::Result<Arc<Segment>> {
        let name = segment_name(packed.first);
        self.disk.rename(&unfinished_name(packed.first), &name)?;
        let Packed { file, first, rows } = packed;
        Ok(Arc::new(Segment::new(name, first, file, rows)))
    }

    /// Removes the files that a packed copy has made superfluous; the first has been replaced.
    pub(in crate::embedded) fn remove_leftovers(&self, segments: &[Arc<Segment>]) {
        for segment in segments.iter().skip(1) {
            if let Err(error) = self.disk.remove(&segment.name) {
                tracing::warn!("could not remove {}: {error}", segment.name);
            }
        }
    }
}
