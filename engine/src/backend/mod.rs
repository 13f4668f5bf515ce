//! The interface of the data-plane engines: submit, wait, completions.
//!
//! An engine owns sockets, send memory and receive memory, so that nothing the kernel may still
//! be using can be freed or changed by safe code. It does not know what an operation means.
//!
//! A worker talks to an engine in one loop: queue operations, [`Backend::wait`], then take every
//! [`Event`] with [`Backend::next`], reading received bytes with [`Backend::data`] and giving the
//! memory back with [`Backend::recycle`]. Nothing here allocates after [`Backend::arm`].

#[cfg(test)]
pub(crate) mod conformance;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A socket within one engine.
pub type Slot = u32;

/// How an engine receives; the same for all sockets of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveStyle {
    /// One large buffer shared by all sockets; the data is gone as soon as it is counted.
    Scratch {
        /// Bytes.
        len: u32,
    },
    /// Provided buffers, one per arrival, whose data the worker reads.
    Ring {
        /// Buffers, a power of two.
        count: u16,
        /// Bytes of each.
        len: u32,
    },
    /// Provided buffers filled by recvmsg, with control messages (receive time, GRO size).
    RingWithControl {
        /// Buffers, a power of two.
        count: u16,
        /// Payload bytes of each.
        len: u32,
    },
    /// The kernel throws the payload away (MSG_TRUNC, TCP only).
    Discard {
        /// Most bytes per operation.
        len: u32,
    },
}

/// How an engine sends; the same for all sockets of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SendStyle {
    /// The kernel copies.
    #[default]
    Copy,
    /// The kernel sends from the engine's memory where it can, and says when it is done with it.
    ZeroCopy,
    /// The shared payload goes from a sealed file in memory (sendfile, streams only).
    File,
}

/// What an engine needs to know before it can be made.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Most sockets at once, wakers and listeners included.
    pub sockets: u32,
    /// Most operations in flight at once.
    pub operations: u32,
    /// Payload shared by all sends, read-only from here on.
    pub payload: Vec<u8>,
    /// Private send buffers (datagrams with headers, echoes): how many.
    pub send_buffers: u32,
    /// Bytes of each private send buffer.
    pub send_buffer_len: u32,
    /// How to send.
    pub send: SendStyle,
    /// How to receive.
    pub receive: ReceiveStyle,
    /// Let a wait gather completions for so long once one is there; none where not supported or
    /// not wanted.
    pub min_wait_us: Option<u32>,
    /// Completions to gather within `min_wait_us`.
    pub min_wait_batch: u32,
    /// Sockets go into the ring's own table of files; a matter of rings.
    pub fixed_files: bool,
    /// How far a ring's set-up flags go; a matter of rings.
    pub ring_flags: RingFlags,
    /// Payload and buffers are in huge pages, where the host has any.
    pub huge_pages: bool,
    /// A ring polls the devices of its sockets for so long before it sleeps, microseconds.
    pub busy_poll_us: Option<u32>,
}

/// The richest set-up flags that a ring may have; it takes the richest that the kernel knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RingFlags {
    /// All that there are, DEFER_TASKRUN first of all.
    #[default]
    Defer,
    /// COOP_TASKRUN.
    Cooperative,
    /// None.
    Plain,
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendFrom {
    /// A range of the shared payload.
    Payload {
        /// First byte.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// The first bytes of a private buffer, which is busy until the send completes: where the
    /// kernel sends from the buffer itself, until it needs the bytes no more.
    Buffer {
        /// Index of the private buffer.
        index: u32,
        /// Bytes.
        len: u32,
    },
}

/// What completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Bytes or a datagram arrived; 0 bytes on a stream is its end.
    Receive,
    /// A send ended; the token is the one given.
    Send,
    /// A connection was accepted; `slot` is the new socket, `listener` the one that accepted.
    Accept,
    /// A connect ended.
    Connect,
    /// A close ended; the slot is free again.
    Close,
    /// Another thread woke this one.
    Wake,
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What completed.
    pub kind: Kind,
    /// On which socket. An event of a socket that has since been closed is never delivered.
    pub slot: Slot,
    /// The token given with the operation (sends), the listener's slot (accepts), else 0.
    pub token: u32,
    /// Bytes, or a negative errno.
    pub result: i32,
    /// Receive memory to read and to give back.
    pub buffer: Option<u16>,
    /// The receive goes on by itself; where false the worker must call `receive` again if it
    /// wants more.
    pub armed: bool,
}

