//! The ring as a [`Backend`].
#![expect(
    unsafe_code,
    reason = "lends out memory that the kernel uses at other times"
)]

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use io_uring::cqueue;
use io_uring::types::{Napi, Timespec};
use nix::sys::socket::{SockType, getsockopt, sockopt};

use super::core::{Core, Enter, Rung};
use super::error::RingError;
use super::group::Group;
use super::memory::{Memory, Receiver};
use super::probe;
use super::sends::Sends;
use super::slots::{Role, Slots};
use super::token::{Op, Token};
use super::zerocopy::{self, ZeroCopy};
use crate::backend::{
    Backend, Control, EngineStats, Event, Kind, ReceiveStyle, SendFrom, Setup, Slot, WaitFor,
};
use crate::sys::clock::monotonic_ns;

/// Submission queue entries: enough for a batch, few enough to stay in the first cache levels.
/// Where they run out, what is queued is submitted at once.
const SUBMISSIONS: std::ops::RangeInclusive<u32> = 64..=512;

/// How long a ring that is dropped waits for the kernel to let go of memory, nanoseconds.
const LETTING_GO_NS: u64 = 1_000_000_000;

/// An io_uring with its sockets and memory. It belongs to the thread that made it.
///
/// Beyond what [`Backend`] says:
/// * Receives and accepts go on by themselves: a multishot operation that the kernel ends, and
///   one that found no buffer, are started again. `armed` is false only after the end of a
///   stream, an error, or [`Backend::receive_stop`].
/// * Sockets added before [`Backend::arm`] are put into the ring's table of files; those added
///   or accepted later are not, since that costs more than a short life gains.
/// * Between [`Backend::close`] and its event only sends, and receives that carry bytes, are
///   reported, so that the counts of bytes are complete.
/// * Several sends in flight on one stream may mix once its socket buffer is full: the bytes of
///   one are then not in one piece. Where their order matters, keep one in flight.
/// * A connection for which there is no slot is dropped and reported as ENFILE, on the listener's
///   slot.
pub struct Ring {
    // These two end by hand: see `drop`.
    pub(super) core: ManuallyDrop<Core>,
    pub(super) memory: ManuallyDrop<Memory>,
    pub(super) slots: Slots,
    pub(super) sends: Sends,
    pub(super) zerocopy: Option<ZeroCopy>,
    /// Of each private buffer.
    pub(super) busy: Vec<bool>,
    /// Sockets whose receive found no buffer.
    pub(super) starved: VecDeque<Slot>,
    /// The kernel knows multishot receives (with buffers), or POLL_FIRST (without).
    pub(super) modern: bool,
    /// Receives are for control messages too.
    pub(super) control: bool,
    pub(super) multishot_accept: bool,
    pub(super) buffers_exhausted: u64,
    fixed_files: bool,
    armed: bool,
    min_wait_us: Option<u32>,
    min_wait_batch: u32,
    napi: bool,
}

impl Ring {
    /// Makes a ring for this thread.
    ///
    /// # Errors
    /// Where io_uring is refused, too old, or there is not enough memory; the text names the
    /// likely cause and the remedy.
    pub fn new(setup: &Setup) -> Result<Ring, RingError> {
        Ring::with_flags(Rung::at_most(setup.ring_flags), setup)
    }

