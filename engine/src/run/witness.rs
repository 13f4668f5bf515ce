//! The kernel's testimony of one sample on one side: probes and counters around the window.

use std::os::fd::BorrowedFd;

use crate::control::crew::FlowKey;
use crate::control::wire::Refusal;
use crate::kernel::counters::Reading;
use crate::kernel::{FlowTag, ProbeRequest, Probes, Snapshot};
use crate::plan::ProbeUse;
use crate::record::KernelReport;

/// Probes that follow a crew's flows.
pub(super) struct Witness {
    probes: Probes,
    before: Option<Reading>,
    intervals: Vec<Snapshot>,
    report: Option<KernelReport>,
}

impl Witness {
    /// Loads what the plan asks for; none where it asks for nothing. Without the privilege the
    /// sample goes on and the report says what is missing, unless the plan insists.
    pub(super) fn load(wanted: ProbeUse, side: &str) -> Result<Option<Witness>, Refusal> {
        if wanted == ProbeUse::Off {
            return Ok(None);
        }
        let stages = wanted == ProbeUse::On;
        let probes = Probes::load(ProbeRequest {
            stages,
            cost: stages,
        });
        if let (true, Some(missing)) = (stages, probes.unavailable().first())
            && probes.attached().is_empty()
        {
            let text = format!("--probes on, on the {side}: {}", missing.text);
            return Err(Refusal::new(5, "probes-unavailable", text));
        }
        Ok(Some(Witness {
            probes,
            before: None,
            intervals: Vec::new(),
            report: None,
        }))
    }

    /// Follows a flow's socket.
    pub(super) fn follow(&mut self, socket: BorrowedFd<'_>, key: FlowKey) {
        let tag = FlowTag {
            group: key.group,
            flow: key.flow,
        };
        if let Err(error) = self.probes.follow(socket, tag) {
            log::debug!("flow {} is not followed by the probes: {error}", key.flow);
        }
    }

    /// Follows the connections that come and go on a port (crr).
    pub(super) fn follow_port(&mut self, port: u16) {
        if let Err(error) = self.probes.follow_port(port) {
            log::debug!("port {port} is not followed by the probes: {error}");
        }
    }

    /// The window begins.
    pub(super) fn begin(&mut self) {
        self.take();
        self.intervals.clear();
        self.before = Some(Reading::of_this_host());
    }

    /// An interval of the window ended.
    pub(super) fn interval(&mut self) {
        if self.before.is_some() && self.report.is_none() {
            self.take();
        }
    }

    fn take(&mut self) {
        match self.probes.snapshot() {
            Ok(snapshot) => self.intervals.push(snapshot),
            Err(error) => log::debug!("the probes cannot be read now: {error}"),
        }
    }

    /// The window ended.
    pub(super) fn end(&mut self) {
        let Some(before) = self.before.take() else {
            return;
        };
        self.take();
        let counters = before.moved(&Reading::of_this_host());
        self.report = Some(self.probes.report(&self.intervals, counters));
    }

    /// What was seen; none where the window never began.
    pub(super) fn report(self) -> Option<KernelReport> {
        self.report
    }
}
