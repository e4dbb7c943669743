//! What others do to the table of an agent.

use std::io;

use tokio::io::unix::AsyncFd;

use super::encode::{Event, GROUP, event};
use crate::netlink::{Message, Messages, Received, Socket};

/// How many datagrams are read before somebody else may have his turn.
const AT_ONCE: usize = 256;
/// How often that is done in a row, so that one who never stops is not listened to for ever.
const TURNS_MAX: usize = 256;

/// What there is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Somebody else has changed the table.
    Changed,
    /// Something has happened, and nobody knows what: there was too much to be told.
    Lost,
}

/// A socket that hears of every transaction of this network namespace.
pub(super) fn listen() -> io::Result<Socket> {
    Socket::listen(GROUP)
}

/// Hears what others do to one table.
#[derive(Debug)]
pub(super) struct Others {
    socket: AsyncFd<Socket>,
    heard: Heard,
}

impl Others {
    /// `own` is the socket over which the table is changed by ourselves.
    #[expect(
        deprecated,
        reason = "the new way is unsafe code: it has to be promised that the descriptor stays, and a socket owns its own"
    )]
    pub(super) fn new(socket: Socket, table: &str, own: u32) -> io::Result<Others> {
        Ok(Others {
            socket: AsyncFd::new(socket)?,
            heard: Heard {
                table: table.to_owned(),
                own,
                is_touched: false,
                news: None,
            },
        })
    }

    /// Waits for something. Nothing is lost if it is not waited for to the end.
    pub(super) async fn news(&mut self) -> News {
        loop {
            if let Some(news) = self.heard.news.take() {
                return news;
            }
            let Ok(mut ready) = self.socket.readable_mut().await else {
                return std::future::pending().await;
            };
            match self.heard.read(ready.get_inner_mut()) {
                true => ready.clear_ready(),
                false => tokio::task::yield_now().await,
            }
        }
    }

    /// Hears all that has happened. After a replacement of the table, what others did before it does not count.
    pub(super) fn catch_up(&mut self) {
        for _ in 0..TURNS_MAX {
            if self.heard.read(self.socket.get_mut()) {
                return;
            }
        }
    }
}

/// What has been heard so far.
#[derive(Debug)]
struct Heard {
    table: String,
    own: u32,
    /// By a transaction of somebody else of which more is to be told.
    is_touched: bool,
    news: Option<News>,
}

impl Heard {
    /// Whether that was all.
    fn read(&mut self, socket: &mut Socket) -> bool {
        for _ in 0..AT_ONCE {
            match socket.receive() {
                Ok(Received::Datagram(length)) => {
                    Messages(socket.datagram(length)).for_each(|message| self.hear(&message));
                }
                Ok(Received::Loss) => self.lose(),
                // A socket that cannot be read tells nothing any more; the table is inspected all the same.
                Ok(Received::Nothing) | Err(_) => return true,
            }
        }
        false
    }

    /// Transactions are told one after the other, each to its end.
    fn hear(&mut self, message: &Message<'_>) {
        let is_own = message.port == self.own;
        match (event(message, &self.table), is_own) {
            // Everything is being replaced. Of what was lost, nobody knows whether it was before.
            (Event::Deleted, true) => self.news = self.news.filter(|news| *news == News::Lost),
            (Event::Deleted | Event::Changed, false) => self.is_touched = true,
            (Event::Done, _) if self.is_touched => {
                self.is_touched = false;
                self.news = Some(News::Changed);
            }
            (Event::Changed, true) | (Event::Done | Event::Elsewhere, _) => {}
        }
    }

    /// The end of a transaction may be among it: what has begun counts as done.
    fn lose(&mut self) {
        let is_touched = std::mem::take(&mut self.is_touched);
        self.news = match is_touched {
            true => Some(News::Changed),
            false => self.news.or(Some(News::Lost)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Batch, CREATE};

    const OWN: u32 = 7;
    const OTHER: u32 = 8;
    const INET: u8 = 1;
    const IP: u8 = 2;
    const DELETED: u8 = 2;
    const NEW_RULE: u8 = 6;
    const DONE: u8 = 15;

    /// A message about a table, as the kernel sends it to all.
    fn message(port: u32, kind: u8, family: u8, table: &str) -> Vec<u8> {
        let mut batch = Batch::new(family);
        batch.message(kind, CREATE, |writer| writer.text(1, table));
        let mut bytes = batch.last_message().to_vec();
        bytes[12..16].copy_from_slice(&port.to_ne_bytes());
        bytes
    }

    fn heard(news: &[Vec<u8>]) -> Heard {
        let mut heard = Heard {
            table: "rhumb".to_owned(),
            own: OWN,
            is_touched: false,
            news: None,
        };
        for message in news {
            Messages(message).for_each(|message| heard.hear(&message));
        }
        heard
    }

    #[test]
    fn what_others_have_done_to_the_table_is_news_when_they_are_done() {
        let about = |port, kind| message(port, kind, INET, "rhumb");
        let done = |port| message(port, DONE, 0, "");
        for (messages, news) in [
            (vec![about(OTHER, NEW_RULE)], None),
            (
                vec![about(OTHER, NEW_RULE), done(OTHER)],
                Some(News::Changed),
            ),
            (
                vec![about(OTHER, DELETED), done(OTHER)],
                Some(News::Changed),
            ),
            (vec![about(OWN, NEW_RULE), done(OWN)], None),
            (vec![about(OWN, DELETED), done(OWN)], None),
            (
                vec![message(OTHER, NEW_RULE, IP, "rhumb"), done(OTHER)],
                None,
            ),
            (
                vec![message(OTHER, NEW_RULE, INET, "rhum"), done(OTHER)],
                None,
            ),
            (
                vec![message(OTHER, NEW_RULE, INET, "rhumb2"), done(OTHER)],
                None,
            ),
            // It is replaced after that, or before.
            (
                vec![
                    about(OTHER, NEW_RULE),
                    done(OTHER),
                    about(OWN, DELETED),
                    done(OWN),
                ],
                None,
            ),
            (
                vec![
                    about(OWN, DELETED),
                    done(OWN),
                    about(OTHER, NEW_RULE),
                    done(OTHER),
                ],
                Some(News::Changed),
            ),
        ] {
            assert_eq!(heard(&messages).news, news, "{messages:?}");
        }
    }

    #[test]
    fn what_is_lost_is_news_until_it_is_asked_for() {
        let about = |port, kind| message(port, kind, INET, "rhumb");
        let mut quiet = heard(&[about(OWN, DELETED)]);
        quiet.lose();
        assert_eq!(quiet.news, Some(News::Lost));
        Messages(&about(OWN, DELETED)).for_each(|message| quiet.hear(&message));
        assert_eq!(quiet.news, Some(News::Lost));
        let mut touched = heard(&[about(OTHER, NEW_RULE)]);
        touched.lose();
        assert_eq!(touched.news, Some(News::Changed));
        touched.lose();
        assert_eq!(touched.news, Some(News::Changed));
        // What is known to have happened is more than that something is lost.
        let mut later = heard(&[]);
        later.lose();
        Messages(&about(OTHER, NEW_RULE)).for_each(|message| later.hear(&message));
        later.lose();
        assert_eq!(later.news, Some(News::Changed));
    }
}
