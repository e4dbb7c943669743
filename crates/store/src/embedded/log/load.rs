//! Reads a whole log, or a backup, into memory: which segments there are, and what they hold.

use std::io;
use std::sync::Arc;

use super::Log;
use super::format::{BadHeader, HEADER_BYTES, Header, Status};
use super::record::{Head, Place};
use super::scan::{Scanned, scan};
use super::segment::Segment;
use super::tail::{self, Reached, Tail};
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::index::{Index, Version};

/// The revision of a store that nobody has written to, as in etcd.
pub(in crate::embedded) const FIRST_REVISION: u64 = 1;

/// How the files of a log are called; those in the making have another ending.
const ENDING: &str = ".log";
const UNFINISHED: &str = ".new";

pub(in crate::embedded) fn is_segment(name: &str) -> bool {
    name.ends_with(ENDING)
}

pub(in crate::embedded) fn segment_name(first: u64) -> String {
    format!("{first:020}{ENDING}")
}

pub(in crate::embedded) fn unfinished_name(first: u64) -> String {
    format!("{first:020}{UNFINISHED}")
}

/// Why a file of a log cannot be used.
#[derive(Debug)]
pub(in crate::embedded) struct Unreadable {
    pub(in crate::embedded) file: String,
    pub(in crate::embedded) why: Why,
}

#[derive(Debug)]
pub(in crate::embedded) enum Why {
    Io(io::Error),
    Foreign,
    OtherFormat(u32),
    Damaged(String),
}

impl Why {
    pub(super) fn damaged(reason: impl Into<String>) -> Self {
        Why::Damaged(reason.into())
    }

    fn of(self, file: &str) -> Unreadable {
        Unreadable {
            file: file.to_owned(),
            why: self,
        }
    }
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Why::damaged("the file is cut off"),
            _ => Why::Io(error),
        }
    }
}

/// A log that has been read, and not changed.
#[derive(Debug)]
pub(in crate::embedded) struct Loaded {
    pub(in crate::embedded) log: Log,
    pub(in crate::embedded) index: Index,
    /// Files that a crash has left, and that hold nothing.
    leftovers: Vec<String>,
    /// What the last segment was found to hold.
    last: Ending,
    /// The one before it, if a crash kept it from saying that another follows.
    unmarked: Option<Ending>,
}

/// How a segment that grew was found to end.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) scanned: Scanned,
    pub(super) salt: u64,
}

/// Reads the log that lies on a disk.
pub(in crate::embedded) fn load(disk: Box<dyn Disk>) -> Result<Loaded, Unreadable> {
    let names = disk.names().map_err(|error| Why::from(error).of(""))?;
    let (mut names, mut leftovers) = (names, Vec::new());
    leftovers.extend(names.extract_if(.., |name| name.ends_with(UNFINISHED)));
    names.retain(|name| is_segment(name));
    names.sort_unstable();
    let mut reading = Reading::new();
    let (mut last, mut before_last) = (None, None);
    for name in names {
        let file = disk
            .open(&name)
            .map_err(|error| Why::from(error).of(&name))?;
        let header = read_header(file.as_ref()).map_err(|why| why.of(&name))?;
        if header.packed.is_some_and(|packed| packed.is_backup) {
            return Err(Why::damaged("it is a backup, and no part of a store").of(&name));
        }
        if header.first <= reading.packed_up_to {
            leftovers.push(name);
            continue;
        }
        let scanned = reading.take_in(&name, file, &header);
        let scanned = scanned.map_err(|why| why.of(&name))?;
        before_last = last.replace((scanned, header, name));
    }
    let missing = || Why::damaged("the segment that follows is missing");
    let (last, header, name) = last.ok_or_else(|| missing().of(&segment_name(2)))?;
    if header.packed.is_some() || matches!(last.status, Status::Continued { .. }) {
        return Err(missing().of(&name));
    }
    let unmarked = before_last.filter(|(scanned, header, _)| {
        header.packed.is_none() && !matches!(scanned.status, Status::Continued { .. })
    });
    let ending = |scanned, header: Header| Ending {
        scanned,
        salt: header.salt,
    };
    let mut loaded = reading.finish(disk, ending(last, header));
    loaded.leftovers = leftovers;
    loaded.unmarked = unmarked.map(|(scanned, header, _)| ending(scanned, header));
    Ok(loaded)
}

