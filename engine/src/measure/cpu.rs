//! CPU of the test: what the machine used over the window beyond what it uses when idle.
//!
//! Everything is read from below a root path, so that canned trees test it. Times in `/proc` are
//! in clock ticks of 10 ms; on most kernels they are sampled, too, which is why a short window
//! has no figure.

mod procfs;

use std::path::Path;
use std::time::Instant;

use crate::record::{CpuReport, side::CpuTime};
use procfs::{Sources, Ticks, Totals};

/// Fewest ticks of a window that has figures.
const FEWEST_TICKS: f64 = 100.0;

/// A CPU busy for less than this part of the window does not decide the method.
const IDLE_SHARE: f64 = 0.01;

/// Watches the machine's CPUs over one sample.
///
/// ```text
/// new   baseline ... baseline_end   begin ... end
///       about a second of idleness  the window
/// ```
#[derive(Debug, Clone)]
pub struct CpuMonitor {
    sources: Sources,
    baseline_begun: Option<Reading>,
    baseline: Option<Delta>,
    begun: Option<Reading>,
    spinning: bool,
}

/// Totals at an instant.
#[derive(Debug, Clone)]
struct Reading {
    at: Instant,
    totals: Totals,
}

/// What was counted over a time.
#[derive(Debug, Clone)]
struct Delta {
    seconds: f64,
    totals: Totals,
}

impl CpuMonitor {
    /// Finds out what there is to read below `root` (`/`, but for tests). Kernel threads that
    /// process packets are looked for now and only now.
    pub fn new(root: &Path) -> CpuMonitor {
        CpuMonitor {
            sources: Sources::find(root),
            baseline_begun: None,
            baseline: None,
            begun: None,
            spinning: false,
        }
    }

    /// Says that a worker spins, so that busy time says nothing about need.
    pub fn set_spinning(&mut self, spinning: bool) {
        self.spinning = spinning;
    }

    /// The idle baseline begins. Without one, nothing is taken off the figures.
    pub fn baseline(&mut self) {
        self.baseline_begun = self.reading();
    }

    /// The idle baseline ends, about a second after it began.
    pub fn baseline_end(&mut self) {
        let begun = self.baseline_begun.take();
        self.baseline = begun
            .zip(self.reading())
            .map(|(begun, ended)| ended.since(&begun));
    }

    /// The window begins.
    pub fn begin(&mut self) {
        self.begun = self.reading();
    }

    /// The window ends. The workers' own times are the caller's to add.
    pub fn end(&mut self) -> CpuReport {
        let begun = self.begun.take();
        let window = begun
            .zip(self.reading())
            .map(|(begun, ended)| ended.since(&begun));
        match window {
            Some(window) => self.report(&window),
            None => CpuReport {
                method: "tick".to_string(),
                missing: Some(format!(
                    "{} could not be read at both ends of the window",
                    self.sources.stat_path().display()
                )),
                spinning: self.spinning,
                ..CpuReport::default()
            },
        }
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading {
            at: Instant::now(),
            totals: self.sources.read()?,
        })
    }

    fn report(&self, window: &Delta) -> CpuReport {
        let hz = self.sources.ticks_per_second();
        let mut report = CpuReport {
            method: "tick".to_string(),
            window_s: window.seconds,
            spinning: self.spinning,
            ..CpuReport::default()
        };
        let ticks = window.seconds * hz;
        if ticks.round() < FEWEST_TICKS {
            report.missing = Some(format!(
                "the window of {:.2} s has {ticks:.0} clock ticks of CPU accounting; \
                 {FEWEST_TICKS:.0} are needed",
                window.seconds
            ));
            return report;
        }
        let idle = self.baseline.as_ref().filter(|idle| idle.seconds > 0.0);
        let net = Net { window, idle, hz };
        report.cpus = window
            .totals
            .cpus
            .iter()
            .map(|(&cpu, ticks)| net.cpu(cpu, ticks))
            .collect();
        if self.is_precise(&report.cpus, window.seconds) {
            report.method = "precise".to_string();
        }
        let [user, system, softirq, irq] = [
            net.machine(Ticks::user),
            net.machine(|t| t.system),
            net.machine(|t| t.softirq),
            net.machine(|t| t.irq),
        ];
        report.total_s = Some(user + system + softirq + irq);
        report.user_s = Some(user);
        report.system_s = Some(system);
        report.softirq_s = Some(softirq);
        report.irq_s = Some(irq);
        report.steal_s = Some(net.machine(|t| t.steal));
        report.softirq_threads_s = net.threads();
        report.foreign_s = window.totals.foreign_ticks().map(|ticks| ticks as f64 / hz);
        report
    }

    /// Whether the CPUs that did the work account by context tracking rather than by sampling.
    fn is_precise(&self, cpus: &[CpuTime], seconds: f64) -> bool {
        let busy = |cpu: &&CpuTime| {
            cpu.user_s + cpu.system_s + cpu.softirq_s + cpu.irq_s > IDLE_SHARE * seconds
        };
        !self.sources.tickless().is_empty()
            && cpus
                .iter()
                .filter(busy)
                .all(|cpu| self.sources.tickless().contains(&cpu.cpu))
    }
}

impl Reading {
    fn since(&self, earlier: &Reading) -> Delta {
        Delta {
            seconds: self.at.duration_since(earlier.at).as_secs_f64(),
            totals: self.totals.since(&earlier.totals),
        }
    }
}

/// A window less its share of the idle baseline.
struct Net<'a> {
    window: &'a Delta,
    idle: Option<&'a Delta>,
    hz: f64,
}

impl Net<'_> {
    /// Seconds of `busy` ticks less what the idle machine, which had `idle` ticks in the whole
    /// baseline, has in as long. Noise of a tick must not become a negative time.
    fn seconds(&self, busy: u64, idle: u64) -> f64 {
        let scale = self
            .idle
            .map_or(0.0, |delta| self.window.seconds / delta.seconds);
        (busy as f64 - idle as f64 * scale).max(0.0) / self.hz
    }

    fn cpu(&self, cpu: u32, busy: &Ticks) -> CpuTime {
        let idle = self
            .idle
            .and_then(|delta| delta.totals.cpus.get(&cpu))
            .copied();
        let idle = idle.unwrap_or_default();
        CpuTime {
            cpu,
            user_s: self.seconds(busy.user(), idle.user()),
            system_s: self.seconds(busy.system, idle.system),
            softirq_s: self.seconds(busy.softirq, idle.softirq),
            irq_s: self.seconds(busy.irq, idle.irq),
            steal_s: self.seconds(busy.steal, idle.steal),
        }
    }

    /// Of the whole machine. Taken from the sums: per CPU the noise of the baseline would be cut
    /// off at zero on each, and on many CPUs that adds up.
    fn machine(&self, field: impl Fn(&Ticks) -> u64) -> f64 {
        let sum = |delta: &Delta| delta.totals.cpus.values().map(&field).sum();
        self.seconds(sum(self.window), self.idle.map_or(0, sum))
    }

    /// Of kernel threads that process packets, where they can be seen.
    fn threads(&self) -> Option<f64> {
        let sum = |delta: &Delta| delta.totals.threads.values().sum();
        let seen = !self.window.totals.threads.is_empty();
        seen.then(|| self.seconds(sum(self.window), self.idle.map_or(0, sum)))
    }
}

#[cfg(test)]
mod tests;
