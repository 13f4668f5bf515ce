//! The probes of one side: loaded once, read every interval.

use std::os::fd::BorrowedFd;
use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use aya::maps::MapError;
use aya::sys::SyscallError;
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};
use ringperf_ebpf::layout::{self, Stamp};
use ringperf_ebpf::programs::{SLOW_PATH, STAGES};

use super::attach::attach;
use super::error::causes;
use super::maps::{FlowTag, Maps, Place};
use super::meter::Meter;
use super::report;
use super::snapshot::Snapshot;
use super::{KernelError, Names};
use crate::record::{
    CostReport, CounterReport, Finding, KernelReport, Severity, Unavailable, UnavailableStatus,
};
use crate::sys::shared::SharedWords;

/// Which programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProbeSet {
    /// Those that run when something goes wrong.
    #[default]
    SlowPath,
    /// Those that run for every packet: the figures taken meanwhile are those of a probed run.
    Stages {
        /// Records, two for each flow; 0 keeps histograms instead.
        records: u32,
    },
}

/// The stages as histograms.
const HISTOGRAMS: ProbeSet = ProbeSet::Stages { records: 0 };

/// The memory that the stage programs write.
#[derive(Debug)]
pub struct Stamped {
    /// Records of the flows.
    pub records: SharedWords,
    /// Workers.
    pub workers: SharedWords,
    /// Stamps of the attached programs.
    pub known: Vec<Stamp>,
}

/// What to load.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeRequest {
    /// Which programs.
    pub set: ProbeSet,
    /// Have the kernel count the programs' own time. It reads the clock twice for each run of
    /// each program on the whole system, and needs CAP_SYS_ADMIN.
    pub cost: bool,
    /// A tracepoint that is left alone, to see what is lost without it.
    pub without: Option<String>,
}

/// What is loaded. Dropping it detaches everything; a killed process leaves nothing either.
pub struct Probes {
    loaded: Option<Loaded>,
    /// How many flows could not be marked, and the first reason.
    unwatched: Option<(u32, String)>,
    attached: Vec<String>,
    /// Stamps of the attached programs.
    stamps: Vec<Stamp>,
    set: ProbeSet,
    unavailable: Vec<Unavailable>,
    /// Counting of the programs' time; none where it was not asked for.
    meter: Option<Meter>,
    last: Snapshot,
}

/// The object's maps and programs in the kernel.
struct Loaded {
    maps: Maps,
    /// Holds the programs and their links.
    ebpf: Ebpf,
}

impl Probes {
    /// Loads the object and attaches each probe by itself. Never fails: what is
    /// not there is in [`Probes::unavailable`]. The calling thread's network namespace is
    /// followed.
    pub fn load(request: ProbeRequest) -> Probes {
        let mut probes = Probes {
            loaded: None,
            unwatched: None,
            attached: Vec::new(),
            stamps: Vec::new(),
            set: request.set,
            unavailable: Vec::new(),
            meter: None,
            last: Snapshot::default(),
        };
        match load_object(request.set) {
            Ok((btf, loaded)) => probes.attach_all(btf, loaded, request.without.as_deref()),
            Err(unavailable) => probes.unavailable.push(unavailable),
        }
        if request.cost && probes.loaded.is_some() {
            probes.meter = Some(Meter::new());
        }
        if let Err(e) = probes.follow_this_namespace() {
            log::warn!("packets without a socket are not followed: {e}");
        }
        probes
    }

    fn attach_all(&mut self, btf: &Btf, mut loaded: Loaded, without: Option<&str>) {
        let wanted = match self.set {
            ProbeSet::SlowPath => SLOW_PATH,
            ProbeSet::Stages { .. } => STAGES,
        };
        for probe in wanted.iter().filter(|p| Some(p.tracepoint) != without) {
            match attach(&mut loaded.ebpf, btf, probe) {
                Ok(program) => {
                    self.attached.push(program);
                    self.stamps.extend(probe.stamps);
                }
                Err(unavailable) => self.unavailable.push(unavailable),
            }
        }
        if !self.attached.is_empty() {
            self.loaded = Some(loaded);
        }
    }

    /// Programs that are attached.
    pub fn attached(&self) -> &[String] {
        &self.attached
    }

    /// What is not there, and why.
    pub fn unavailable(&self) -> &[Unavailable] {
        &self.unavailable
    }

