//! What the programs cost, by the kernel's own count.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use aya::Ebpf;
use aya::programs::Program;
use aya::sys::{Stats, SyscallError, enable_stats};

use super::report;
use crate::record::CostReport;

/// Runs and nanoseconds by program.
type Used = BTreeMap<String, (u64, u64)>;

/// Counts while it is on: the kernel then reads the clock twice for each run of each program on
/// the whole system.
pub(super) struct Meter {
    /// On while this is open.
    stats: Option<OwnedFd>,
    missing: Option<String>,
    since: Option<(Instant, Used)>,
    used: Used,
    counted_ns: u64,
}

impl Meter {
    /// Counting, or knowing why not.
    pub(super) fn new() -> Meter {
        let stats = enable_stats(Stats::RunTime);
        let missing = stats.as_ref().err().map(missing);
        Meter {
            stats: stats.ok(),
            missing,
            since: None,
            used: Used::new(),
            counted_ns: 0,
        }
    }

    /// What comes counts, and what was does not.
    pub(super) fn begin(&mut self, ebpf: &Ebpf, attached: &[String]) {
        if self.stats.is_some() {
            self.since = Some((Instant::now(), used(ebpf, attached)));
        }
    }

    /// Ends the counting.
    pub(super) fn end(&mut self, ebpf: &Ebpf, attached: &[String]) {
        let Some((since, before)) = self.since.take() else {
            return;
        };
        self.counted_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.used = used(ebpf, attached);
        for (program, (runs, time)) in &mut self.used {
            let (runs_before, time_before) = before.get(program).unwrap_or(&(0, 0));
            *runs = runs.saturating_sub(*runs_before);
            *time = time.saturating_sub(*time_before);
        }
        self.stats = None;
    }

    pub(super) fn report(&self) -> CostReport {
        report::cost(&self.used, self.counted_ns, self.missing.clone())
    }
}

fn missing(error: &SyscallError) -> String {
    match error.io_error.raw_os_error() {
        Some(libc::EPERM) => "counting the programs' time needs CAP_SYS_ADMIN".to_string(),
        _ => format!("the kernel does not count the programs' time (Linux 5.8 can): {error}"),
    }
}

/// Runs and nanoseconds of each attached program so far.
fn used(ebpf: &Ebpf, attached: &[String]) -> Used {
    let mut used = Used::new();
    for name in attached {
        let Some(Program::BtfTracePoint(program)) = ebpf.program(name) else {
            continue;
        };
        match program.info() {
            Ok(info) => {
                let time = u64::try_from(info.run_time().as_nanos()).unwrap_or(u64::MAX);
                used.insert(name.clone(), (info.run_count(), time));
            }
            Err(e) => log::debug!("no cost of {name}: {e}"),
        }
    }
    used
}