    /// Makes a ring with the first set-up flags of `ladder` that the kernel takes.
    pub(super) fn with_flags(ladder: &[Rung], setup: &Setup) -> Result<Ring, RingError> {
        let sockets = setup.sockets.max(1);
        let buffers = match setup.receive {
            ReceiveStyle::Ring { count, .. } | ReceiveStyle::RingWithControl { count, .. } => {
                count
            }
            ReceiveStyle::Scratch { .. } | ReceiveStyle::Discard { .. } => 0,
        };
        let entries = setup.operations.next_power_of_two();
        let entries = entries.clamp(*SUBMISSIONS.start(), *SUBMISSIONS.end());
        // Every send, a receive and a cancellation of every socket, and every buffer at once.
        let notices = zerocopy::most_notices(setup);
        let completions = [sockets, sockets, u32::from(buffers), notices]
            .iter()
            .fold(setup.operations, |sum, more| sum.saturating_add(*more));
        let completions = completions.clamp(4 * entries, 1 << 16);
        let core = Core::new(ladder, entries, completions)?;
        probe::check(core.params(), core.submitter())?;
        let zerocopy = ZeroCopy::of(setup.send, core.submitter())?;
        let memory = Memory::new(core.submitter(), setup)?;
        let min_wait_us = setup
            .min_wait_us
            .filter(|_| core.params().is_feature_min_timeout());
        let mut ring = Ring {
            core: ManuallyDrop::new(core),
            memory: ManuallyDrop::new(memory),
            slots: Slots::new(sockets),
            sends: Sends::new(setup.operations),
            zerocopy,
            busy: vec![false; setup.send_buffers as usize],
            starved: VecDeque::with_capacity(sockets as usize),
            modern: true,
            control: matches!(setup.receive, ReceiveStyle::RingWithControl { .. }),
            multishot_accept: true,
            buffers_exhausted: 0,
            // Until the trial is over, so that it needs no file table.
            fixed_files: false,
            armed: false,
            min_wait_us,
            min_wait_batch: setup.min_wait_batch,
            napi: false,
        };
        ring.try_receive(setup)?;
        ring.fixed_files = setup.fixed_files && ring.reserve_files();
        ring.napi = setup.busy_poll_us.is_some_and(|us| ring.poll_devices(us));
        ring.core.reset_counts();
        Ok(ring)
    }

    /// An empty table of files. It is refused beyond the limit of open files, and does without.
    fn reserve_files(&self) -> bool {
        let count = self.slots.count();
        let submitter = self.core.submitter();
        submitter.register_files_sparse(count).is_ok()
            // Before 5.19 a sparse table is one of nothing.
            || submitter.register_files(&vec![-1; count as usize]).is_ok()
    }

    /// Has the kernel poll the devices by which the sockets receive, before it sleeps in a wait.
    /// False before 6.9.
    fn poll_devices(&self, microseconds: u32) -> bool {
        // Interrupts would only come in between.
        let mut napi = Napi::new()
            .set_busy_poll_timeout(microseconds)
            .set_prefer_busy_poll(true);
        self.core.submitter().register_napi(&mut napi).is_ok()
    }

    fn insert(&mut self, socket: OwnedFd, role: Role) -> io::Result<Slot> {
        let raw = socket.as_raw_fd();
        let Ok(slot) = self.slots.insert(socket, role) else {
            let text = "no slot is free: more sockets than Setup::sockets";
            return Err(io::Error::other(text));
        };
        if self.fixed_files && !self.armed {
            let entered = self.core.submitter().register_files_update(slot, &[raw]);
            self.slots.get_mut(slot).fixed = entered.is_ok();
        }
        Ok(slot)
    }

    pub(super) fn has_group(&self) -> bool {
        matches!(self.memory.receiver, Receiver::Group(_))
    }

    pub(super) fn group(&mut self) -> &mut Group {
        match &mut self.memory.receiver {
            Receiver::Group(group) => group,
            Receiver::Scratch { .. } => panic!("this receive style has no buffers"),
        }
    }

    /// Gives buffers to the kernel, and starts receives that lacked one, in turn and no more of
    /// them than there are buffers: the others would fail again. True where some are left, so
    /// that there is no sleeping on them.
    fn publish(&mut self) -> bool {
        let core = &mut *self.core;
        let Receiver::Group(group) = &mut self.memory.receiver else {
            return false;
        };
        // SAFETY: an entry points to a buffer in `memory`, which is the kernel's from here on.
        group.publish(|entry| unsafe { core.push(entry) });
        let free = group.free();
        for _ in 0..free {
            let Some(slot) = self.starved.pop_front() else {
                return false;
            };
            let entry = self.slots.get(slot);
            if entry.wanted && !entry.running && !entry.closing {
                self.start_input(slot);
            }
        }
        free > 0 && !self.starved.is_empty()
    }