/// Reads a backup.
pub(in crate::embedded) fn load_backup(
    disk: Box<dyn Disk>,
    name: &str,
    file: Box<dyn DiskFile>,
) -> Result<Loaded, Unreadable> {
    let read = || {
        let header = read_header(file.as_ref())?;
        if !header.packed.is_some_and(|packed| packed.is_backup) {
            return Err(Why::damaged("it is a part of a store, not a backup"));
        }
        let mut reading = Reading::new();
        let scanned = reading.take_in(name, file, &header)?;
        let salt = header.salt;
        Ok((reading, Ending { scanned, salt }))
    };
    let (reading, last) = read().map_err(|why: Why| why.of(name))?;
    Ok(reading.finish(disk, last))
}

fn read_header(file: &dyn DiskFile) -> Result<Header, Why> {
    let size = file.size()?;
    if size == 0 {
        return Err(Why::damaged("the file is empty"));
    }
    let mut bytes = [0; HEADER_BYTES];
    let there = HEADER_BYTES.min(size as usize);
    file.read(0, &mut bytes[..there])?;
    let header = Header::decode(&bytes);
    header.map_err(|bad| match bad {
        BadHeader::Foreign => Why::Foreign,
        BadHeader::OtherFormat(format) => Why::OtherFormat(format),
        BadHeader::Damaged => Why::damaged("the checksum of its header does not match"),
    })
}

/// Segments that have been read so far.
struct Reading {
    index: Index,
    segments: Vec<Arc<Segment>>,
    revision: u64,
    compacted: u64,
    /// Segments that begin before this have been packed with others: a crash kept them from being removed.
    packed_up_to: u64,
}

impl Reading {
    fn new() -> Self {
        Reading {
            index: Index::new(),
            segments: Vec::new(),
            revision: FIRST_REVISION,
            compacted: 0,
            packed_up_to: 0,
        }
    }

    fn take_in(
        &mut self,
        name: &str,
        file: Box<dyn DiskFile>,
        header: &Header,
    ) -> Result<Scanned, Why> {
        if header.first != self.revision + 1 {
            let (before, first) = (self.revision, header.first);
            return Err(Why::damaged(format!(
                "it begins with revision {first}, but what comes before it ends with {before}"
            )));
        }
        let mut dead = Vec::new();
        let mut scanned = scan(file.as_ref(), header, |place: Place, head: &Head<'_>| {
            let created = head.created;
            dead.extend(self.index.add(&head.key.into(), Version { place, created }));
        })?;
        self.revision = scanned.revision;
        self.packed_up_to = header
            .packed
            .map_or(self.packed_up_to, |packed| packed.last);
        self.compacted = self.compacted.max(scanned.compacted);
        let rows = std::mem::take(&mut scanned.rows);
        let segment = Segment::new(name.to_owned(), header.first, file, rows);
        self.segments.push(Arc::new(segment));
        dead.into_iter().for_each(|place| self.note_dead(place));
        Ok(scanned)
    }

    fn note_dead(&self, place: Place) {
        if let Some(segment) = super::segment_of(&self.segments, place) {
            segment.note_dead(place);
        }
    }

    fn finish(mut self, disk: Box<dyn Disk>, last: Ending) -> Loaded {
        self.index.reached(self.revision, self.compacted);
        for place in self.index.forget(usize::MAX) {
            self.note_dead(place);
        }
        Loaded {
            log: Log::new(disk, self.segments),
            index: self.index,
            leftovers: Vec::new(),
            last,
            unmarked: None,
        }
    }
}

impl Loaded {
    /// Makes the log ready to be written to: cuts off what no writer was told of, and removes what holds nothing.
    pub(in crate::embedded) fn writable(
        self,
        segment_bytes: u64,
    ) -> io::Result<(Arc<Log>, Index, Tail)> {
        for name in &self.leftovers {
            self.log.disk().remove(name)?;
        }
        let log = Arc::new(self.log);
        let reached = Reached {
            revision: self.index.revision().get(),
            compacted: self.index.compacted().get(),
        };
        if let Some(unmarked) = &self.unmarked {
            tail::mark_continued(&log, unmarked);
        }
        let tail = Tail::resume(&log, &self.last, reached, segment_bytes)?;
        Ok((log, self.index, tail))
    }
}
