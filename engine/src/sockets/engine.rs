//! The engine as a [`Backend`], and how it waits.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::buffers::Receiver;
use super::input::RECEIVE_BATCH;
use super::output::{Memory, SEND_BATCH};
use super::sends::Sends;
use super::slots::{Role, Slots};
use super::zerocopy::ZeroCopy;
use crate::backend::{
    Backend, Control, EngineStats, Event, Kind, ReceiveStyle, SendFrom, Setup, Slot, WaitFor,
};
use crate::sys::clock::monotonic_ns;
use crate::sys::epoll::{BROKEN, ENDING, ERROR, Epoll, READABLE, Ready, WRITABLE};
use crate::sys::memory::Bytes;
use crate::sys::socket::{is_stream, set_nonblocking, set_receive_timeout};
use crate::sys::transfer::{Patience, ReceiveBatch, SendBatch};

/// Most that is done between two looks at the clock, in units of [`cost`]: half a millisecond of
/// small operations, about a millisecond and a half of large ones.
pub(super) const BUDGET: u32 = 512;
/// Most that is done on one socket before it is the next one's turn.
pub(super) const QUANTUM: u32 = 64;
/// Sockets that one look at epoll tells of.
const REPORTS: usize = 512;
/// As long as there is always something to do, epoll is asked once in so many waits.
const LOOK_EVERY: u32 = 16;
/// Polls of the only socket between two looks at the others: wakers.
const SPINS: u32 = 256;
/// Longest that a receive waits by itself, so that a wake-up is seen; microseconds.
const BLOCK_US: u32 = 20_000;
/// Waits in a row that brought news of the only socket, before a receive waits by itself: only
/// where traffic flows is it sure to end soon.
const WARM: u32 = 8;

/// What an operation on so many bytes counts against a budget.
pub(super) fn cost(bytes: usize) -> u32 {
    1 + (bytes / 8192) as u32
}

/// The number of an error that a system call gave.
pub(super) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Sockets and their memory, driven by plain system calls. It belongs to one thread.
///
/// Epoll is edge-triggered: a socket is entered once and never touched again, and what it is
/// ready for is remembered here. Level-triggered it would take a call to ask for room to send
/// and another to stop asking, at every full socket buffer.
///
/// Beyond what [`Backend`] says:
/// * Receives and accepts go on by themselves. `armed` is false only after the end of a stream,
///   an error, or [`Backend::receive_stop`].
/// * Sends of one socket keep their order, whole: the bytes of one are in one piece.
/// * A socket is entered into epoll only when a call finds nothing to do. The only socket that
///   is received from is not, where the wait is one that polls: it is simply read. Where the
///   wait may sleep and traffic flows, the receive itself waits, 20 ms at most.
/// * A wait does a bounded amount of work, and goes on with the next socket after a share of it.
/// * Between [`Backend::close`] and its event only sends, and receives that carry bytes, are
///   reported.
/// * A connection for which there is no slot is dropped and reported as ENFILE, on the listener's
///   slot.
pub struct Sockets {
    pub(super) slots: Slots,
    pub(super) sends: Sends,
    pub(super) memory: Memory,
    pub(super) zerocopy: ZeroCopy,
    /// Of each private buffer.
    pub(super) busy: Vec<bool>,
    pub(super) receiver: Receiver,
    pub(super) send_batch: SendBatch,
    pub(super) receive_batch: ReceiveBatch,
    epoll: Epoll,
    /// Sockets on which a call may do something; each is in it once.
    work: VecDeque<Slot>,
    /// Sockets that have to be entered into epoll before it is asked.
    unwatched: Vec<Slot>,
    /// Sockets whose receive found no buffer, and whether that is counted.
    pub(super) starved: VecDeque<Slot>,
    pub(super) counted: bool,
    events: VecDeque<Event>,
    /// What may still be done in this wait.
    pub(super) budget: u32,
    /// Receives are for control messages too.
    pub(super) control: bool,
    /// Sockets, other than wakers, of which news is wanted; and those that connect.
    wanted: u32,
    pub(super) connecting: u32,
    /// The only one of them, where it was looked for: none where it is a listener.
    only: Option<Option<Slot>>,
    /// Waits in a row that brought news of the only one, polls of it, and waits without epoll.
    warm: u32,
    spins: u32,
    unseen: u32,
    blocked: bool,
    broken: Option<io::Error>,
    pub(super) enters: u64,
    completions: u64,
    pub(super) buffers_exhausted: u64,
}

