//! The io-uring crate's three halves held together: submission, completion, entering the kernel.
#![expect(
    unsafe_code,
    reason = "the ring refers to itself, and entries carry raw pointers"
)]

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::ptr::NonNull;

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{
    CompletionQueue, EnterFlags, IoUring, Parameters, SubmissionQueue, Submitter, cqueue, squeue,
};

use super::error::RingError;
use super::token::{Op, Token};
use crate::backend::RingFlags;

/// A descriptor as an operation names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// Index into the ring's own table of files, which saves a look-up and a reference count.
    Fixed(u32),
    /// The process's descriptor.
    Plain(RawFd),
}

/// Builds an entry for either form of a [`Target`]; the crate has a type for each.
macro_rules! entry_on {
    ($target:expr, $fd:ident => $entry:expr) => {
        match $target {
            $crate::uring::core::Target::Fixed(index) => {
                let $fd = io_uring::types::Fixed(index);
                $entry
            }
            $crate::uring::core::Target::Plain(raw) => {
                let $fd = io_uring::types::Fd(raw);
                $entry
            }
        }
    };
}
pub(super) use entry_on;

/// How to enter the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Enter {
    /// Submit, run deferred work, come back.
    Poll,
    /// Submit and sleep until there is a completion.
    Wait {
        /// For how long at most, nanoseconds; none is for ever.
        timeout_ns: Option<u64>,
        /// Gather so many completions...
        batch: u32,
        /// ...for so long at most, microseconds; none returns at the first.
        min_wait_us: Option<u32>,
    },
}

/// A set of set-up flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rung {
    defer: bool,
    no_sqarray: bool,
    cooperative: bool,
}

/// From richest to poorest; a kernel that does not know a flag answers EINVAL.
pub(super) static LADDER: [Rung; 4] = [
    Rung {
        defer: true,
        no_sqarray: true,
        cooperative: false,
    },
    Rung {
        defer: true,
        no_sqarray: false,
        cooperative: false,
    },
    Rung {
        defer: false,
        no_sqarray: false,
        cooperative: true,
    },
    Rung {
        defer: false,
        no_sqarray: false,
        cooperative: false,
    },
];

impl Rung {
    /// The ladder from the richest flags that are wanted.
    pub(super) fn at_most(flags: RingFlags) -> &'static [Rung] {
        let wanted = |rung: &Rung| match flags {
            RingFlags::Defer => true,
            RingFlags::Cooperative => !rung.defer,
            RingFlags::Plain => !rung.defer && !rung.cooperative,
        };
        let first = LADDER.iter().position(wanted).unwrap_or(0);
        &LADDER[first..]
    }

    fn build(self, entries: u32, completions: u32) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        // The completion queue holds everything that can complete at once, so that none of it
        // takes the detour of the overflow list.
        builder.setup_cqsize(completions);
        // More than the kernel's most is cut down rather than refused; overflow is counted.
        builder.setup_clamp();
        if self.defer {
            // One thread submits: the kernel skips locking, and the next flag needs it.
            builder.setup_single_issuer();
            // Completions are worked off when this thread asks for them, in one batch, instead of
            // interrupting it: 1.2 times the transactions at 100 connections. Without this flag
            // io_uring is no faster than epoll.
            builder.setup_defer_taskrun();
        }
        if self.no_sqarray {
            // Entries are taken in order: one indirection less, 2 %.
            builder.setup_no_sqarray();
        }
        if self.cooperative {
            // Second best: completions wait for the next system call instead of an interrupt.
            builder.setup_coop_taskrun();
        }
        if self.defer || self.cooperative {
            // An entry that fails must not hold up those behind it.
            builder.setup_submit_all();
        }
        builder.build(entries)
    }

    fn names(self) -> Vec<String> {
        let all = [
            (self.defer, "single_issuer"),
            (self.defer, "defer_taskrun"),
            (self.cooperative, "coop_taskrun"),
            (self.no_sqarray, "no_sqarray"),
            (self.defer || self.cooperative, "submit_all"),
        ];
        all.iter()
            .filter(|(on, _)| *on)
            .map(|(_, name)| (*name).to_owned())
            .collect()
    }
}