/// What came with a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Control {
    /// Kernel receive time, CLOCK_REALTIME nanoseconds.
    pub received_realtime_ns: Option<u64>,
    /// Size of the datagrams merged into this one (UDP_GRO); 0 where there is one only.
    pub segment_bytes: u32,
    /// The datagram was larger than the buffer.
    pub truncated: bool,
}

/// How long to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitFor {
    /// Submit, take what is there, do not sleep.
    Nothing,
    /// Sleep until there is an event, or until the instant (CLOCK_MONOTONIC nanoseconds).
    Event {
        /// When to return at the latest; `u64::MAX` is never.
        until_ns: u64,
    },
}

/// Sends that the kernel was asked not to copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZeroCopyStats {
    /// Sends that went.
    pub sends: u64,
    /// Sends of which the kernel said that it is done with their bytes; none where it never does.
    pub completed: Option<u64>,
    /// Of these, sends that it copied after all; none where it does not say.
    pub copied: Option<u64>,
}

/// What an engine did, for the result.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineStats {
    /// `io_uring` or `sockets`.
    pub name: &'static str,
    /// Flags and features in force.
    pub features: Vec<String>,
    /// Kernel entries.
    pub enters: u64,
    /// Completions.
    pub completions: u64,
    /// Completions lost or delayed by an overflow of the completion queue.
    pub overflows: u64,
    /// Receives that found no buffer of ours.
    pub buffers_exhausted: u64,
    /// Sends without copies, where they were asked for.
    pub zerocopy: Option<ZeroCopyStats>,
}

/// A data-plane engine. One per worker, made and used on the worker's thread.
pub trait Backend {
    /// Takes a connected socket and gives it a slot. Not on the hot path, except for crr.
    fn add(&mut self, socket: OwnedFd) -> io::Result<Slot>;

    /// Takes a listening socket.
    fn add_listener(&mut self, socket: OwnedFd) -> io::Result<Slot>;

    /// Takes an eventfd by which other threads wake this one; armed at once.
    fn add_waker(&mut self, eventfd: OwnedFd) -> io::Result<Slot>;

    /// The socket in a slot, for socket options.
    fn socket(&self, slot: Slot) -> BorrowedFd<'_>;

    /// Ends the set-up: what has to be allocated is allocated.
    fn arm(&mut self) -> io::Result<()>;

    /// Receives from a socket until its end, an error, or [`Backend::receive_stop`].
    fn receive(&mut self, slot: Slot);

    /// Cancels a socket's receive; a last event with an error may follow.
    fn receive_stop(&mut self, slot: Slot);

    /// Sends. The event carries `token`. On a stream socket the whole range is sent unless the
    /// connection fails or the send is cancelled.
    fn send(&mut self, slot: Slot, token: u32, from: SendFrom);

    /// Sends without an event, unless the send fails or is cut short. For the shared payload
    /// only: a private buffer needs its event to become free.
    fn send_quiet(&mut self, slot: Slot, from: SendFrom);

    /// Cancels a socket's sends; each still has its event, with the bytes that went.
    fn send_cancel(&mut self, slot: Slot);

    /// Connects a socket made by the caller, without waiting.
    fn connect(&mut self, slot: Slot, to: std::net::SocketAddr);

    /// Accepts on a listener until it is closed.
    fn accept(&mut self, listener: Slot);

    /// Closes a socket after its operations are cancelled. Sends the slot's `Close` event last.
    fn close(&mut self, slot: Slot);

    /// Takes a socket back that has no operation under way; its slot is free again.
    fn take(&mut self, slot: Slot) -> Option<OwnedFd>;

    /// A private send buffer, to fill. Must not be busy.
    fn send_buffer(&mut self, index: u32) -> &mut [u8];

    /// Submits what is queued and waits. Interrupted waits return early without an error.
    fn wait(&mut self, wait: WaitFor) -> io::Result<()>;

    /// The next completion.
    fn next(&mut self) -> Option<Event>;

    /// The bytes of a receive event that has a buffer.
    fn data(&self, event: &Event) -> &[u8];

    /// What came with the datagram of a receive event.
    fn control(&self, event: &Event) -> Control;

    /// Gives a receive event's memory back.
    fn recycle(&mut self, event: &Event);

    /// What the engine did so far.
    fn stats(&self) -> EngineStats;
}
