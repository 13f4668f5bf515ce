//! The two clocks: one to measure by, one to tell the time of day.

use std::io;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("CLOCK_MONOTONIC and CLOCK_REALTIME always exist");
    (now.tv_sec() as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec() as u64)
}

/// CLOCK_MONOTONIC, nanoseconds. Every interval is measured by it.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME, nanoseconds since 1970. For time stamps that leave this host, and to compare
/// with the kernel's receive time stamps.
pub fn realtime_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

/// Sleeps until CLOCK_MONOTONIC shows `until_ns`; returns at once where it is past.
///
/// # Errors
/// Those of clock_nanosleep(2). Signals do not end the sleep.
pub fn sleep_until(until_ns: u64) -> io::Result<()> {
    let (seconds, rest) = (until_ns / 1_000_000_000, until_ns % 1_000_000_000);
    let at = TimeSpec::new(seconds as libc::time_t, rest as libc::c_long);
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    loop {
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &at) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_until_the_instant_and_not_past_it_by_much() {
        let start = monotonic_ns();
        sleep_until(start + 20_000_000).unwrap();
        let slept = monotonic_ns() - start;
        assert!((20_000_000..2_000_000_000).contains(&slept), "{slept} ns");
        sleep_until(start).unwrap();
    }

    #[test]
    fn realtime_is_this_century() {
        assert!(realtime_ns() > 1_600_000_000_000_000_000);
    }
}