    /// Turns a completion into an event, if it is one.
    pub(super) fn complete(&mut self, entry: &cqueue::Entry) -> Option<Event> {
        let token = Token::decode(entry.user_data())?;
        let (index, result) = (token.index, entry.result());
        match token.op {
            Op::Cancel | Op::Provide => return None,
            Op::Send | Op::Lend if cqueue::notif(entry.flags()) => {
                return self.notified(token, result);
            }
            Op::Send | Op::Lend => return self.sent(index, result, cqueue::more(entry.flags())),
            _ => {}
        }
        if !self.slots.is_current(index, token.generation) {
            return None;
        }
        match token.op {
            Op::Quiet => self.quiet_failed(index, result),
            Op::Receive => self.received(index, result, entry.flags()),
            Op::Accept => self.accepted(index, result, entry.flags()),
            Op::Wake => self.woken(index, result),
            Op::Connect => self.connected(index, result),
            _ => self.closed(index, result),
        }
    }

    fn request_input(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        if entry.closing {
            return;
        }
        assert!(entry.socket.is_some(), "slot {slot} has no socket");
        entry.wanted = true;
        if !entry.running {
            self.start_input(slot);
        }
    }

    fn features(&self) -> Vec<String> {
        let mut names = self.core.features().to_vec();
        let shared = matches!(&self.memory.receiver, Receiver::Group(group) if group.is_shared());
        let all = [
            (self.fixed_files, "fixed_files"),
            (shared, "buffer_ring"),
            (self.modern && self.has_group(), "receive_multishot"),
            (self.modern && !self.has_group(), "poll_first"),
            (self.min_wait_us.is_some(), "min_wait"),
            (self.zerocopy.is_some(), "send_zc"),
            (self.napi, "napi_busy_poll"),
        ];
        names.extend(self.memory.huge().name().map(str::to_owned));
        names.extend(
            all.iter()
                .filter(|(on, _)| *on)
                .map(|(_, name)| (*name).to_owned()),
        );
        names
    }

    /// Closes every socket and waits for the kernel to be done with everything. False where it
    /// is not, in time.
    fn wind_up(&mut self) -> bool {
        for slot in 0..self.slots.count() {
            let entry = self.slots.get(slot);
            if entry.socket.is_some() && !entry.closing {
                self.start_close(slot);
            }
        }
        let until_ns = monotonic_ns() + LETTING_GO_NS;
        while self.core.in_flight() > 0 {
            if self.wait(WaitFor::Event { until_ns }).is_err() {
                return false;
            }
            while let Some(event) = self.next() {
                self.recycle(&event);
            }
            if monotonic_ns() >= until_ns {
                break;
            }
        }
        let left = Timespec::new().sec(1);
        self.core.end_quiet(left) && self.core.in_flight() == 0
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let quiet = self.wind_up();
        // SAFETY: neither is used again. The ring is closed before the memory that its operations
        // and its buffer ring point to is unmapped.
        unsafe { ManuallyDrop::drop(&mut self.core) };
        if quiet {
            // SAFETY: as above, and every operation has had its last completion, so that the
            // kernel does not come back to it.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        } else {
            // Closing a ring cancels what is left, but not before it returns: the memory is
            // leaked rather than written to by the kernel when it is somebody else's.
            log::warn!("the kernel did not let go of a ring in time; its memory is not freed");
        }
    }
}

impl Backend for Ring {
    fn add(&mut self, socket: OwnedFd) -> io::Result<Slot> {
        let role = match getsockopt(&socket, sockopt::SockType)? {
            SockType::Stream => Role::Stream,
            _ => Role::Datagram,
        };
        self.insert(socket, role)
    }

    fn add_listener(&mut self, socket: OwnedFd) -> io::Result<Slot> {
        self.insert(socket, Role::Listener)
    }

