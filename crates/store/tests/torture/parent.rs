//! The process that kills, and judges.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rhumb_store::embedded::Embedded;
use rhumb_store::{ChangeEvent, Error, Revision, Store};
use rhumb_store_conformance::Random;

use crate::child::{WRITERS, left, number, options, right};

/// What children have said.
struct Acknowledged {
    counts: [u64; WRITERS],
    revision: u64,
    total: u64,
}

/// Long enough to open the store and write a while; many kills come earlier.
const LIFE_MAX: Duration = Duration::from_millis(150);

pub(super) async fn torture(rounds: usize) -> Result<String, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let data = directory.path().join("data");
    let mut acknowledged = Acknowledged {
        counts: [0; WRITERS],
        revision: 0,
        total: 0,
    };
    let mut random = random();
    let mut kills_in_recovery = 0;
    let mut shown = Instant::now();
    for round in 1..=rounds {
        kill_a_writer(&data, below(&mut random, LIFE_MAX), &mut acknowledged)?;
        // Sometimes the next one is killed before it has recovered from this.
        if round % 3 == 0 {
            kill_a_writer(&data, below(&mut random, LIFE_MAX / 20), &mut acknowledged)?;
            kills_in_recovery += 1;
        }
        if let Err(violation) = judge(&data, &acknowledged).await {
            let kept = directory.keep();
            let kept = kept.display();
            return Err(format!("round {round}: {violation}; the data is in {kept}"));
        }
        if shown.elapsed() > Duration::from_secs(10) {
            eprintln!("{round} of {rounds} rounds, {} writes", acknowledged.total);
            shown = Instant::now();
        }
    }
    Ok(format!(
        "{rounds} rounds, {} kills, {} acknowledged writes, none lost",
        rounds + kills_in_recovery,
        acknowledged.total
    ))
}

fn kill_a_writer(data: &Path, life: Duration, heard: &mut Acknowledged) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .arg("--child")
        .arg(data)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start a writer: {error}"))?;
    let mut output = child.stdout.take().ok_or("the writer has no output")?;
    // Reads along, or the writer would stand still once the pipe is full.
    let listener = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    std::thread::sleep(life);
    if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
        return Err(format!("the writer ended by itself: {status}"));
    }
    child.kill().map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    let text = listener.join().map_err(|_| "the listener failed")?;
    heard.take(&text.map_err(|error| error.to_string())?)
}

impl Acknowledged {
    fn take(&mut self, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let numbers: Vec<u64> = line
                .split(' ')
                .filter_map(|word| word.parse().ok())
                .collect();
            let [writer, count, revision] = numbers[..] else {
                return Err(format!("not an acknowledgement: {line:?}"));
            };
            self.counts[writer as usize] = count;
            self.revision = self.revision.max(revision);
            self.total += 1;
        }
        Ok(())
    }
}

/// Everything acknowledged is there, nothing is half there, and the revision did not go back.
async fn judge(data: &Path, acknowledged: &Acknowledged) -> Result<(), String> {
    let store = Embedded::open(data, options())
        .await
        .map_err(|error| error.to_string())?;
    let revision = store.revision().await.map_err(|error| error.to_string())?;
    if revision.get() < acknowledged.revision {
        let seen = acknowledged.revision;
        return Err(format!("the revision went back from {seen} to {revision}"));
    }
    for (writer, count) in acknowledged.counts.iter().enumerate() {
        judge_writer(&store, writer, *count).await?;
    }
    judge_history(&store, revision).await?;
    store.close().await;
    Ok(())
}

async fn judge_writer(store: &Embedded, writer: usize, acknowledged: u64) -> Result<(), String> {
    let read = async |key: String| store.get(&key).await.map_err(|error| error.to_string());
    let (left, right) = (read(left(writer)).await?, read(right(writer)).await?);
    let (Some(left), Some(right)) = (&left, &right) else {
        let nothing = left.is_none() && right.is_none() && acknowledged == 0;
        return nothing
            .then_some(())
            .ok_or(format!("writer {writer}: half a transaction"));
    };
    if (&left.value, left.modified) != (&right.value, right.modified) {
        return Err(format!("writer {writer}: half a transaction"));
    }
    let found = number(&left.value);
    // One transaction of a writer may be on its way when it is killed, and two kills may come in a row.
    if found < acknowledged || found > acknowledged + 2 {
        return Err(format!(
            "writer {writer}: {acknowledged} was acknowledged, {found} is there"
        ));
    }
    Ok(())
}

/// The recent past can be told without a gap: each writer counts by one.
async fn judge_history(store: &Embedded, revision: Revision) -> Result<(), String> {
    let mut after = Revision::new(revision.get().saturating_sub(500));
    let mut stream = loop {
        match store.changes("/left/", after).await {
            Ok(stream) => break stream,
            Err(Error::Compacted { oldest, .. }) => after = oldest,
            Err(error) => return Err(error.to_string()),
        }
    };
    stream
        .request_progress()
        .await
        .map_err(|error| error.to_string())?;
    let mut last = [None; WRITERS];
    while let ChangeEvent::Changes(set) = stream.next().await.map_err(|error| error.to_string())? {
        for change in set.changes.iter() {
            let rhumb_store::Change::Put { key, value, .. } = change else {
                return Err(format!("nobody deleted {}", change.key()));
            };
            let writer: usize = key["/left/".len()..].parse().map_err(|_| "a foreign key")?;
            let count = number(value);
            if last[writer].is_some_and(|last: u64| last + 1 != count) {
                return Err(format!(
                    "writer {writer}: a gap before {count} in the history"
                ));
            }
            last[writer] = Some(count);
        }
    }
    Ok(())
}

/// Other moments in every run.
fn random() -> Random {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Random::new(now.map_or(1, |time| time.as_nanos() as u64))
}

fn below(random: &mut Random, bound: Duration) -> Duration {
    Duration::from_micros(random.below(bound.as_micros() as usize) as u64)
}