impl Sockets {
    /// Makes an engine for this thread.
    ///
    /// # Errors
    /// Those of epoll_create1(2), mmap(2) and memfd_create(2): no descriptor or no memory is
    /// left.
    pub fn new(setup: &Setup) -> io::Result<Sockets> {
        let sockets = setup.sockets.max(1);
        let private_len = setup.send_buffer_len as usize;
        let control = matches!(setup.receive, ReceiveStyle::RingWithControl { .. });
        // All that one wait may tell of, and what cancelling everything may tell of in between.
        let events = (BUDGET + 2 * QUANTUM) as usize + setup.operations as usize;
        let list = sockets as usize;
        Ok(Sockets {
            slots: Slots::new(sockets),
            sends: Sends::new(setup.operations),
            memory: Memory {
                payload: Bytes::of(&setup.payload, setup.huge_pages)?,
                private: Bytes::touched(
                    setup.send_buffers as usize * private_len,
                    setup.huge_pages,
                )?,
                private_len,
            },
            busy: vec![false; setup.send_buffers as usize],
            receiver: Receiver::new(setup.receive, setup.huge_pages)?,
            zerocopy: ZeroCopy::new(setup)?,
            send_batch: SendBatch::new(SEND_BATCH),
            receive_batch: ReceiveBatch::new(RECEIVE_BATCH, control),
            epoll: Epoll::new(REPORTS.min(list))?,
            work: VecDeque::with_capacity(list),
            unwatched: Vec::with_capacity(list),
            starved: VecDeque::with_capacity(list),
            counted: false,
            events: VecDeque::with_capacity(events + 4 * list),
            budget: BUDGET,
            control,
            wanted: 0,
            connecting: 0,
            only: None,
            warm: 0,
            spins: 0,
            unseen: 0,
            blocked: false,
            broken: None,
            enters: 0,
            completions: 0,
            buffers_exhausted: 0,
        })
    }

