//! CPU time of a thread.

use std::io;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// What a thread used since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadUsage {
    /// Time in user space, microseconds.
    pub user_us: u64,
    /// Time in the kernel on its behalf, microseconds.
    pub system_us: u64,
    /// Times that it gave the CPU up to wait.
    pub voluntary_switches: u64,
    /// Times that it was made to give the CPU up.
    pub involuntary_switches: u64,
}

/// What the calling thread used (RUSAGE_THREAD).
///
/// # Errors
/// None in practice.
pub fn thread_usage() -> io::Result<ThreadUsage> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    Ok(ThreadUsage {
        user_us: usage.user_time().num_microseconds() as u64,
        system_us: usage.system_time().num_microseconds() as u64,
        voluntary_switches: usage.voluntary_context_switches() as u64,
        involuntary_switches: usage.involuntary_context_switches() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::{monotonic_ns, sleep_until};

    #[test]
    fn working_and_sleeping_show() {
        std::thread::spawn(|| {
            let start = thread_usage().unwrap();
            let total = |usage: ThreadUsage| usage.user_us + usage.system_us;
            while total(thread_usage().unwrap()) < total(start) + 20_000 {}
            let worked = thread_usage().unwrap();
            sleep_until(monotonic_ns() + 10_000_000).unwrap();
            let slept = thread_usage().unwrap();
            assert!(slept.voluntary_switches > worked.voluntary_switches);
            assert!(
                total(slept) < total(worked) + 10_000,
                "{worked:?} {slept:?}"
            );
        })
        .join()
        .unwrap();
    }
}
