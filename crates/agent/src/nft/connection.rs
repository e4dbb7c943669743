//! How the kernel is told.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::command::Script;
use super::error::Error;
use super::others::{self, Others};
use crate::netlink::{Answer, Ending, Request, Socket};

/// A whole program of thousands of policies takes some seconds.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The way to the kernel's rules, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Connection {
    socket: Arc<Mutex<Socket>>,
    /// By which the kernel knows who changes something over it.
    port: u32,
    /// Where others are heard.
    others: Option<Socket>,
}

/// What the kernel refused: which command, or all of them, and why.
type Refusals = Vec<(Option<usize>, Errno)>;

impl Connection {
    pub fn open() -> Result<Connection, Error> {
        let socket = Socket::open().map_err(Error::Connect)?;
        Ok(Connection {
            port: socket.port(),
            socket: Arc::new(Mutex::new(socket)),
            others: None,
        })
    }

    /// One by which it is also heard what others change.
    pub fn open_and_listen() -> Result<Connection, Error> {
        let others = others::listen().map_err(Error::Connect)?;
        Ok(Connection {
            others: Some(others),
            ..Connection::open()?
        })
    }

    /// `None` if nobody listens.
    pub(super) fn others(&mut self, table: &str) -> Option<Others> {
        let socket = self.others.take()?;
        let others = Others::new(socket, table, self.port);
        let note = |error: &io::Error| tracing::warn!(%error, "others cannot be heard");
        others.inspect_err(note).ok()
    }

    /// Carries out a script: all of it at one moment, or nothing.
    pub async fn apply(&self, script: Script) -> Result<(), Error> {
        self.run(script, Ending::Commit).await
    }

    /// Has the kernel look at a script, and changes nothing.
    pub async fn check(&self, script: Script) -> Result<(), Error> {
        self.run(script, Ending::Forget).await
    }

    /// What the kernel would refuse in a script.
    pub(super) async fn refusals(&self, script: Script) -> Result<Refusals, Error> {
        let sent = self.send(script, Ending::Forget).await?;
        Ok(sent.1)
    }

    async fn run(&self, script: Script, ending: Ending) -> Result<(), Error> {
        let (script, refused) = self.send(script, ending).await?;
        match refused.first() {
            None => Ok(()),
            Some((index, why)) => Err(Error::Refused {
                why: *why,
                command: index.and_then(|index| script.line(index)),
            }),
        }
    }

    async fn send(&self, script: Script, ending: Ending) -> Result<(Script, Refusals), Error> {
        self.exchange(move |socket| {
            let (batch, ends) = script.encode();
            let answer = socket.carry_out(batch, ending).map_err(Error::Send)?;
            Ok((script, refusals(&answer, &ends)?))
        })
        .await
    }

    /// What the kernel has of what is asked for; `None` if there is no such thing.
    pub(super) async fn ask(&self, request: Request) -> Result<Option<Vec<u8>>, Error> {
        self.exchange(move |socket| match socket.ask(&request) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Error::Silent),
            Err(error) => Err(Error::Send(error)),
        })
        .await
    }

    /// The kernel works while it is told, which may take long: not on a thread that others wait for. What takes longer than
    /// it may is not stopped by that; whatever comes next waits for its end.
    async fn exchange<T: Send + 'static>(
        &self,
        with: impl FnOnce(&mut Socket) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let exchange = async {
            let mut socket = self.socket.clone().lock_owned().await;
            let told = tokio::task::spawn_blocking(move || with(&mut socket));
            told.await.map_err(|_| Error::Silent)?
        };
        match timeout(TIME_MAX, exchange).await {
            Ok(told) => told,
            Err(_) => Err(Error::TimedOut(TIME_MAX.as_secs())),
        }
    }
}

/// `ends` has the number of the last message of each command.
fn refusals(answer: &Answer, ends: &[u32]) -> Result<Refusals, Error> {
    let of_command = |number: u32| match number {
        0 => None,
        _ => Some(ends.partition_point(|end| *end < number)),
    };
    let refused = answer.refused.iter();
    let refused: Refusals = refused
        .map(|(number, why)| (of_command(*number), *why))
        .collect();
    match refused.is_empty() && !answer.is_complete {
        true => Err(Error::Silent),
        false => Ok(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_of_the_command_that_they_were_made_for() {
        let answer = |refused: &[(u32, Errno)], is_complete| Answer {
            refused: refused.to_vec(),
            is_complete,
        };
        // The second command is three messages.
        let ends = [1, 4, 5];
        let of = |number| {
            let answer = answer(&[(number, Errno::NOENT)], true);
            refusals(&answer, &ends).unwrap()[0].0
        };
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some(0));
        assert_eq!([2, 3, 4].map(of), [Some(1); 3]);
        assert_eq!(of(5), Some(2));
        assert!(refusals(&answer(&[], true), &ends).is_ok());
        assert!(matches!(
            refusals(&answer(&[], false), &ends),
            Err(Error::Silent)
        ));
    }
}