    fn insert(&mut self, socket: OwnedFd, role: Role) -> io::Result<Slot> {
        self.slots.insert(socket, role).map_err(|_socket| {
            io::Error::other("no slot is free: more sockets than Setup::sockets")
        })
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Says whether news of a socket is wanted, and keeps count of those.
    pub(super) fn want(&mut self, slot: Slot, wanted: bool) {
        let entry = self.slots.get_mut(slot);
        let before = std::mem::replace(&mut entry.wanted, wanted);
        if before != wanted && entry.role != Role::Waker {
            self.wanted = self.wanted + u32::from(wanted) - u32::from(before);
            let first = wanted && self.wanted == 1 && entry.role != Role::Listener;
            self.only = first.then_some(Some(slot));
            self.warm = 0;
        }
    }

    fn request_input(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        if entry.closing {
            return;
        }
        assert!(entry.socket.is_some(), "slot {slot} has no socket");
        entry.stopping = false;
        // Nobody tells of what arrived while nobody watched.
        entry.readable |= entry.watched == 0;
        self.want(slot, true);
        self.note_work(slot);
    }

    /// Puts a socket in line, if there is something to do on it.
    pub(super) fn note_work(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        if entry.has_work() && !std::mem::replace(&mut entry.in_work, true) {
            self.work.push_back(slot);
        }
    }

    /// Has a socket entered into epoll before it is asked the next time.
    pub(super) fn note_unwatched(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        if entry.watched == 0 && !std::mem::replace(&mut entry.in_unwatched, true) {
            self.unwatched.push(slot);
        }
    }

    fn watch_all(&mut self) {
        while let Some(slot) = self.unwatched.pop() {
            let entry = self.slots.get_mut(slot);
            entry.in_unwatched = false;
            let sends = !entry.sends.is_empty() || entry.owed > 0;
            let needed = entry.wanted || entry.connecting || sends;
            if entry.socket.is_none() || entry.watched != 0 || !needed {
                continue;
            }
            let interest = entry.interest();
            entry.watched = interest;
            self.enters += 1;
            let token = self.slots.token(slot);
            if let Err(error) = self.epoll.add(self.slots.socket(slot), interest, token) {
                self.broken = Some(error);
            }
        }
    }

    /// Changes what epoll watches a socket for to what it needs now.
    pub(super) fn watch_again(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        let interest = entry.interest();
        if entry.watched == 0 || entry.watched == interest {
            return;
        }
        entry.watched = interest;
        self.enters += 1;
        let token = self.slots.token(slot);
        if let Err(error) = self.epoll.modify(self.slots.socket(slot), interest, token) {
            self.broken = Some(error);
        }
    }

    /// Takes a socket out of epoll.
    fn unwatch(&mut self, slot: Slot) {
        if std::mem::replace(&mut self.slots.get_mut(slot).watched, 0) != 0 {
            self.enters += 1;
            // Fails only where it is not in it, which is as well.
            let _ = self.epoll.remove(self.slots.socket(slot));
        }
    }

    /// Takes a socket out of epoll that closing alone may leave in it, since others have it too.
    pub(super) fn unwatch_shared(&mut self, slot: Slot) {
        if matches!(self.slots.get(slot).role, Role::Listener | Role::Waker) {
            self.unwatch(slot);
        }
    }

    /// Does what is known to be possible, within the budget.
    fn work(&mut self) {
        while self.budget > 0 {
            let Some(slot) = self.work.pop_front() else {
                return;
            };
            self.slots.get_mut(slot).in_work = false;
            self.step(slot);
            self.note_work(slot);
        }
    }

    /// A socket's turn.
    fn step(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        if !entry.has_work() {
            return;
        }
        if std::mem::replace(&mut entry.stopping, false) {
            self.tell(Event {
                kind: Kind::Receive,
                slot,
                token: 0,
                result: -libc::ECANCELED,
                buffer: None,
                armed: false,
            });
        }
        self.push_out(slot);
        if self.slots.get(slot).has_input() {
            self.take_in(slot);
        }
    }

    /// The only socket that news are wanted of, if there is nothing else to wait for. Wakers do
    /// not count.
    fn only(&mut self) -> Option<Slot> {
        if self.wanted != 1 || self.connecting > 0 || !self.sends.is_empty() {
            return None;
        }
        let slots = &self.slots;
        let find = || {
            (0..slots.count()).find(|slot| {
                let entry = slots.get(*slot);
                entry.wanted && matches!(entry.role, Role::Stream | Role::Datagram)
            })
        };
        let only = *self.only.get_or_insert_with(find);
        only.filter(|slot| !slots.get(*slot).in_starved)
    }

    /// Looks what has arrived, without sleeping.
    fn poll(&mut self) -> io::Result<()> {
        let Some(slot) = self.only() else {
            self.watch_all();
            return self.look(Some(0)).map(|_| ());
        };
        self.spins += 1;
        if self.spins.is_multiple_of(SPINS) {
            return self.look(Some(0)).map(|_| ());
        }
        if self.spins > SPINS && self.slots.get(slot).watched != 0 {
            // Waking nobody is cheaper.
            self.unwatch(slot);
        }
        self.slots.get_mut(slot).readable = true;
        self.receive_once(slot, Patience::None);
        // There may be more, and nobody watches.
        self.note_work(slot);
        Ok(())
    }

    /// Sleeps until something arrives or is possible, or until the instant.
    fn sleep(&mut self, until_ns: u64) -> io::Result<()> {
        let left = |until_ns| match until_ns {
            u64::MAX => None,
            until => Some(u64::saturating_sub(until, monotonic_ns())),
        };
        let busy = !self.work.is_empty();
        let only = self.only().filter(|_| !busy);
        if let Some(slot) = only
            && self.warm >= WARM
            && left(until_ns).is_none_or(|ns| ns > 2000 * u64::from(BLOCK_US))
            && self.prepare_to_block(slot)
        {
            self.slots.get_mut(slot).readable = true;
            self.receive_once(slot, Patience::OfSocket);
            // There may be more, and nobody watches.
            self.note_work(slot);
        } else {
            self.watch_all();
            let timeout = if busy { Some(0) } else { left(until_ns) };
            let mut count = self.look(timeout)?;
            self.work();
            // A socket that is newly watched is ready to send, which nobody waited for.
            while count > 0 && self.events.is_empty() && self.work.is_empty() {
                self.watch_all();
                let timeout = left(until_ns);
                if timeout == Some(0) || self.broken.is_some() {
                    break;
                }
                count = self.look(timeout)?;
                self.work();
            }
        }
        self.warm = match (only, self.events.is_empty()) {
            (Some(_), false) => self.warm.saturating_add(1),
            _ => 0,
        };
        Ok(())
    }

    /// Lets receives of the only socket wait for a while. False where that cannot be.
    fn prepare_to_block(&mut self, slot: Slot) -> bool {
        if self.zerocopy.is_file() {
            // sendfile has no other way not to wait than the socket's own.
            return false;
        }
        self.unwatch(slot);
        if !self.slots.get(slot).blocks {
            self.enters += 2;
            let socket = self.slots.socket(slot);
            let set = set_nonblocking(socket, false)
                .and_then(|()| set_receive_timeout(socket, BLOCK_US));
            self.slots.get_mut(slot).blocks = set.is_ok();
        }
        self.blocked |= self.slots.get(slot).blocks;
        self.slots.get(slot).blocks
    }

    /// Asks epoll. Gives how many sockets it told of.
    fn look(&mut self, timeout_ns: Option<u64>) -> io::Result<usize> {
        self.unseen = 0;
        self.enters += 1;
        let count = self.epoll.wait(timeout_ns)?;
        for at in 0..count {
            self.ready(self.epoll.ready(at));
        }
        Ok(count)
    }

    fn ready(&mut self, ready: Ready) {
        let Some(slot) = self.slots.of_token(ready.token) else {
            return;
        };
        let is = |interest| ready.interest & interest != 0;
        let entry = self.slots.get_mut(slot);
        if entry.connecting {
            if is(WRITABLE | BROKEN) {
                self.connect_ended(slot);
            } else {
                return;
            }
        }
        let entry = self.slots.get_mut(slot);
        entry.readable |= is(READABLE | ENDING | BROKEN);
        entry.ending |= is(ENDING | BROKEN);
        entry.writable |= is(WRITABLE | BROKEN);
        if is(ERROR) && self.zerocopy.has_notices() {
            self.read_notices(slot);
        }
        if self.slots.get(slot).role == Role::Datagram {
            self.watch_again(slot);
        }
        self.note_work(slot);
    }

    fn give_back(&mut self, buffer: Option<u16>) {
        if let (Receiver::Many(buffers), Some(id)) = (&mut self.receiver, buffer) {
            buffers.give_back(id);
        }
    }

    /// Whether an event is told, seen what happened since it was queued. Ends what it ends.
    fn settle(&mut self, event: &Event) -> bool {
        let closing = self.slots.get(event.slot).closing;
        match event.kind {
            Kind::Close => {
                self.slots.remove(event.slot);
                true
            }
            Kind::Receive if closing && event.result <= 0 => {
                self.give_back(event.buffer);
                false
            }
            Kind::Accept if self.slots.get(event.token).closing => {
                if event.slot != event.token {
                    // Dropping the connection is what the listener's end does too.
                    drop(self.slots.get_mut(event.slot).socket.take());
                    self.slots.remove(event.slot);
                }
                false
            }
            Kind::Connect | Kind::Wake => !closing,
            Kind::Receive | Kind::Accept | Kind::Send => true,
        }
    }
}

impl Backend for Sockets {
    fn add(&mut self, socket: OwnedFd) -> io::Result<Slot> {
        let role = match is_stream(socket.as_fd())? {
            true => Role::Stream,
            false => Role::Datagram,
        };
        self.zerocopy.prepare(socket.as_fd(), role)?;
        self.insert(socket, role)
    }

