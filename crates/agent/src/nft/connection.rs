//! Asynchronous access to nftables: runs scripts and queries on a netlink socket.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::command::NftScript;
use super::error::NftablesError;
use super::table_monitor::{self, TableMonitor};
use crate::netlink::{BatchMode, BatchResponse, NetlinkGetRequest, NetlinkSocket};

/// Limit of one request. Loading a ruleset of thousands of policies takes some seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to nftables in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct NftablesConnection {
    socket: Arc<Mutex<NetlinkSocket>>,
    /// The netlink port id of `socket`, to recognize the own changes.
    port: u32,
    /// The socket for notifications, if requested.
    monitor_socket: Option<NetlinkSocket>,
}

/// Rejected commands by index (`None`: the whole batch), with the error.
type CommandRejections = Vec<(Option<usize>, Errno)>;

impl NftablesConnection {
    pub fn open() -> Result<NftablesConnection, NftablesError> {
        let socket = NetlinkSocket::open().map_err(NftablesError::Connect)?;
        Ok(NftablesConnection {
            port: socket.port(),
            socket: Arc::new(Mutex::new(socket)),
            monitor_socket: None,
        })
    }

    /// Also monitors changes by other processes.
    pub fn open_with_monitor() -> Result<NftablesConnection, NftablesError> {
        let others = table_monitor::listen().map_err(NftablesError::Connect)?;
        Ok(NftablesConnection {
            monitor_socket: Some(others),
            ..NftablesConnection::open()?
        })
    }

    /// The monitor for a table; `None` if the connection was opened without.
    pub(super) fn table_monitor(&mut self, table: &str) -> Option<TableMonitor> {
        let socket = self.monitor_socket.take()?;
        let others = TableMonitor::new(socket, table, self.port);
        let note = |error: &io::Error| {
            tracing::warn!(%error, "failed to monitor nftables; relying on periodic inspections");
        };
        others.inspect_err(note).ok()
    }

    /// Executes a script in one transaction.
    pub async fn apply(&self, script: NftScript) -> Result<(), NftablesError> {
        self.run(script, BatchMode::Commit).await
    }

    /// Has the kernel validate a script, without changing anything.
    pub async fn check(&self, script: NftScript) -> Result<(), NftablesError> {
        self.run(script, BatchMode::DryRun).await
    }

    /// The commands of a script that the kernel would reject.
    pub(super) async fn dry_run_rejections(
        &self,
        script: NftScript,
    ) -> Result<CommandRejections, NftablesError> {
        let sent = self.send(script, BatchMode::DryRun).await?;
        Ok(sent.1)
    }

    async fn run(&self, script: NftScript, ending: BatchMode) -> Result<(), NftablesError> {
        let (script, refused) = self.send(script, ending).await?;
        match refused.first() {
            None => Ok(()),
            Some((index, why)) => Err(NftablesError::Rejected {
                why: *why,
                command: index.and_then(|index| script.line(index)),
            }),
        }
    }

    async fn send(
        &self,
        script: NftScript,
        ending: BatchMode,
    ) -> Result<(NftScript, CommandRejections), NftablesError> {
        self.exchange(move |socket| {
            let (batch, ends) = script.encode();
            let answer = socket
                .send_batch(batch, ending)
                .map_err(NftablesError::Send)?;
            Ok((script, command_rejections(&answer, &ends)?))
        })
        .await
    }

    /// The kernel's answer to a query; `None` if the object does not exist.
    pub(super) async fn query(
        &self,
        request: NetlinkGetRequest,
    ) -> Result<Option<Vec<u8>>, NftablesError> {
        self.exchange(move |socket| match socket.query(&request) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(NftablesError::NoAnswer)
            }
            Err(error) => Err(NftablesError::Send(error)),
        })
        .await
    }

    /// Runs on a blocking thread, as the kernel processes requests synchronously, which may take long. A timeout does
    /// not abort the request: the next one waits for its end.
    async fn exchange<T: Send + 'static>(
        &self,
        with: impl FnOnce(&mut NetlinkSocket) -> Result<T, NftablesError> + Send + 'static,
    ) -> Result<T, NftablesError> {
        let exchange = async {
            let mut socket = self.socket.clone().lock_owned().await;
            let request = tokio::task::spawn_blocking(move || with(&mut socket));
            request.await.map_err(|_| NftablesError::NoAnswer)?
        };
        match timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(result) => result,
            Err(_) => Err(NftablesError::TimedOut(REQUEST_TIMEOUT.as_secs())),
        }
    }
}

/// Maps message numbers to commands. `ends` has the sequence number of the last message of each command.
fn command_rejections(
    answer: &BatchResponse,
    ends: &[u32],
) -> Result<CommandRejections, NftablesError> {
    let of_command = |number: u32| match number {
        0 => None,
        _ => Some(ends.partition_point(|end| *end < number)),
    };
    let refused = answer.rejected.iter();
    let refused: CommandRejections = refused
        .map(|(number, why)| (of_command(*number), *why))
        .collect();
    match refused.is_empty() && !answer.is_complete {
        true => Err(NftablesError::NoAnswer),
        false => Ok(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_messages_map_to_their_command() {
        let answer = |refused: &[(u32, Errno)], is_complete| BatchResponse {
            rejected: refused.to_vec(),
            is_complete,
        };
        // The second command consists of three messages.
        let ends = [1, 4, 5];
        let of = |number| {
            let answer = answer(&[(number, Errno::NOENT)], true);
            command_rejections(&answer, &ends).unwrap()[0].0
        };
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some(0));
        assert_eq!([2, 3, 4].map(of), [Some(1); 3]);
        assert_eq!(of(5), Some(2));
        assert!(command_rejections(&answer(&[], true), &ends).is_ok());
        assert!(matches!(
            command_rejections(&answer(&[], false), &ends),
            Err(NftablesError::NoAnswer)
        ));
    }
}
