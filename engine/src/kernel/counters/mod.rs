//! The kernel's own counters around a window: read before, read after, and what moved.
//!
//! Those of /proc/thread-self/net and the queueing disciplines belong to the network namespace of
//! the calling thread, so a reading and its successor must be made by threads of one namespace.
//! Those of /sys/class/net belong to the namespace in which /sys was mounted: `ip netns exec` and
//! container runtimes mount it anew, a bare setns does not.

mod nic;
mod proc;
mod qdisc;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use nix::sys::socket::{SockaddrStorage, getsockname};

use crate::record::CounterReport;
use crate::sys::socket::memory_info;

/// Prefix of the source of a listener's counter.
pub(super) const LISTENER: &str = "listener.";

/// A counter at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Value {
    /// Per CPU where the kernel tells, else one value.
    values: Vec<u64>,
    /// Whether `values` are those of CPUs.
    per_cpu: bool,
    /// Whether the kernel's counter wraps at 32 bits.
    narrow: bool,
}

/// Every counter at one moment, by source and name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    counters: BTreeMap<(String, String), Value>,
}

impl Reading {
    /// Reads the files below `root`; those that this kernel does not have are left out.
    pub fn of(root: &Path) -> Reading {
        let mut reading = Reading::default();
        proc::read(root, &mut reading);
        nic::read(root, &mut reading);
        reading
    }

    /// Reads the running host's files, and its queueing disciplines by netlink.
    pub fn of_this_host() -> Reading {
        let mut reading = Reading::of(Path::new("/"));
        if let Err(reason) = qdisc::read(&mut reading) {
            log::info!("queueing disciplines are not counted: {reason}");
        }
        reading
    }

    /// Adds what a listener dropped: its queue was full or a handshake went wrong. The kernel says
    /// nothing of a SYN that it ignores but in this count of the socket and, for the whole
    /// namespace, in ListenDrops.
    ///
    /// # Errors
    ///
    /// Where the socket is none, or the kernel is older than 4.12.
    pub fn add_listener(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let drops = memory_info(listener)?.drops;
        let address = getsockname::<SockaddrStorage>(listener.as_raw_fd())?;
        let source = format!("{LISTENER}{address}");
        let value = Value {
            values: vec![u64::from(drops)],
            per_cpu: false,
            narrow: true,
        };
        self.counters.insert((source, "drops".to_string()), value);
        Ok(())
    }

    /// What moved from `self` to `later`, in order of source and name. A counter that only one of
    /// the two has (a device that came or went) is left out.
    pub fn moved(&self, later: &Reading) -> Vec<CounterReport> {
        let pairs = later.counters.iter().filter_map(|(key, after)| {
            let before = self.counters.get(key)?;
            let deltas = deltas(before, after)?;
            deltas
                .iter()
                .any(|delta| *delta != 0)
                .then(|| CounterReport {
                    source: key.0.clone(),
                    name: key.1.clone(),
                    delta: deltas.iter().sum(),
                    per_cpu: if after.per_cpu { deltas } else { Vec::new() },
                })
        });
        pairs.collect()
    }

    /// Adds a counter with one value.
    fn put(&mut self, source: &str, name: &str, value: u64) {
        let value = Value {
            values: vec![value],
            per_cpu: false,
            narrow: false,
        };
        self.counters
            .insert((source.to_string(), name.to_string()), value);
    }

    /// Adds one CPU's value to a counter of 32 bits on each CPU.
    fn put_cpu(&mut self, source: &str, name: &str, value: u64) {
        let key = (source.to_string(), name.to_string());
        let empty = || Value {
            values: Vec::new(),
            per_cpu: true,
            narrow: true,
        };
        self.counters
            .entry(key)
            .or_insert_with(empty)
            .values
            .push(value);
    }
}

/// How far each value moved; none where the number of CPUs changed in between.
fn deltas(before: &Value, after: &Value) -> Option<Vec<i64>> {
    if before.values.len() != after.values.len() {
        return None;
    }
    let pairs = before.values.iter().zip(&after.values);
    Some(
        pairs
            .map(|(from, to)| distance(*from, *to, after.narrow))
            .collect(),
    )
}

/// Gauges may fall; a counter of 32 bits that fell has wrapped.
fn distance(from: u64, to: u64, narrow: bool) -> i64 {
    if narrow && to < from {
        return i64::from((to as u32).wrapping_sub(from as u32));
    }
    to.wrapping_sub(from) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moved_is_told() {
        let mut before = Reading::default();
        let mut after = Reading::default();
        for (reading, n) in [(&mut before, 10), (&mut after, 4)] {
            reading.put("snmp.Tcp", "CurrEstab", n);
            reading.put("snmp.Tcp", "ActiveOpens", 7);
            reading.put_cpu("softnet", "dropped", u64::from(u32::MAX) - n);
            reading.put_cpu("softnet", "dropped", 3);
        }
        after.put("nic.eth9", "rx_bytes", 1);
        let moved = before.moved(&after);
        assert_eq!(moved.len(), 2, "{moved:?}");
        assert_eq!((moved[0].name.as_str(), moved[0].delta), ("CurrEstab", -6));
        assert_eq!(
            (moved[1].delta, moved[1].per_cpu.as_slice()),
            (6, [6, 0].as_slice())
        );
    }

    #[test]
    fn narrow_counters_wrap() {
        assert_eq!(distance(u64::from(u32::MAX), 4, true), 5);
        assert_eq!(distance(9, 4, false), -5);
        assert_eq!(distance(u64::MAX, 4, false), 5);
    }

    #[test]
    fn a_host_without_files_has_no_counters() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Reading::of(directory.path()), Reading::default());
    }
}