    fn add_waker(&mut self, eventfd: OwnedFd) -> io::Result<Slot> {
        let slot = self.insert(eventfd, Role::Waker)?;
        self.request_input(slot);
        Ok(slot)
    }

    fn socket(&self, slot: Slot) -> BorrowedFd<'_> {
        self.slots.socket(slot)
    }

    fn arm(&mut self) -> io::Result<()> {
        self.armed = true;
        Ok(())
    }

    fn receive(&mut self, slot: Slot) {
        self.request_input(slot);
    }

    fn receive_stop(&mut self, slot: Slot) {
        self.slots.get_mut(slot).wanted = false;
        self.cancel_input(slot);
    }

    fn send(&mut self, slot: Slot, token: u32, from: SendFrom) {
        self.start_send(slot, token, from);
    }

    fn send_quiet(&mut self, slot: Slot, from: SendFrom) {
        self.start_quiet_send(slot, from);
    }

    fn send_cancel(&mut self, slot: Slot) {
        self.cancel_sends(slot);
    }

    fn connect(&mut self, slot: Slot, to: SocketAddr) {
        self.start_connect(slot, to);
    }

    fn accept(&mut self, listener: Slot) {
        self.request_input(listener);
    }

    fn close(&mut self, slot: Slot) {
        self.start_close(slot);
    }

    fn take(&mut self, slot: Slot) -> Option<OwnedFd> {
        let entry = self.slots.get_mut(slot);
        if entry.pending > 0 || entry.closing {
            return None;
        }
        let socket = entry.socket.take();
        self.slots.remove(slot);
        socket
    }

    fn send_buffer(&mut self, index: u32) -> &mut [u8] {
        assert!(
            !self.busy[index as usize],
            "private buffer {index} is being sent"
        );
        // SAFETY: a buffer that is not busy is used by no operation.
        unsafe { self.memory.private_mut(index) }
    }

    fn wait(&mut self, wait: WaitFor) -> io::Result<()> {
        let hungry = self.publish();
        let sleep = |timeout_ns, min_wait_us| Enter::Wait {
            timeout_ns,
            batch: self.min_wait_batch,
            min_wait_us,
        };
        let how = match wait {
            WaitFor::Nothing => Enter::Poll,
            WaitFor::Event { .. } if hungry => Enter::Poll,
            WaitFor::Event { until_ns: u64::MAX } => sleep(None, self.min_wait_us),
            WaitFor::Event { until_ns } => match until_ns.saturating_sub(monotonic_ns()) {
                0 => Enter::Poll,
                // The kernel gathers for the whole minimum wait, even past the time-out.
                left => sleep(
                    Some(left),
                    self.min_wait_us.filter(|us| u64::from(*us) * 1000 <= left),
                ),
            },
        };
        self.core.enter(how)
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            let entry = self.core.pop()?;
            if let Some(event) = self.complete(&entry) {
                return Some(event);
            }
        }
    }

    fn data(&self, event: &Event) -> &[u8] {
        match (&self.memory.receiver, event.kind, event.buffer) {
            (Receiver::Group(group), Kind::Receive, Some(id)) => group.data(id),
            _ => &[],
        }
    }

    fn control(&self, event: &Event) -> Control {
        match (&self.memory.receiver, event.kind, event.buffer) {
            (Receiver::Group(group), Kind::Receive, Some(id)) => group.control(id),
            _ => Control::default(),
        }
    }

    fn recycle(&mut self, event: &Event) {
        if let (Kind::Receive, Some(id)) = (event.kind, event.buffer) {
            self.group().give_back(id);
        }
    }

    fn stats(&self) -> EngineStats {
        let (enters, completions, overflows) = self.core.counts();
        EngineStats {
            name: "io_uring",
            features: self.features(),
            enters,
            completions,
            overflows,
            buffers_exhausted: self.buffers_exhausted,
            zerocopy: self.zerocopy.as_ref().map(ZeroCopy::stats),
        }
    }
}
