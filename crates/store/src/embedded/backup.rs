//! Backup of a running store, restore into an empty directory, and a check of everything stored.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use redb::{Database, Durability};
use rhumb_meta::Revision;

use super::Embedded;
use super::apply::Tables;
use super::committer::begin;
use super::contents::Contents;
use super::directory::{Directory, FileError, open_engine, publish, write_database};
use super::fault::from_redb;
use super::layout::{Body, FORMAT, META_COMPACTED, META_FORMAT, META_REVISION, Place, Record};
use super::read::Snapshot;
use crate::{Entry, Error, Range, Result};

/// How far a restored store's revisions are moved on. Clients may have seen revisions that came after the
/// backup: none of them may ever be given to another change, and all of them must count as compacted.
pub const RESTORE_REVISION_GAP: u64 = 1 << 30;

/// How many entries are written at a time.
const CHUNK: usize = 4096;

const PAGE_CACHE_BYTES: usize = 16 * 1024 * 1024;

/// What a store or a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub revision: Revision,
    pub entries: u64,
    pub bytes: u64,
    /// Keys whose stored value is damaged, each with the reason.
    pub damaged: Vec<String>,
}

impl Embedded {
    /// Writes all entries of this moment to a new file, while writers go on. The file is there only when
    /// it is whole.
    pub async fn backup(&self, file: &Path) -> Result<Report, FileError> {
        let (path, index) = (file.to_owned(), Arc::clone(&self.index));
        let written = self.engine.read(move |database| {
            let contents = Contents::of(&Range::prefix(""), &index, database)?;
            Ok(write_backup(&contents, &path))
        });
        written
            .await
            .map_err(|error| FileError::not_written(file, error))?
    }
}

fn write_backup(contents: &Contents, file: &Path) -> Result<Report, FileError> {
    if file.exists() {
        return Err(FileError::Exists {
            path: file.to_owned(),
        });
    }
    let unfinished = unfinished(file);
    let mut report = Report::new(contents.revision);
    let copied = write_database(&unfinished, |database| {
        copy(contents, database, &mut report)
    });
    let written = copied.and_then(|()| publish(&unfinished, file));
    if written.is_err() {
        // The file is ours and useless; what matters is why.
        let _ = std::fs::remove_file(&unfinished);
    }
    written.map(|()| report)
}

fn unfinished(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    name.into()
}

/// Backs up a store that no process is using.
pub fn backup_file(directory: &Path, file: &Path) -> Result<Report, FileError> {
    let directory = Directory::hold_existing(directory)?;
    write_backup(&contents_of(&directory.database())?, file)
}

/// Reads every entry of a store that no process is using, and says which are damaged.
pub fn check(directory: &Path) -> Result<Report, FileError> {
    let directory = Directory::hold_existing(directory)?;
    let database = directory.database();
    let contents = contents_of(&database)?;
    let mut report = Report::new(contents.revision);
    for (key, place) in &contents.keys {
        match contents.snapshot.entry(key, *place) {
            Ok(entry) => report.count(&entry),
            Err(Error::Damaged { key, reason }) => report.damaged.push(format!("{key}: {reason}")),
            Err(error) => return Err(FileError::damaged(&database, error)),
        }
    }
    Ok(report)
}

/// Makes a store in an empty directory from a backup.
pub fn restore(file: &Path, directory: &Path) -> Result<Report, FileError> {
    let backup = contents_of(file)?;
    let directory = Directory::hold(directory)?;
    if directory.database().exists() {
        return Err(FileError::Occupied {
            path: directory.database(),
        });
    }
    let revision = backup.revision.get() + RESTORE_REVISION_GAP;
    let mut report = Report::new(Revision::new(revision));
    directory.create_database(|database| copy(&backup, database, &mut report))?;
    Ok(report)
}

/// What a file holds that no process is using.
fn contents_of(file: &Path) -> Result<Contents, FileError> {
    let engine = open_engine(file, PAGE_CACHE_BYTES)?;
    let read = |database: &Database| {
        let index = RwLock::new(Snapshot::open(database)?.index()?);
        Contents::of(&Range::prefix(""), &index, database)
    };
    engine
        .read_blocking(read)
        .map_err(|error| FileError::damaged(file, error))
}

impl Report {
    fn new(revision: Revision) -> Self {
        Report {
            revision,
            entries: 0,
            bytes: 0,
            damaged: Vec::new(),
        }
    }

    fn count(&mut self, entry: &Entry) {
        self.entries += 1;
        self.bytes += entry.value.len() as u64;
    }
}

/// Copies the entries into an empty database, whose history begins and ends at the report's revision.
fn copy(contents: &Contents, database: &Database, report: &mut Report) -> Result<()> {
    let mut chunk = Vec::with_capacity(CHUNK);
    for (key, place) in &contents.keys {
        let entry = contents.snapshot.entry(key, *place)?;
        report.count(&entry);
        chunk.push((*place, entry));
        if chunk.len() == CHUNK {
            append(database, &mut chunk)?;
        }
    }
    append(database, &mut chunk)?;
    let write = begin(database)?;
    {
        let mut tables = Tables::open(&write)?;
        tables.set(META_FORMAT, FORMAT)?;
        tables.set(META_REVISION, report.revision.get())?;
        tables.set(META_COMPACTED, report.revision.get())?;
    }
    write.commit().map_err(from_redb)
}

fn append(database: &Database, chunk: &mut Vec<(Place, Entry)>) -> Result<()> {
    let mut write = begin(database)?;
    // The last commit of the copy makes them all durable.
    write
        .set_durability(Durability::None)
        .map_err(|error| Error::Failed {
            reason: error.to_string(),
        })?;
    {
        let mut tables = Tables::open(&write)?;
        for (place, entry) in chunk.drain(..) {
            let body = Body::Put {
                created: entry.created.get(),
                value: &entry.value,
            };
            let key = &entry.key;
            tables.append(place, Record { key, body })?;
        }
    }
    write.commit().map_err(from_redb)
}
