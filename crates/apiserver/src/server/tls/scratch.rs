//! Room that the connections of a thread share: each needs it only while it is being polled.

use std::cell::RefCell;
use std::io::IoSlice;

/// The longest record there is, and so what is read at a time.
pub(super) const READ_MAX: usize = 5 + 16 * 1024 + 2 * 1024;

/// How much is sealed at a time, and so what a slow client can make a connection hold.
const WRITE_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) incoming: Box<[u8; READ_MAX]>,
    pub(super) plain: Vec<u8>,
    pub(super) sealed: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        incoming: Box::new([0; READ_MAX]),
        plain: Vec::new(),
        sealed: vec![0; WRITE_MAX + 1024],
    });
}

pub(super) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
    SCRATCH.with_borrow_mut(work)
}

/// The first of what is to be sent, in one piece: what goes out together becomes one record.
pub(super) fn gather<'a>(parts: &'a [IoSlice<'_>], plain: &'a mut Vec<u8>) -> &'a [u8] {
    let mut parts = parts.iter().filter(|part| !part.is_empty());
    let (first, second) = (parts.next(), parts.next());
    let Some(second) = second else {
        let only = first.map_or(&[][..], |part| part);
        return &only[..only.len().min(WRITE_MAX)];
    };
    plain.clear();
    for part in first.into_iter().chain([second]).chain(parts) {
        let room = WRITE_MAX - plain.len();
        plain.extend_from_slice(&part[..part.len().min(room)]);
    }
    plain
}
