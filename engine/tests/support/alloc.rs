//! A global allocator that counts what chosen threads do.
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: support::alloc::Counting = support::alloc::Counting;
//! ```
#![expect(unsafe_code, reason = "a global allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The system's allocator, counting.
pub struct Counting;

/// Calls of the allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Allocations and reallocations.
    pub allocations: u64,
    /// Frees.
    pub frees: u64,
}

thread_local! {
    /// Counts of this thread while it counts itself. Constant and without a destructor, so that
    /// the allocator may use it at any time of the thread's life.
    static HERE: Cell<Option<Counts>> = const { Cell::new(None) };
}

/// Longest thread name, without the final zero.
const NAME_BYTES: usize = 15;

static WATCHING: AtomicBool = AtomicBool::new(false);
static PREFIX: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);

/// What the current thread allocates and frees in `work`.
pub fn count_here<T>(work: impl FnOnce() -> T) -> (T, Counts) {
    HERE.set(Some(Counts::default()));
    let result = work();
    let counts = HERE.take().expect("set above");
    (result, counts)
}

/// Counts what every thread does whose name begins with `prefix`, until [`Watch::end`]. One at
/// a time in a process.
pub fn watch_threads(prefix: &str) -> Watch {
    assert!(
        !prefix.is_empty() && prefix.len() <= NAME_BYTES,
        "{prefix:?} is no such prefix"
    );
    assert!(!WATCHING.load(Ordering::SeqCst), "another watch is on");
    let mut name = [0; 16];
    name[..prefix.len()].copy_from_slice(prefix.as_bytes());
    for (word, half) in PREFIX.iter().zip(halves(&name)) {
        word.store(half, Ordering::SeqCst);
    }
    ALLOCATIONS.store(0, Ordering::SeqCst);
    FREES.store(0, Ordering::SeqCst);
    WATCHING.store(true, Ordering::SeqCst);
    Watch
}

/// A watch that is on.
pub struct Watch;

impl Watch {
    /// The counts so far.
    pub fn so_far(&self) -> Counts {
        Counts {
            allocations: ALLOCATIONS.load(Ordering::SeqCst),
            frees: FREES.load(Ordering::SeqCst),
        }
    }

    /// Ends the watch; its counts.
    pub fn end(self) -> Counts {
        WATCHING.store(false, Ordering::SeqCst);
        self.so_far()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHING.store(false, Ordering::SeqCst);
    }
}

fn halves(name: &[u8; 16]) -> [u64; 2] {
    let mut halves = [0; 2];
    for (half, bytes) in halves.iter_mut().zip(name.chunks_exact(8)) {
        *half = bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    halves
}

/// Whether the current thread's name begins with the prefix. Asks the kernel, since the standard
/// library's answer may itself allocate.
fn watched() -> bool {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, which is what `name` has, and keeps nothing.
    let result = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    result == 0
        && halves(&name).iter().zip(&PREFIX).all(|(have, prefix)| {
            let prefix = prefix.load(Ordering::SeqCst);
            // The prefix fills its word from the top; what is below it does not matter.
            let mask = match prefix {
                0 => 0,
                some => u64::MAX << (some.trailing_zeros() / 8 * 8),
            };
            have & mask == prefix
        })
}

fn note(allocations: u64, frees: u64) {
    if let Some(mut counts) = HERE.get() {
        counts.allocations += allocations;
        counts.frees += frees;
        HERE.set(Some(counts));
    }
    if WATCHING.load(Ordering::SeqCst) && watched() {
        ALLOCATIONS.fetch_add(allocations, Ordering::SeqCst);
        FREES.fetch_add(frees, Ordering::SeqCst);
    }
}

// SAFETY: every call goes to the system's allocator unchanged, and counting neither allocates nor
// panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(0, 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}