    fn add_listener(&mut self, socket: OwnedFd) -> io::Result<Slot> {
        set_nonblocking(socket.as_fd(), true)?;
        self.insert(socket, Role::Listener)
    }

    fn add_waker(&mut self, eventfd: OwnedFd) -> io::Result<Slot> {
        set_nonblocking(eventfd.as_fd(), true)?;
        let slot = self.insert(eventfd, Role::Waker)?;
        self.request_input(slot);
        Ok(slot)
    }

    fn socket(&self, slot: Slot) -> BorrowedFd<'_> {
        self.slots.socket(slot)
    }

    fn arm(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, slot: Slot) {
        self.request_input(slot);
    }

    fn receive_stop(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        if entry.wanted {
            entry.stopping = true;
            self.want(slot, false);
            self.note_work(slot);
        }
    }

    fn send(&mut self, slot: Slot, token: u32, from: SendFrom) {
        self.queue_send(slot, token, from);
    }

    fn send_quiet(&mut self, slot: Slot, from: SendFrom) {
        self.send_now(slot, from);
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
        let entry = self.slots.get(slot);
        let sends = !entry.sends.is_empty() || !entry.lent.is_empty();
        let idle = !sends && !entry.wanted && !entry.stopping;
        if !idle || entry.connecting || entry.closing {
            return None;
        }
        if entry.socket.is_some() {
            self.unwatch(slot);
        }
        let socket = self.slots.get_mut(slot).socket.take()?;
        self.slots.remove(slot);
        Some(socket)
    }

