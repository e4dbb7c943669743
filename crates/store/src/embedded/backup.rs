//! Backup of a running store, restore into an empty directory, and a check of everything stored.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use redb::{Database, Durability};
use rhumb_meta::Revision;

use super::apply::Tables;
use super::committer::begin;
use super::contents::Contents;
use super::directory::Directory;
use super::fault::{from_redb, short};
use super::file::{FileError, put_in_free_place, read_all, write_database};
use super::layout::{Body, Place, Record};
use super::{Embedded, Options};
use crate::{Entry, Error, Expect, Range, Result, Store, Transaction};

/// How far a restored store's revisions are moved on at least. Clients may have seen revisions that came
/// after the backup: none of them may ever be given to another change, and all must count as compacted.
pub const RESTORE_REVISION_GAP: u64 = 1 << 30;

/// How many bytes of values are written at a time.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

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
        let index = Arc::clone(&self.index);
        let contents = self
            .engine
            .read(move |database| Contents::of(&Range::prefix(""), &index, database))
            .await
            .map_err(|error| FileError::not_written(file, short(&error)))?;
        let path = file.to_owned();
        let write = tokio::task::spawn_blocking(move || write_backup(&contents, &path));
        write
            .await
            .unwrap_or_else(|error| Err(FileError::not_written(file, error)))
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
    write_database(&unfinished, |database| {
        copy(contents, database, &mut report)
    })
    .map_err(|error| error.about(file))?;
    put_in_free_place(&unfinished, file)?;
    Ok(report)
}

/// How many this process has begun.
static BACKUPS: AtomicU64 = AtomicU64::new(0);

/// A name that nobody else uses, also after a crash and in a container where all processes have one id.
fn unfinished(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    let process = std::process::id();
    // Two backups can begin within one microsecond.
    let number = BACKUPS.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{process}-{}-{number}.partial", now_micros()));
    name.into()
}

fn now_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

/// Backs up a store that no process is using.
pub fn backup_file(directory: &Path, file: &Path) -> Result<Report, FileError> {
    let directory = Directory::hold_existing(directory)?;
    read_all(&directory.database(), |contents| {
        write_backup(contents, file)
    })
}

/// Reads every entry of a store that no process is using, and says which are damaged.
pub fn check(directory: &Path) -> Result<Report, FileError> {
    let directory = Directory::hold_existing(directory)?;
    let database = directory.database();
    read_all(&database, |contents| {
        let mut report = Report::new(contents.revision);
        for (key, place) in &contents.keys {
            match contents.snapshot.entry(key, *place) {
                Ok(entry) => report.count(&entry),
                Err(Error::Damaged { key, reason }) => {
                    report.damaged.push(format!("{key}: {reason}"));
                }
                Err(error) => return Err(FileError::damaged(&database, short(&error))),
            }
        }
        Ok(report)
    })
}

/// Deletes an entry whose value is damaged from a store that no process is using.
pub async fn drop_damaged(directory: &Path, key: &str) -> Result<(), FileError> {
    let existing = Directory::hold_existing(directory)?;
    let database = existing.database();
    drop(existing);
    let store = Embedded::open(directory, Options::default()).await?;
    let result = match store.get(key).await {
        Err(Error::Damaged { .. }) => {
            let delete = Transaction::new().delete(key, Expect::Any);
            let deleted = store.commit(delete).await.map(|_| ());
            deleted.map_err(|error| FileError::not_written(&database, short(&error)))
        }
        Ok(_) => Err(FileError::NotDamaged {
            path: database,
            key: key.to_owned(),
        }),
        Err(error) => Err(FileError::damaged(&database, short(&error))),
    };
    store.close().await;
    result
}

/// Makes a store in an empty directory from a backup, which is not changed.
pub fn restore(file: &Path, directory: &Path) -> Result<Report, FileError> {
    read_all(file, |backup| {
        let directory = Directory::hold(directory)?;
        if directory.database().exists() {
            return Err(FileError::Occupied {
                path: directory.database(),
            });
        }
        let revision = first_revision_after(backup.revision.get(), now_micros());
        let mut report = Report::new(Revision::new(revision));
        directory.create_database(|database| copy(backup, database, &mut report))?;
        Ok(report)
    })
}

/// Where a restored store goes on. No store makes a million changes a second, so one that is restored later,
/// be it from the same backup, begins after all that an earlier one has come to.
fn first_revision_after(backup: u64, now_micros: u64) -> u64 {
    now_micros.max(backup + RESTORE_REVISION_GAP)
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
    let write = begin(database)?;
    Tables::create(&write)?.save()?;
    write.commit().map_err(from_redb)?;
    let mut chunk = Vec::new();
    let mut chunk_bytes = 0;
    for (key, place) in &contents.keys {
        let entry = contents.snapshot.entry(key, *place)?;
        report.count(&entry);
        chunk_bytes += entry.value.len();
        chunk.push((*place, entry));
        if chunk_bytes >= CHUNK_BYTES {
            append(database, &mut chunk)?;
            chunk_bytes = 0;
        }
    }
    append(database, &mut chunk)?;
    let write = begin(database)?;
    let mut tables = Tables::open(&write)?;
    tables.numbers.revision = report.revision.get();
    tables.numbers.compacted = report.revision.get();
    tables.save()?;
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
    let mut tables = Tables::open(&write)?;
    for (place, entry) in chunk.drain(..) {
        let body = Body::Put {
            created: entry.created.get(),
            value: &entry.value,
        };
        let key = &entry.key;
        tables.append(place, Record { key, body })?;
    }
    tables.save()?;
    write.commit().map_err(from_redb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_store_goes_on_after_all_that_anybody_has_seen() {
        let (backup, hour) = (5_000, 3_600_000_000);
        let first = first_revision_after(backup, 1_700_000_000_000_000);
        let second = first_revision_after(backup, 1_700_000_000_000_000 + hour);
        assert!(
            second - first >= hour,
            "room for what the first has written"
        );
        // A clock that is wrong leaves at least the gap.
        assert_eq!(
            first_revision_after(backup, 0),
            backup + RESTORE_REVISION_GAP
        );
        assert!(first_revision_after(first + 7, 0) > first + 7);
    }
}
