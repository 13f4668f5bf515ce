//! What the standard descriptors were before anything of Rust ran.
//!
//! Rust opens `/dev/null` in the place of a closed descriptor before `main`, so that no socket
//! takes its number. What is written there is lost without an error.

#![expect(
    unsafe_code,
    reason = "a descriptor as it was before main is seen by nothing but the C library's own calls"
)]

use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when this process began (`>&-`).
pub fn output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look() {
    // SAFETY: F_GETFD takes a number and reads no memory; a closed one is an error.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    OUTPUT_WAS_CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions that the C library calls before `main`; `look`
// is one, takes no arguments, and needs nothing of Rust's runtime.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;