    /// Follows a socket as one of a flow, until it is closed. What a listener accepts from now on
    /// belongs to the same flow. Its port, where it is bound, is ours in the followed namespaces.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses; without any probe attached there is nothing to do.
    pub fn follow(&mut self, socket: BorrowedFd<'_>, tag: FlowTag) -> Result<(), KernelError> {
        self.mark(|maps| maps.follow(socket, tag))
    }

    /// Gives a socket, and what a listener accepts from now on, a place for its stamps, until it
    /// is closed.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses; without any probe attached there is nothing to do.
    pub fn place(&mut self, socket: BorrowedFd<'_>, place: Place) -> Result<(), KernelError> {
        self.mark(|maps| maps.place(socket, place))
    }

    /// Marks a flow, and keeps in mind where it is not watched.
    fn mark(
        &mut self,
        how: impl FnOnce(&mut Maps) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let Some(loaded) = self.loaded.as_mut() else {
            return Ok(());
        };
        let result = how(&mut loaded.maps);
        if let Err(error) = &result {
            let (count, _) = self.unwatched.get_or_insert_with(|| (0, error.to_string()));
            *count += 1;
        }
        result
    }

    /// The flows that are not watched although programs are attached: what was counted is not of
    /// all flows.
    pub fn unwatched(&self) -> Option<Finding> {
        let (count, reason) = self.unwatched.as_ref()?;
        let text = format!(
            "{count} flows are not watched by the probes, and what they count lacks them: {reason}"
        );
        Some(Finding::new(Severity::Warning, "flows-unwatched", text))
    }

    /// Follows a thread as the worker of this number: when it could run and when it did. False
    /// where another followed thread has the same low bits in its number.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn follow_thread(&mut self, thread: u32, worker: u32) -> Result<bool, KernelError> {
        self.loaded
            .as_mut()
            .map_or(Ok(true), |loaded| loaded.maps.follow_thread(thread, worker))
    }

    /// The records and workers, mapped into this process; none without records.
    ///
    /// # Errors
    ///
    /// Where they cannot be mapped.
    pub fn stamps(&self) -> Result<Option<Stamped>, KernelError> {
        let (ProbeSet::Stages { records }, Some(loaded)) = (self.set, self.loaded.as_ref()) else {
            return Ok(None);
        };
        if records == 0 {
            return Ok(None);
        }
        let records = records as usize * layout::RECORD_WORDS;
        let workers = layout::WORKERS_MAX as usize * layout::WORKER_WORDS;
        let maps = &loaded.maps;
        Ok(Some(Stamped {
            records: SharedWords::of(maps.records.fd(), records).map_err(KernelError::Mapping)?,
            workers: SharedWords::of(maps.workers.fd(), workers).map_err(KernelError::Mapping)?,
            known: self.stamps.clone(),
        }))
    }

    /// Follows a port: packets from or to it that have no socket (yet) are ours.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn follow_port(&mut self, port: u16) -> Result<(), KernelError> {
        self.loaded
            .as_mut()
            .map_or(Ok(()), |loaded| loaded.maps.follow_port(port))
    }

    /// Follows the calling thread's network namespace: the followed ports are ours in it.
    ///
    /// # Errors
    ///
    /// Where it is not known, or the kernel refuses.
    pub fn follow_this_namespace(&mut self) -> Result<(), KernelError> {
        let Some(loaded) = self.loaded.as_mut() else {
            return Ok(());
        };
        let inode = std::fs::metadata("/proc/thread-self/ns/net")
            .map_err(KernelError::Namespace)?
            .st_ino();
        loaded.maps.follow_namespace(inode as u32)
    }

    /// What was counted since the load.
    ///
    /// # Errors
    ///
    /// Where a map cannot be read.
    pub fn read(&self) -> Result<Snapshot, KernelError> {
        let Some(loaded) = self.loaded.as_ref() else {
            return Ok(Snapshot::default());
        };
        Snapshot::read(&loaded.maps, self.set == HISTOGRAMS)
    }

    /// What was counted since the last call (the first time: since the load).
    ///
    /// # Errors
    ///
    /// Where a map cannot be read; the next call then covers the gap.
    pub fn snapshot(&mut self) -> Result<Snapshot, KernelError> {
        let now = self.read()?;
        let delta = now.since(&self.last);
        self.last = now;
        Ok(delta)
    }

    /// The report of a window from its intervals, with the names of the running kernel. Reads
    /// /proc/kallsyms and the kernel's type information: not for within a window.
    pub fn report(
        &mut self,
        intervals: &[Snapshot],
        counters: Vec<CounterReport>,
    ) -> KernelReport {
        let root = Path::new("/");
        let mut report = report::report(root, names(), intervals);
        report.attached.clone_from(&self.attached);
        report.unavailable.clone_from(&self.unavailable);
        report.listen_drops = report::listen_drops(&counters);
        report.counters = counters;
        report.cost = self.cost();
        report
    }

    /// Adds to a report what the stage programs say of one side's part of the window.
    pub fn add_stages(&self, report: &mut KernelReport, intervals: &[Snapshot], server: bool) {
        report::add_stages(report, intervals, server);
        report.attached.extend(self.attached.iter().cloned());
        report.unavailable.extend(self.unavailable.iter().cloned());
        if let Some(more) = self.cost() {
            let cost = report.cost.get_or_insert_default();
            cost.time_ns_per_s += more.time_ns_per_s;
            cost.programs.extend(more.programs);
            cost.missing = cost.missing.take().or(more.missing);
        }
    }

    /// Begins to count the programs' time anew.
    pub fn meter_begin(&mut self) {
        if let (Some(meter), Some(loaded)) = (&mut self.meter, &self.loaded) {
            meter.begin(&loaded.ebpf, &self.attached);
        }
    }

    /// Ends the counting of the programs' time, which costs as much as a program.
    pub fn meter_end(&mut self) {
        if let (Some(meter), Some(loaded)) = (&mut self.meter, &self.loaded) {
            meter.end(&loaded.ebpf, &self.attached);
        }
    }

    fn cost(&self) -> Option<CostReport> {
        self.meter.as_ref().map(Meter::report)
    }
}