/// A ring and the handles on it.
///
/// `split()` borrows the `IoUring` that it belongs to, and the registration of the ring's own
/// descriptor lives in the `Submitter` that it returns, so both have to be kept side by side.
pub(super) struct Core {
    // The three handles point into `*ring` and into memory mapped by it; `drop` ends them first.
    submitter: ManuallyDrop<Submitter<'static>>,
    sq: ManuallyDrop<SubmissionQueue<'static>>,
    cq: ManuallyDrop<CompletionQueue<'static>>,
    ring: NonNull<IoUring>,
    /// Completions moved out of the queue to let the kernel go on submitting.
    stash: VecDeque<cqueue::Entry>,
    in_flight: u64,
    /// Sends were queued whose success has no completion.
    quiet: bool,
    broken: Option<i32>,
    features: Vec<String>,
    enters: u64,
    completions: u64,
    overflows: u64,
}

impl Core {
    /// Makes a ring with the first flags of `ladder` that this kernel knows, for use by this
    /// thread only.
    pub(super) fn new(ladder: &[Rung], entries: u32, completions: u32) -> Result<Core, RingError> {
        let mut refused = None;
        for rung in ladder {
            match rung.build(entries, completions) {
                Ok(ring) => return Ok(Core::hold(ring, rung.names())),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = Some(error),
                Err(error) => return Err(RingError::of_setup(error)),
            }
        }
        Err(RingError::of_setup(refused.expect("the ladder has rungs")))
    }

    fn hold(ring: IoUring, mut features: Vec<String>) -> Core {
        let stash = VecDeque::with_capacity(ring.params().cq_entries() as usize);
        let ring = NonNull::from(Box::leak(Box::new(ring)));
        // SAFETY: the box stays where it is until `drop`, which is the only other place that uses
        // `ring` mutably and does so after the three handles are gone. Meanwhile it is read only
        // through shared references (`params`), as the handles themselves do.
        let (mut submitter, sq, cq) = unsafe { &mut *ring.as_ptr() }.split();
        // Saves looking the descriptor up at every entry: up to 14 % with one operation per entry.
        if submitter.register_ring_fd().is_ok() {
            features.push("registered_ring".to_owned());
        }
        Core {
            submitter: ManuallyDrop::new(submitter),
            sq: ManuallyDrop::new(sq),
            cq: ManuallyDrop::new(cq),
            ring,
            stash,
            in_flight: 0,
            quiet: false,
            broken: None,
            features,
            enters: 0,
            completions: 0,
            overflows: 0,
        }
    }