    fn send_buffer(&mut self, index: u32) -> &mut [u8] {
        assert!(
            !self.busy[index as usize],
            "private buffer {index} is being sent"
        );
        let from = index as usize * self.memory.private_len;
        &mut self.memory.private[from..from + self.memory.private_len]
    }

    fn wait(&mut self, wait: WaitFor) -> io::Result<()> {
        self.feed();
        self.budget = BUDGET;
        if !self.events.is_empty() {
            // What is not taken yet is not to grow without bound.
            return Ok(());
        }
        self.work();
        if !self.events.is_empty() {
            self.unseen += 1;
            if self.unseen >= LOOK_EVERY {
                self.watch_all();
                self.look(Some(0))?;
            }
        } else if let WaitFor::Event { until_ns } = wait {
            self.sleep(until_ns)?;
        } else {
            self.poll()?;
            self.work();
        }
        self.broken.take().map_or(Ok(()), Err)
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.events.pop_front()?;
            if self.settle(&event) {
                self.completions += 1;
                return Some(event);
            }
        }
    }

    fn data(&self, event: &Event) -> &[u8] {
        match (&self.receiver, event.kind, event.buffer) {
            (Receiver::Many(buffers), Kind::Receive, Some(id)) => buffers.data(id),
            _ => &[],
        }
    }

    fn control(&self, event: &Event) -> Control {
        match (&self.receiver, event.kind, event.buffer) {
            (Receiver::Many(buffers), Kind::Receive, Some(id)) => buffers.control(id),
            _ => Control::default(),
        }
    }

    fn recycle(&mut self, event: &Event) {
        if event.kind == Kind::Receive {
            self.give_back(event.buffer);
        }
    }

    fn stats(&self) -> EngineStats {
        let mut features = vec!["epoll".to_string(), "edge_triggered".to_string()];
        features.push("sendmmsg".to_string());
        if matches!(self.receiver, Receiver::Many(_)) {
            features.push("recvmmsg".to_string());
        }
        features.extend(self.zerocopy.feature().map(str::to_string));
        let huge = self.memory.payload.huge().min(self.memory.private.huge());
        features.extend(huge.min(self.receiver.huge()).name().map(str::to_string));
        if self.blocked {
            features.push("waiting_receive".to_string());
        }
        EngineStats {
            name: "sockets",
            features,
            enters: self.enters,
            completions: self.completions,
            overflows: 0,
            buffers_exhausted: self.buffers_exhausted,
            zerocopy: self.zerocopy.stats(),
        }
    }
}