/// The running kernel's type information. Megabytes are read and sorted for it, and it stays as it
/// is while the kernel runs: once is enough, however many samples there are.
fn kernel_types() -> Result<&'static Btf, BtfError> {
    static TYPES: OnceLock<Btf> = OnceLock::new();
    match TYPES.get() {
        Some(types) => Ok(types),
        None => Btf::from_sys_fs().map(|types| TYPES.get_or_init(|| types)),
    }
}

/// The names of the running kernel, read once.
fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| Names::read(Path::new("/")))
}

/// Loads the object's maps, or says why not.
fn load_object(set: ProbeSet) -> Result<(&'static Btf, Loaded), Unavailable> {
    let btf = kernel_types().map_err(|e| Unavailable {
        program: "all".to_string(),
        status: UnavailableStatus::NotSupported {
            since: "5.4 with CONFIG_DEBUG_INFO_BTF".into(),
        },
        text: format!("the kernel's type information cannot be read: {e}"),
    })?;
    let mut loader = EbpfLoader::new();
    let histograms = u32::from(set == HISTOGRAMS);
    loader.override_global(layout::GLOBAL_HISTOGRAMS, &histograms, true);
    if histograms == 0 {
        // They are megabytes on every CPU of a big host.
        loader.map_max_entries(layout::MAP_STAGES, 1);
    }
    if let ProbeSet::Stages {
        records: records @ 1..,
    } = set
    {
        loader.map_max_entries(layout::MAP_RECORDS, records);
    }
    let mut ebpf = loader
        .btf(Some(btf))
        .verifier_log_level(VerifierLogLevel::VERBOSE | VerifierLogLevel::STATS)
        .load(ringperf_ebpf::OBJECT)
        .map_err(|e| object_unavailable(&e))?;
    let maps = Maps::take(&mut ebpf).map_err(|e| Unavailable {
        program: "all".to_string(),
        status: UnavailableStatus::Failed,
        text: e.to_string(),
    })?;
    Ok((btf, Loaded { maps, ebpf }))
}

fn object_unavailable(error: &EbpfError) -> Unavailable {
    let (status, text) = if refused(error) {
        (
            UnavailableStatus::NotPermitted,
            "the kernel refused to create the probes' maps: give the process CAP_BPF and \
             CAP_PERFMON"
                .to_string(),
        )
    } else {
        (UnavailableStatus::Failed, causes(error))
    };
    Unavailable {
        program: "all".to_string(),
        status,
        text,
    }
}

/// Whether the kernel said no for want of a privilege.
fn refused(error: &EbpfError) -> bool {
    let io_error = match error {
        EbpfError::MapError(MapError::CreateError { io_error, .. }) => io_error,
        EbpfError::MapError(MapError::SyscallError(SyscallError { io_error, .. })) => io_error,
        EbpfError::BtfError(BtfError::LoadError { io_error, .. }) => io_error,
        _ => return false,
    };
    matches!(io_error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}
