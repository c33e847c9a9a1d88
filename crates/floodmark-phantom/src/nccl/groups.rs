//! Calls that belong together, and messages between two ranks.
//!
//! In a group, the data sent to a rank count as the data received from it, if both have the same length:
//! so an exchange of sizes or shapes in both directions has values. A message that is only received has
//! none. Where every rank broadcasts its share, the group is a gather, and all shares are ours.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;

use super::communicators::find;
use super::exchange::{Kind, bring};
use super::{INVALID_ARGUMENT, INVALID_USAGE, SUCCESS};
use crate::contents::{Certainty, Contents, contents};
use crate::streams::note_work;

/// A message of a group: its ranks and its buffer.
#[derive(Debug, Clone, Copy)]
struct Message {
    communicator: u64,
    peer: c_int,
    addr: u64,
    bytes: u64,
    most_bytes: u64,
}

/// The group that this thread has begun.
#[derive(Debug, Default)]
struct Group {
    depth: u32,
    sent: Vec<Message>,
    received: Vec<Message>,
    broadcasts: Vec<Broadcast>,
}

/// A broadcast: its root and its buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Broadcast {
    pub(super) communicator: u64,
    pub(super) is_ours: bool,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bytes: u64,
    pub(super) most_bytes: u64,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

#[crate::entry_point]
extern "C" fn ncclGroupStart() -> i32 {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclGroupEnd() -> i32 {
    GROUP.with_borrow_mut(|group| {
        let Some(depth) = group.depth.checked_sub(1) else { return INVALID_USAGE };
        group.depth = depth;
        if depth == 0 {
            deliver(&std::mem::take(group));
        }
        SUCCESS
    })
}

/// Ends a group whose messages are not to be sent.
pub(super) fn drop_group() {
    GROUP.take();
}

fn message(
    addr: u64,
    count: usize,
    kind: c_int,
    peer: c_int,
    communicator: u64,
) -> Option<Message> {
    let (world, kind) = (find(communicator)?, Kind::from_number(kind)?);
    let bytes = (count as u64).checked_mul(kind.bytes())?;
    let is_there = u64::try_from(peer).is_ok_and(|peer| peer < world.ranks);
    let most_bytes = kind.most_bytes();
    is_there.then_some(Message { communicator, peer, addr, bytes, most_bytes })
}

#[crate::entry_point]
extern "C" fn ncclSend(
    from: u64,
    count: usize,
    kind: c_int,
    peer: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    note_work(stream);
    let Some(message) = message(from, count, kind, peer, communicator) else {
        return INVALID_ARGUMENT;
    };
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.sent.push(message);
        }
    });
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclRecv(
    to: u64,
    count: usize,
    kind: c_int,
    peer: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    note_work(stream);
    let Some(message) = message(to, count, kind, peer, communicator) else {
        return INVALID_ARGUMENT;
    };
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.received.push(message);
        } else {
            contents().forget(message.addr, message.bytes);
        }
    });
    SUCCESS
}

/// Runs it at once, or with the group that this thread has begun.
pub(super) fn broadcast(broadcast: Broadcast) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.broadcasts.push(broadcast);
        } else {
            bring_broadcast(&mut contents(), broadcast);
        }
    });
}

/// Another rank sends the data that this rank has.
fn bring_broadcast(contents: &mut Contents, broadcast: Broadcast) {
    let Broadcast { is_ours, from, to, bytes, most_bytes, .. } = broadcast;
    if bytes > most_bytes {
        contents.forget(to, bytes);
    } else if !is_ours {
        bring(contents, to, to, bytes, Certainty::Assumed);
    } else if from != to {
        bring(contents, to, from, bytes, Certainty::Known);
    }
}

/// If our share goes to other ranks, received shares of the same length are assumed equal to it.
fn finish_broadcasts(contents: &mut Contents, broadcasts: &[Broadcast]) {
    for &one in broadcasts {
        let own = broadcasts.iter().find(|own| {
            own.is_ours
                && own.communicator == one.communicator
                && own.from != own.to
                && own.bytes == one.bytes
        });
        match own {
            Some(own) if !one.is_ours && one.bytes <= one.most_bytes => {
                bring(contents, one.to, own.from, one.bytes, Certainty::Assumed);
            }
            _ => bring_broadcast(contents, one),
        }
    }
}

