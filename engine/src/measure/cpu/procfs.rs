//! Readers of `/proc/stat` and of the `stat` files of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Clock ticks of one CPU by kind, as `/proc/stat` counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    /// Without niced processes.
    user: u64,
    nice: u64,
    pub(super) system: u64,
    pub(super) irq: u64,
    pub(super) softirq: u64,
    pub(super) steal: u64,
}

impl Ticks {
    /// User time, niced or not. Guests' time is in it.
    pub(super) fn user(&self) -> u64 {
        self.user + self.nice
    }

    /// From the fields behind a `cpuN`: user nice system idle iowait irq softirq steal ...
    fn parse<'a>(fields: impl Iterator<Item = &'a str>) -> Option<Ticks> {
        let mut numbers = [0; 8];
        let mut found = 0;
        for (number, field) in numbers.iter_mut().zip(fields) {
            *number = field.parse().ok()?;
            found += 1;
        }
        let [user, nice, system, _idle, _iowait, irq, softirq, steal] = numbers;
        (found >= 7).then_some(Ticks {
            user,
            nice,
            system,
            irq,
            softirq,
            steal,
        })
    }

    fn since(&self, earlier: &Ticks) -> Ticks {
        Ticks {
            user: self.user.saturating_sub(earlier.user),
            nice: self.nice.saturating_sub(earlier.nice),
            system: self.system.saturating_sub(earlier.system),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }
}

/// Ticks of a process or thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TaskTicks {
    user: u64,
    system: u64,
}

impl TaskTicks {
    /// From a `stat` file. The name in parentheses may itself hold spaces and parentheses.
    fn parse(stat: &str) -> Option<TaskTicks> {
        let (_, fields) = stat.rsplit_once(')')?;
        // The state is field 3; user and system time are 14 and 15.
        let mut fields = fields.split_ascii_whitespace().skip(11);
        let user = fields.next()?.parse().ok()?;
        let system = fields.next()?.parse().ok()?;
        Some(TaskTicks { user, system })
    }

    fn since(&self, earlier: &TaskTicks) -> TaskTicks {
        TaskTicks {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Everything that is read at once; as it stands, or over a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Per CPU that is online.
    pub(super) cpus: BTreeMap<u32, Ticks>,
    /// Ticks of each kernel thread that processes packets, by process number. Empty where none
    /// is to be seen, as in a container.
    pub(super) threads: BTreeMap<u32, u64>,
    /// This process, with its threads that have ended.
    own: Option<TaskTicks>,
}

impl Totals {
    /// What was added since. A CPU or thread that was not there then is left out: how much of its
    /// count is of this time is not known.
    pub(super) fn since(&self, earlier: &Totals) -> Totals {
        let cpus = self.cpus.iter().filter_map(|(cpu, now)| {
            earlier
                .cpus
                .get(cpu)
                .map(|before| (*cpu, now.since(before)))
        });
        let threads = self.threads.iter().filter_map(|(thread, now)| {
            earlier
                .threads
                .get(thread)
                .map(|before| (*thread, now.saturating_sub(*before)))
        });
        Totals {
            cpus: cpus.collect(),
            threads: threads.collect(),
            own: self
                .own
                .zip(earlier.own)
                .map(|(now, before)| now.since(&before)),
        }
    }

    /// Time of processes that are neither this one nor kernel threads that process packets, the
    /// idle baseline's included. An estimate from below: on kernels that sample, the system time
    /// of a process holds the interrupts that hit it, so more is taken off than was ours.
    pub(super) fn foreign_ticks(&self) -> Option<u64> {
        let own = self.own?;
        let user: u64 = self.cpus.values().map(Ticks::user).sum();
        let system: u64 = self.cpus.values().map(|ticks| ticks.system).sum();
        let threads: u64 = self.threads.values().sum();
        let system = system.saturating_sub(own.system).saturating_sub(threads);
        Some(user.saturating_sub(own.user) + system)
    }
}

/// Which files to read.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    stat: PathBuf,
    /// The `stat` of this process: it sums over threads, also over those that have ended, which
    /// those below `task` do not.
    own: PathBuf,
    threads: Vec<(u32, PathBuf)>,
    tickless: BTreeSet<u32>,
    ticks_per_second: f64,
}

impl Sources {
    /// Looks below a root path.
    pub(super) fn find(root: &Path) -> Sources {
        let proc = root.join("proc");
        let tickless = root.join("sys/devices/system/cpu/nohz_full");
        Sources {
            stat: proc.join("stat"),
            own: proc.join("self/stat"),
            threads: packet_threads(&proc),
            tickless: fs::read_to_string(tickless).map_or_else(|_| BTreeSet::new(), |t| cpus(&t)),
            ticks_per_second: ticks_per_second(),
        }
    }

    /// The file without which there is nothing to say.
    pub(super) fn stat_path(&self) -> &Path {
        &self.stat
    }

    /// CPUs with context tracking in force (`nohz_full`). There the kernel takes CPU time at each
    /// entry and exit; on others, whatever it was built with, it samples.
    pub(super) fn tickless(&self) -> &BTreeSet<u32> {
        &self.tickless
    }

    /// Ticks per second of the times in `/proc`.
    pub(super) fn ticks_per_second(&self) -> f64 {
        self.ticks_per_second
    }

    /// Reads all; none where `/proc/stat` says nothing.
    pub(super) fn read(&self) -> Option<Totals> {
        let cpus = per_cpu(&fs::read_to_string(&self.stat).ok()?);
        let task = |path: &Path| TaskTicks::parse(&fs::read_to_string(path).ok()?);
        let threads = self
            .threads
            .iter()
            .filter_map(|(pid, path)| task(path).map(|ticks| (*pid, ticks.user + ticks.system)));
        let own = task(&self.own);
        let threads = threads.collect();
        (!cpus.is_empty()).then_some(Totals { cpus, threads, own })
    }
}

/// The lines `cpuN` of `/proc/stat`.
fn per_cpu(stat: &str) -> BTreeMap<u32, Ticks> {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let cpu = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
        Some((cpu, Ticks::parse(fields)?))
    };
    stat.lines().filter_map(line).collect()
}

/// Kernel threads that process packets: ksoftirqd/N, and napi/DEVICE-N of threaded NAPI.
fn packet_threads(proc: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(proc) else {
        return Vec::new();
    };
    let thread = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = entry.path().join("stat");
        let text = fs::read_to_string(&stat).ok()?;
        let name = text.split_once('(')?.1.rsplit_once(')')?.0;
        let named = name.starts_with("ksoftirqd/") || name.starts_with("napi/");
        (named && parent(&text)? == KTHREADD).then_some((pid, stat))
    };
    let mut threads: Vec<_> = entries.filter_map(Result::ok).filter_map(thread).collect();
    threads.sort();
    threads
}

/// The parent of all kernel threads.
const KTHREADD: u32 = 2;

fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// A list such as `1-3,8`; `(null)` where the kernel could have one and has none.
fn cpus(list: &str) -> BTreeSet<u32> {
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend(first..=last.min(first.saturating_add(65_535)));
        }
    }
    cpus
}

fn ticks_per_second() -> f64 {
    use nix::unistd::{SysconfVar, sysconf};
    // 100 on every architecture that is supported; the C library only passes it on.
    sysconf(SysconfVar::CLK_TCK)
        .ok()
        .flatten()
        .map_or(100.0, |ticks| ticks as f64)
}
