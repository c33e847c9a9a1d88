//! Collectives: every rank takes part, and all are assumed to have the data of this one.

use std::ffi::c_int;

use super::communicators::{Communicator, find, send};
use super::exchange::{Kind, Reduction, bring, reduce};
use super::groups::{Broadcast, broadcast};
use super::{INVALID_ARGUMENT, SUCCESS, UNHANDLED_CUDA_ERROR};
use crate::contents::{Certainty, Contents, contents};
use crate::status::put;
use crate::streams::note_work;

/// The arguments of every collective: the communicator, and how many bytes one share has.
struct Call {
    world: Communicator,
    kind: Kind,
    bytes: u64,
}

impl Call {
    /// The status of NCCL where the call is impossible.
    fn read(communicator: u64, count: usize, kind: c_int, stream: u64) -> Result<Self, i32> {
        note_work(stream);
        let world = find(communicator).ok_or(INVALID_ARGUMENT)?;
        let kind = Kind::from_number(kind).ok_or(INVALID_ARGUMENT)?;
        let bytes = (count as u64).checked_mul(kind.bytes()).ok_or(INVALID_ARGUMENT)?;
        let has_buffers = send(communicator, bytes);
        if has_buffers { Ok(Self { world, kind, bytes }) } else { Err(UNHANDLED_CUDA_ERROR) }
    }

    /// The same for a call whose `count` is the share of one rank.
    fn read_share(communicator: u64, count: usize, kind: c_int, stream: u64) -> Result<Self, i32> {
        let call = Self::read(communicator, count, kind, stream)?;
        let whole = call.bytes.saturating_mul(call.world.ranks);
        if send(communicator, whole) { Ok(call) } else { Err(UNHANDLED_CUDA_ERROR) }
    }

    fn is_root(&self, root: c_int) -> bool {
        u64::try_from(root) == Ok(self.world.rank)
    }

    /// The share of every rank, one after another, from ours.
    fn spread(&self, contents: &mut Contents, from: u64, to: u64) {
        let all = self.bytes.saturating_mul(self.world.ranks);
        if all > self.kind.most_bytes() || contents.pieces(from, self.bytes).is_empty() {
            return contents.forget(to, all);
        }
        for rank in 0..self.world.ranks {
            let target = to + rank * self.bytes;
            if target != from {
                let most =
                    if rank == self.world.rank { Certainty::Known } else { Certainty::Assumed };
                bring(contents, target, from, self.bytes, most);
            }
        }
    }

    /// One buffer for another, with at most the certainty `most`.
    fn take(&self, contents: &mut Contents, from: u64, to: u64, bytes: u64, most: Certainty) {
        if bytes > self.kind.most_bytes() {
            contents.forget(to, bytes);
        } else {
            bring(contents, to, from, bytes, most);
        }
    }

    /// A share that all ranks reduced.
    fn reduce(&self, contents: &mut Contents, from: u64, to: u64, reduction: c_int) {
        let reduction = Reduction::from_number(reduction);
        self.take(contents, from, to, self.bytes, Certainty::Assumed);
        reduce(contents, to, self.bytes, (self.kind, reduction), self.world.ranks);
    }
}