/// The first message from a rank corresponds to the first sent to it, and so on.
fn deliver(group: &Group) {
    let mut sent: HashMap<(u64, c_int), VecDeque<Message>> = HashMap::new();
    for message in &group.sent {
        sent.entry((message.communicator, message.peer)).or_default().push_back(*message);
    }
    let mut contents = contents();
    finish_broadcasts(&mut contents, &group.broadcasts);
    for message in &group.received {
        let other = sent
            .get_mut(&(message.communicator, message.peer))
            .and_then(VecDeque::pop_front)
            .filter(|other| other.bytes == message.bytes && message.bytes <= message.most_bytes);
        match other {
            Some(other) => {
                bring(&mut contents, message.addr, other.addr, message.bytes, Certainty::Assumed);
            }
            None => contents.forget(message.addr, message.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::communicators::made;
    use super::*;

    const I64: c_int = 4;

    #[test]
    fn an_exchange_delivers_the_sent_data() {
        let world = made(4, 1);
        let (out, back) = ([11_i64, 12, 13], [0_i64; 3]);
        let (from, to) = (out.as_ptr() as u64, back.as_ptr() as u64);
        contents().set(from, 24, Certainty::Known);
        contents().set(to, 24, Certainty::Known);
        assert_eq!(ncclGroupStart(), SUCCESS);
        assert_eq!(ncclSend(from, 1, I64, 0, world, 0), SUCCESS);
        assert_eq!(ncclSend(from + 8, 2, I64, 2, world, 0), SUCCESS);
        assert_eq!(ncclRecv(to + 16, 1, I64, 2, world, 0), SUCCESS);
        assert_eq!(ncclRecv(to, 1, I64, 0, world, 0), SUCCESS);
        assert_eq!(ncclRecv(to + 8, 1, I64, 3, world, 0), SUCCESS);
        assert_eq!(ncclGroupEnd(), SUCCESS);
        // SAFETY: the array is there; it was written through its address.
        assert_eq!(unsafe { (to as *const i64).read_volatile() }, 11);
        let certainty = |at: u64| contents().certainty(to + at * 8, 8);
        let found = [certainty(0), certainty(1), certainty(2)];
        // Rank 3 sends without receiving; rank 2 receives more than it sends.
        assert_eq!(found, [Certainty::Assumed, Certainty::Nothing, Certainty::Nothing]);
        contents().forget(from, 24);
        contents().forget(to, 24);
    }

    #[test]
    fn a_message_that_is_only_received_has_no_value() {
        let (world, number) = (made(2, 0), [5_i64]);
        let to = number.as_ptr() as u64;
        contents().set(to, 8, Certainty::Known);
        assert_eq!(ncclRecv(to, 1, I64, 1, world, 0), SUCCESS);
        assert_eq!(contents().certainty(to, 8), Certainty::Nothing);
        assert_eq!(ncclRecv(to, 1, I64, 2, world, 0), INVALID_ARGUMENT, "there is no rank 2");
    }

    #[test]
    fn a_share_that_every_rank_broadcasts_is_ours() {
        let (world, share, all) = (made(3, 1), [7_i64], [0_i64; 3]);
        let (from, to) = (share.as_ptr() as u64, all.as_ptr() as u64);
        contents().set(from, 8, Certainty::Known);
        let message = |rank: u64, is_ours| Broadcast {
            communicator: world,
            is_ours,
            from: if is_ours { from } else { to + rank * 8 },
            to: to + rank * 8,
            bytes: 8,
            most_bytes: 64,
        };
        assert_eq!(ncclGroupStart(), SUCCESS);
        broadcast(message(0, false));
        broadcast(message(1, true));
        broadcast(message(2, false));
        assert_eq!(contents().certainty(to, 8), Certainty::Nothing, "the group has not ended");
        assert_eq!(ncclGroupEnd(), SUCCESS);
        // SAFETY: the array is there; it was written through its address.
        let found = unsafe { (to as *const [i64; 3]).read_volatile() };
        assert_eq!(found, [7, 7, 7]);
        assert_eq!(contents().certainty(to, 24), Certainty::Assumed);
        contents().forget(from, 8);
        contents().forget(to, 24);
    }

    #[test]
    fn a_group_that_was_not_begun_cannot_end() {
        assert_eq!(ncclGroupEnd(), INVALID_USAGE);
    }
}