    pub(super) fn submitter(&self) -> &Submitter<'static> {
        &self.submitter
    }

    pub(super) fn params(&self) -> &Parameters {
        // SAFETY: the box lives until `drop`, and only shared references to it exist until then.
        unsafe { self.ring.as_ref() }.params()
    }

    /// Names of the set-up flags in force.
    pub(super) fn features(&self) -> &[String] {
        &self.features
    }

    /// Operations queued or in the kernel.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Entries of the kernel, completions taken, completions lost or delayed by an overflow.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        (
            self.enters,
            self.completions,
            self.overflows + u64::from(self.cq.overflow()),
        )
    }

    /// Forgets what was counted so far.
    pub(super) fn reset_counts(&mut self) {
        (self.enters, self.completions, self.overflows) = (0, 0, 0);
    }

    /// Queues an operation; submits what is queued where there is no room.
    ///
    /// # Safety
    /// Whatever the entry points to must stay valid, and be left alone in the way that the
    /// operation asks for, until its last completion was taken with [`Core::pop`].
    pub(super) unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the caller's promise is just what this call asks for.
        while unsafe { self.sq.push(entry) }.is_err() {
            if !self.make_room() {
                return;
            }
        }
        self.in_flight += 1;
    }

    /// As [`Core::push`], for an operation whose success has no completion.
    ///
    /// # Safety
    /// As [`Core::push`], until the ring's end or a cancellation of everything has ended.
    pub(super) unsafe fn push_quiet(&mut self, entry: &squeue::Entry) {
        self.quiet = true;
        // SAFETY: the caller's promise.
        unsafe { self.push(entry) };
        // Not counted: there is no telling when it ends.
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Ends the operations that are not counted. False where the kernel did not in time.
    pub(super) fn end_quiet(&mut self, timeout: Timespec) -> bool {
        if !self.quiet {
            return true;
        }
        let everything = CancelBuilder::any();
        match self
            .submitter
            .register_sync_cancel(Some(timeout), everything)
        {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        }
    }

    /// Submits what is queued. False where the ring is beyond use, which `enter` then reports.
    #[cold]
    fn make_room(&mut self) -> bool {
        for _ in 0..1000 {
            if self.broken.is_some() {
                return false;
            }
            let submitted = self.enter(Enter::Poll);
            if !self.sq.is_full() {
                return true;
            }
            // Kernels before 5.19 submit nothing (EBUSY) until an overflow is worked off.
            self.stash.extend(&mut *self.cq);
            if let Err(error) = submitted {
                self.broken = error.raw_os_error();
            }
        }
        self.broken = self.broken.or(Some(libc::EBUSY));
        false
    }

    /// Submits and takes completions in, as `how` says.
    ///
    /// Being interrupted, timed out or refused for now are no errors.
    pub(super) fn enter(&mut self, how: Enter) -> io::Result<()> {
        if let Some(errno) = self.broken {
            return Err(io::Error::from_raw_os_error(errno));
        }
        // What was moved aside is there to be taken: no reason to sleep.
        let how = if self.stash.is_empty() {
            how
        } else {
            Enter::Poll
        };
        // Both before entering: new entries become visible, and so does how far completions were
        // taken. Without the latter the kernel counts old completions and never sleeps.
        self.sq.sync();
        self.cq.sync();
        self.overflows += u64::from(self.sq.cq_overflow());
        self.enters += 1;
        let entered = match how {
            Enter::Poll => self.enter_to_poll(),
            Enter::Wait {
                timeout_ns,
                batch,
                min_wait_us,
            } => self.enter_to_wait(timeout_ns, batch, min_wait_us),
        };
        self.sq.sync();
        self.cq.sync();
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn enter_to_poll(&self) -> io::Result<usize> {
        let queued = self.sq.len() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: no argument is passed, and `push` vouched for the entries.
        unsafe {
            self.submitter
                .enter::<libc::sigset_t>(queued, 0, flags, None)
        }
    }

    fn enter_to_wait(
        &self,
        timeout_ns: Option<u64>,
        batch: u32,
        min_wait_us: Option<u32>,
    ) -> io::Result<usize> {
        let timeout = timeout_ns.map(|ns| {
            Timespec::new()
                .sec(ns / 1_000_000_000)
                .nsec((ns % 1_000_000_000) as u32)
        });
        let Some(min_wait_us) = min_wait_us else {
            return match &timeout {
                Some(timeout) => self
                    .submitter
                    .submit_with_args(1, &SubmitArgs::new().timespec(timeout)),
                None => self.submitter.submit_and_wait(1),
            };
        };
        let args = SubmitArgs::new().min_wait_usec(min_wait_us);
        let want = batch.max(1) as usize;
        match &timeout {
            Some(timeout) => self
                .submitter
                .submit_with_args(want, &args.timespec(timeout)),
            None => self.submitter.submit_with_args(want, &args),
        }
    }

    /// Takes a completion.
    pub(super) fn pop(&mut self) -> Option<cqueue::Entry> {
        let entry = match self.stash.pop_front() {
            Some(entry) => entry,
            None => self.cq.next()?,
        };
        self.completions += 1;
        if !cqueue::more(entry.flags()) && !is_uncounted(&entry) {
            self.in_flight -= 1;
        }
        Some(entry)
    }
}

/// Whether the completion is of an operation that [`Core::push_quiet`] queued.
fn is_uncounted(entry: &cqueue::Entry) -> bool {
    Token::decode(entry.user_data()).is_some_and(|token| token.op == Op::Quiet)
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: none of the three is used again, and they go before what they point into.
        unsafe {
            ManuallyDrop::drop(&mut self.cq);
            ManuallyDrop::drop(&mut self.sq);
            ManuallyDrop::drop(&mut self.submitter);
        }
        // SAFETY: `hold` leaked this box, nothing refers to it any more, and this is its one end.
        drop(unsafe { Box::from_raw(self.ring.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use io_uring::opcode;

    use super::*;

    fn push_nops(core: &mut Core, tokens: std::ops::Range<u64>) {
        for token in tokens {
            // SAFETY: it points to nothing.
            unsafe { core.push(&opcode::Nop::new().build().user_data(token)) };
        }
    }

    #[test]
    fn an_overflow_is_counted_and_loses_nothing() {
        let mut core = Core::new(&LADDER, 8, 16).unwrap();
        push_nops(&mut core, 0..100);
        assert_eq!(core.in_flight(), 100);
        let mut taken = Vec::new();
        while core.in_flight() > 0 {
            core.enter(Enter::Wait {
                timeout_ns: None,
                batch: 1,
                min_wait_us: None,
            })
            .unwrap();
            taken.extend(std::iter::from_fn(|| core.pop()).map(|entry| entry.user_data()));
        }
        taken.sort_unstable();
        assert_eq!(taken, (0..100).collect::<Vec<u64>>());
        let (_, completions, overflows) = core.counts();
        assert_eq!(completions, 100);
        assert!(overflows > 0);
    }

    #[test]
    fn what_was_moved_aside_is_taken_first_and_not_slept_on() {
        let mut core = Core::new(&LADDER, 8, 16).unwrap();
        push_nops(&mut core, 0..4);
        core.enter(Enter::Poll).unwrap();
        core.stash.extend(&mut *core.cq);
        core.enter(Enter::Wait {
            timeout_ns: None,
            batch: 1,
            min_wait_us: None,
        })
        .unwrap();
        push_nops(&mut core, 4..6);
        core.enter(Enter::Poll).unwrap();
        let taken: Vec<u64> = std::iter::from_fn(|| core.pop())
            .map(|entry| entry.user_data())
            .collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn taken_completions_do_not_end_the_next_sleep() {
        let mut core = Core::new(&LADDER, 8, 16).unwrap();
        push_nops(&mut core, 0..4);
        core.enter(Enter::Poll).unwrap();
        assert_eq!(std::iter::from_fn(|| core.pop()).count(), 4);
        let start = crate::sys::clock::monotonic_ns();
        let sleep = Enter::Wait {
            timeout_ns: Some(20_000_000),
            batch: 1,
            min_wait_us: None,
        };
        core.enter(sleep).unwrap();
        assert!(crate::sys::clock::monotonic_ns() - start >= 19_000_000);
    }

    #[test]
    fn the_ladder_begins_where_it_is_told() {
        let named = |flags| {
            let core = Core::new(Rung::at_most(flags), 8, 16).unwrap();
            let has = |name: &str| core.features().iter().any(|have| have == name);
            (has("defer_taskrun"), has("coop_taskrun"))
        };
        let (all, _) = named(RingFlags::Defer);
        let (none, cooperative) = named(RingFlags::Cooperative);
        assert!(!none && (cooperative || !all));
        assert_eq!(named(RingFlags::Plain), (false, false));
    }

    #[test]
    fn every_rung_of_the_ladder_holds() {
        for rung in &LADDER {
            let mut core = Core::new(std::slice::from_ref(rung), 8, 16).unwrap();
            push_nops(&mut core, 0..1);
            core.enter(Enter::Wait {
                timeout_ns: None,
                batch: 1,
                min_wait_us: None,
            })
            .unwrap();
            assert_eq!(
                core.pop().map(|entry| entry.user_data()),
                Some(0),
                "{rung:?}"
            );
            assert_eq!(
                core.features().contains(&"defer_taskrun".to_owned()),
                rung.defer
            );
        }
    }
}