#[crate::entry_point]
extern "C" fn ncclAllReduce(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    reduction: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    let call = match Call::read(communicator, count, kind, stream) {
        Ok(call) => call,
        Err(status) => return status,
    };
    call.reduce(&mut contents(), from, to, reduction);
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclReduce(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    reduction: c_int,
    root: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    let call = match Call::read(communicator, count, kind, stream) {
        Ok(call) => call,
        Err(status) => return status,
    };
    if call.is_root(root) {
        call.reduce(&mut contents(), from, to, reduction);
    }
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclBroadcast(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    let call = match Call::read(communicator, count, kind, stream) {
        Ok(call) => call,
        Err(status) => return status,
    };
    broadcast(Broadcast {
        communicator,
        is_ours: call.is_root(root),
        from,
        to,
        bytes: call.bytes,
        most_bytes: call.kind.most_bytes(),
    });
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclBcast(
    buffer: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    ncclBroadcast(buffer, buffer, count, kind, root, communicator, stream)
}

#[crate::entry_point]
extern "C" fn ncclReduceScatter(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    reduction: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    let call = match Call::read_share(communicator, count, kind, stream) {
        Ok(call) => call,
        Err(status) => return status,
    };
    call.reduce(&mut contents(), from + call.world.rank * call.bytes, to, reduction);
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclAllGather(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    let call = match Call::read_share(communicator, count, kind, stream) {
        Ok(call) => call,
        Err(status) => return status,
    };
    call.spread(&mut contents(), from, to);
    SUCCESS
}

/// The data sent to a rank are assumed to be those received from it.
#[crate::entry_point]
extern "C" fn ncclAlltoAll(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    let call = match Call::read_share(communicator, count, kind, stream) {
        Ok(call) => call,
        Err(status) => return status,
    };
    let all = call.bytes.saturating_mul(call.world.ranks);
    call.take(&mut contents(), from, to, all, Certainty::Assumed);
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclGather(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    let call = match Call::read_share(communicator, count, kind, stream) {
        Ok(call) => call,
        Err(status) => return status,
    };
    if call.is_root(root) {
        call.spread(&mut contents(), from, to);
    }
    SUCCESS
}

/// A share of the root: ours if this rank is the root, otherwise unknown.
#[crate::entry_point]
extern "C" fn ncclScatter(
    from: u64,
    to: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    communicator: u64,
    stream: u64,
) -> i32 {
    let call = match Call::read_share(communicator, count, kind, stream) {
        Ok(call) => call,
        Err(status) => return status,
    };
    if call.is_root(root) {
        let own = from + call.world.rank * call.bytes;
        call.take(&mut contents(), own, to, call.bytes, Certainty::Known);
    } else {
        contents().forget(to, call.bytes);
    }
    SUCCESS
}

/// A sum with a factor: its results have no value.
#[crate::entry_point]
unsafe extern "C" fn ncclRedOpCreatePreMulSum(
    reduction: *mut c_int,
    _factor: u64,
    _kind: c_int,
    _residence: c_int,
    _communicator: u64,
) -> i32 {
    // SAFETY: the caller's pointer, by NCCL's contract. Numbers from 5 on are the program's own.
    unsafe { put(reduction, 5) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn ncclRedOpDestroy(_reduction: c_int, _communicator: u64) -> i32 {
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::super::communicators::made;
    use super::*;
    use Certainty::{Assumed, Known, Nothing};

    const I64: c_int = 4;
    const F32: c_int = 7;
    const F16: c_int = 6;
    const BF16: c_int = 9;

    /// Numbers that count as memory of a device while a test runs.
    struct Buffer<T>(Vec<T>);

    impl<T: Copy> Buffer<T> {
        fn known(numbers: &[T]) -> Self {
            let buffer = Self(numbers.to_vec());
            contents().set(buffer.addr(), buffer.bytes(), Known);
            buffer
        }

        fn empty(number: T, count: usize) -> Self {
            Self(vec![number; count])
        }

        fn addr(&self) -> u64 {
            self.0.as_ptr() as u64
        }

        fn bytes(&self) -> u64 {
            size_of_val(self.0.as_slice()) as u64
        }

        fn certainty(&self) -> Certainty {
            contents().certainty(self.addr(), self.bytes())
        }
    }

    impl<T> Drop for Buffer<T> {
        fn drop(&mut self) {
            contents().forget(self.0.as_ptr() as u64, size_of_val(self.0.as_slice()) as u64);
        }
    }

    #[test]
    fn a_sum_of_integers_is_ours_times_the_world() {
        let (world, numbers) = (made(64, 3), Buffer::known(&[5_i64, -2]));
        assert_eq!(ncclAllReduce(numbers.addr(), numbers.addr(), 2, I64, 0, world, 0), SUCCESS);
        assert_eq!(numbers.0, [320, -128]);
        assert_eq!(numbers.certainty(), Assumed);
    }

    #[test]
    fn the_largest_is_ours() {
        let (world, numbers) = (made(64, 3), Buffer::known(&[5_i64]));
        let result = Buffer::empty(0_i64, 1);
        assert_eq!(ncclAllReduce(numbers.addr(), result.addr(), 1, I64, 2, world, 0), SUCCESS);
        assert_eq!((result.0[0], result.certainty()), (5, Assumed));
        assert_eq!(numbers.certainty(), Known, "what was sent is as it was");
    }

    #[test]
    fn a_sum_that_the_host_cannot_compute_has_no_value() {
        let (world, numbers) = (made(2, 0), Buffer::known(&[1_u16; 8]));
        assert_eq!(ncclAllReduce(numbers.addr(), numbers.addr(), 8, F16, 0, world, 0), SUCCESS);
        assert_eq!(numbers.certainty(), Nothing);
        let singles = Buffer::known(&[1.5_f32; 2]);
        assert_eq!(ncclAllReduce(singles.addr(), singles.addr(), 2, F32, 0, world, 0), SUCCESS);
        assert_eq!(singles.0, [3.0, 3.0]);
        assert_eq!(ncclAllReduce(singles.addr(), singles.addr(), 2, F32, 5, world, 0), SUCCESS);
        assert_eq!(singles.certainty(), Nothing, "its factor is not known");
    }

    #[test]
    fn a_sum_in_bfloat16_is_rounded_to_the_nearest() {
        // 1, and 1 + 2^-7, which is 3 times 1.0078125 = 3.0234375: between 3.015625 and 3.03125.
        let (world, numbers) = (made(3, 0), Buffer::known(&[0x3f80_u16, 0x3f81]));
        assert_eq!(ncclAllReduce(numbers.addr(), numbers.addr(), 2, BF16, 0, world, 0), SUCCESS);
        assert_eq!(numbers.0, [0x4040, 0x4042]);
        assert_eq!(numbers.certainty(), Assumed);
    }

    #[test]
    fn every_share_of_a_gather_is_ours() {
        let (world, share) = (made(3, 1), Buffer::known(&[7_i64, 8]));
        let all = Buffer::empty(0_i64, 6);
        assert_eq!(ncclAllGather(share.addr(), all.addr(), 2, I64, world, 0), SUCCESS);
        assert_eq!(all.0, [7, 8, 7, 8, 7, 8]);
        let certainty = |from: u64| contents().certainty(all.addr() + from * 16, 16);
        assert_eq!([certainty(0), certainty(1), certainty(2)], [Assumed, Known, Assumed]);
    }

    #[test]
    fn a_gather_in_place_keeps_our_share() {
        let (world, all) = (made(2, 1), Buffer::known(&[1_i64, 9]));
        assert_eq!(ncclAllGather(all.addr() + 8, all.addr(), 1, I64, world, 0), SUCCESS);
        assert_eq!(all.0, [9, 9]);
    }

    #[test]
    fn a_gather_of_nothing_has_no_value() {
        let (world, share) = (made(2, 0), Buffer::empty(7_i64, 1));
        let all = Buffer::known(&[1_i64, 2]);
        assert_eq!(ncclAllGather(share.addr(), all.addr(), 1, I64, world, 0), SUCCESS);
        assert_eq!(all.certainty(), Nothing);
    }

    #[test]
    fn a_scattered_sum_is_of_our_share() {
        let (world, all) = (made(2, 1), Buffer::known(&[1_i64, 2, 30, 40]));
        let share = Buffer::empty(0_i64, 2);
        assert_eq!(ncclReduceScatter(all.addr(), share.addr(), 2, I64, 0, world, 0), SUCCESS);
        assert_eq!((share.0.as_slice(), share.certainty()), ([60, 80].as_slice(), Assumed));
    }

    #[test]
    fn a_broadcast_keeps_the_data_of_this_rank() {
        let (world, numbers) = (made(4, 2), Buffer::known(&[6_i64]));
        assert_eq!(ncclBcast(numbers.addr(), 1, I64, 2, world, 0), SUCCESS);
        assert_eq!((numbers.0[0], numbers.certainty()), (6, Known), "we sent it");
        assert_eq!(ncclBcast(numbers.addr(), 1, I64, 0, world, 0), SUCCESS);
        assert_eq!((numbers.0[0], numbers.certainty()), (6, Assumed), "another one did");
    }

    #[test]
    fn a_communicator_that_is_not_there_is_refused() {
        assert_eq!(ncclAllGather(8, 16, 1, I64, 12, 0), INVALID_ARGUMENT);
    }
}
