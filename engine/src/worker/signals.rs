//! Start and stop of a worker, as its loop sees them.

use std::io;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sys::eventfd::{self, Waker};

/// A cache line of its own, and the one beside it, which some processors fetch along.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// What the control thread tells.
#[derive(Debug)]
struct Told {
    start_ns: AtomicU64,
    stop: AtomicU32,
    waker: Waker,
}

/// What the worker tells.
#[derive(Debug)]
struct Said {
    limit_reached: AtomicU32,
    thread: AtomicU32,
}

/// What the control thread may tell a running worker, and the little that it answers. Read once
/// a loop, written a handful of times in a sample. Neither shares a cache line with the other, or
/// with what another worker reads or writes.
#[derive(Debug)]
pub struct Signals {
    told: Apart<Told>,
    said: Apart<Said>,
}

// Nothing else can lie on the lines of either: both fill theirs, and no line is in both.
const _: () = {
    assert!(align_of::<Signals>() == 128 && size_of::<Signals>() == 2 * 128);
    let distance = offset_of!(Signals, told).abs_diff(offset_of!(Signals, said));
    assert!(distance >= 128);
};

impl Signals {
    /// Signals with nothing said, and the descriptor that wakes the worker's engine.
    pub fn new() -> io::Result<(Signals, OwnedFd)> {
        let (waker, woken) = eventfd::pair()?;
        let signals = Signals {
            told: Apart(Told {
                start_ns: AtomicU64::new(0),
                stop: AtomicU32::new(0),
                waker,
            }),
            said: Apart(Said {
                limit_reached: AtomicU32::new(0),
                thread: AtomicU32::new(0),
            }),
        };
        Ok((signals, woken))
    }

    /// Traffic begins; `now_ns` is the side's mark.
    pub fn start(&self, now_ns: u64) {
        self.told.0.start_ns.store(now_ns, Ordering::Release);
        self.wake();
    }

    /// When traffic began, once it has.
    pub fn started(&self) -> Option<u64> {
        Some(self.told.0.start_ns.load(Ordering::Acquire)).filter(|ns| *ns != 0)
    }

    /// Senders stop, receivers drain.
    pub fn stop(&self) {
        self.told.0.stop.fetch_max(1, Ordering::Release);
        self.wake();
    }

    /// The worker ends at once.
    pub fn abort(&self) {
        self.told.0.stop.fetch_max(2, Ordering::Release);
        self.wake();
    }

    /// 0 goes on, 1 drains, 2 ends at once.
    pub fn stopping(&self) -> u32 {
        self.told.0.stop.load(Ordering::Acquire)
    }

    /// The worker's share of a count limit is done, or its streams have ended.
    pub fn set_limit_reached(&self) {
        self.said.0.limit_reached.store(1, Ordering::Release);
    }

    /// Whether the worker said so.
    pub fn limit_reached(&self) -> bool {
        self.said.0.limit_reached.load(Ordering::Acquire) != 0
    }

    /// The worker's thread has this number.
    pub fn set_thread(&self, number: u32) {
        self.said.0.thread.store(number, Ordering::Release);
    }

    /// Number of the worker's thread, once it runs.
    pub fn thread(&self) -> Option<u32> {
        Some(self.said.0.thread.load(Ordering::Acquire)).filter(|number| *number != 0)
    }

    fn wake(&self) {
        // An eventfd refuses only when its count is full, and then the worker is awake.
        if let Err(error) = self.told.0.waker.wake() {
            log::debug!("a worker cannot be woken: {error}");
        }
    }
}
