//! From the programs' numbers to the record.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ringperf_ebpf::layout::{self, Event};

use super::counters::LISTENER;
use super::maps::FlowTag;
use super::stages::stages;
use super::{Names, Snapshot, places};
use crate::record::{
    CostReport, CounterReport, DropReport, Finding, KernelReport, OursAndSystem, ProgramCost,
    RetransmitReport, Severity,
};

/// Place of a drop whose address the kernel does not tell.
const HIDDEN: &str = "hidden";

/// Everything that the intervals of a window say; the rest is left to the caller.
pub(super) fn report(root: &Path, names: &Names, intervals: &[Snapshot]) -> KernelReport {
    let mut window = Snapshot::default();
    for interval in intervals {
        window.add(interval);
    }
    let mut report = KernelReport {
        drops: drops(root, names, intervals),
        drops_unlisted: window.event(Event::DropUnlisted),
        drops_unparsed: window.event(Event::Unparsed).system,
        retransmits: retransmits(names, &window),
        retransmits_unlisted: window.event(Event::RetransmitUnlisted),
        resets_sent: window.event(Event::ResetSent),
        resets_received: window.event(Event::ResetReceived),
        receive_queue_full: window.event(Event::ReceiveQueueFull),
        udp_queue_fail: window.event(Event::UdpQueueFail),
        ring_handed_off: window.event(Event::RingHandedOff),
        ring_overflows: window.event(Event::RingOverflow),
        ..KernelReport::default()
    };
    report.findings = findings(&report);
    report
}

/// What the stage programs say of one side's part of a window.
pub(super) fn add_stages(report: &mut KernelReport, intervals: &[Snapshot], server: bool) {
    let mut window = Snapshot::default();
    for interval in intervals {
        window.add(interval);
    }
    report.stages = stages(&window, server);
    report.ring_task_work_runs = window.event(Event::RingTaskWork);
    report.stages_receive_missed = window.event(Event::ReceiveMissed).ours;
    report.stages_wait_missed = window.event(Event::ReadyOverflow).ours;
}

/// By reason and function, most of ours first.
fn drops(root: &Path, names: &Names, intervals: &[Snapshot]) -> Vec<DropReport> {
    let addresses: BTreeSet<u64> = intervals
        .iter()
        .flat_map(|i| i.drops.keys().map(|[_, location]| *location))
        .collect();
    let places = places(root, &addresses);
    let mut lines: BTreeMap<(String, String), DropReport> = BTreeMap::new();
    for (index, interval) in intervals.iter().enumerate() {
        for ([reason, location], moved) in &interval.drops {
            let reason = names.drop_reason(*reason);
            let place = places
                .get(location)
                .map_or(HIDDEN, String::as_str)
                .to_string();
            let key = (reason.clone(), place.clone());
            let line = lines.entry(key).or_insert_with(|| DropReport {
                reason,
                place,
                per_interval: vec![0; intervals.len()],
                ..DropReport::default()
            });
            line.ours += moved.ours;
            line.system += moved.system;
            line.per_interval[index] += moved.ours;
        }
    }
    let mut lines: Vec<DropReport> = lines.into_values().collect();
    lines.sort_by_key(|line| Reverse((line.ours, line.system)));
    lines
}

fn retransmits(names: &Names, window: &Snapshot) -> Vec<RetransmitReport> {
    let lines = window.retransmits.iter().map(|([flow, cause], segments)| {
        let tag = FlowTag::from_number(*flow);
        RetransmitReport {
            ours: *flow != layout::FLOW_OTHER,
            group: tag.map(|tag| tag.group),
            flow: tag.map(|tag| tag.flow),
            cause: names.cause(*cause),
            segments: *segments,
        }
    });
    lines.collect()
}

/// What listeners dropped, by the counters of the window.
pub(super) fn listen_drops(counters: &[CounterReport]) -> OursAndSystem {
    let sum = |wanted: &dyn Fn(&CounterReport) -> bool| {
        let moved = counters.iter().filter(|counter| wanted(counter));
        moved
            .map(|counter| u64::try_from(counter.delta).unwrap_or(0))
            .sum()
    };
    OursAndSystem {
        ours: sum(&|counter| counter.source.starts_with(LISTENER)),
        system: sum(&|counter| {
            counter.source == "netstat.TcpExt" && counter.name == "ListenDrops"
        }),
    }
}

/// What makes the numbers above incomplete.
fn findings(report: &KernelReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let unlisted = [
        ("drops", report.drops_unlisted, layout::DROPS_MAX),
        (
            "retransmits",
            report.retransmits_unlisted,
            layout::RETRANSMITS_MAX,
        ),
    ];
    for (what, count, size) in unlisted {
        if count.system > 0 {
            findings.push(Finding::new(
                Severity::Warning,
                "probe-map-full",
                format!(
                    "the table of {what} holds {size} lines and was full: {} segments ({} of our \
                     flows) are in no line",
                    count.system, count.ours
                ),
            ));
        }
    }
    findings
}

/// What the programs used in so long.
pub(super) fn cost(
    used: &BTreeMap<String, (u64, u64)>,
    counted_ns: u64,
    missing: Option<String>,
) -> CostReport {
    let programs: Vec<ProgramCost> = used
        .iter()
        .map(|(program, (runs, time_ns))| ProgramCost {
            program: program.clone(),
            runs: *runs,
            time_ns: *time_ns,
            counted_ns,
        })
        .collect();
    let time_ns: u64 = programs.iter().map(|program| program.time_ns).sum();
    let per_s = u128::from(time_ns) * 1_000_000_000 / u128::from(counted_ns.max(1));
    CostReport {
        programs,
        time_ns_per_s: u64::try_from(per_s).unwrap_or(u64::MAX),
        missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(ours: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.drops.insert(
            [7, 0x10],
            OursAndSystem {
                ours,
                system: ours + 1,
            },
        );
        snapshot
            .drops
            .insert([7, 0x20], OursAndSystem { ours: 1, system: 1 });
        snapshot.retransmits.insert([5, layout::CAUSE_SYN], ours);
        snapshot.retransmits.insert([layout::FLOW_OTHER, 99], 2);
        snapshot
    }

    #[test]
    fn hidden_places_share_a_line_and_intervals_stay_apart() {
        let directory = tempfile::tempdir().unwrap();
        let report = report(
            directory.path(),
            &Names::default(),
            &[interval(3), Snapshot::default()],
        );
        let [drop] = report.drops.as_slice() else {
            panic!("{:?}", report.drops)
        };
        assert_eq!(
            (drop.reason.as_str(), drop.place.as_str()),
            ("0x7", "hidden")
        );
        assert_eq!((drop.ours, drop.system), (4, 5));
        assert_eq!(drop.per_interval, [4, 0]);
        assert!(report.findings.is_empty());
    }

    #[test]
    fn retransmits_know_their_flow() {
        let window = interval(3);
        let lines = retransmits(&Names::default(), &window);
        assert_eq!((lines[0].flow, lines[0].cause.as_str()), (Some(5), "SYN"));
        assert_eq!(
            (lines[1].flow, lines[1].ours, lines[1].segments),
            (None, false, 2)
        );
    }

    #[test]
    fn a_full_map_is_a_finding() {
        let full = OursAndSystem { ours: 1, system: 4 };
        let report = KernelReport {
            drops_unlisted: full,
            ..KernelReport::default()
        };
        assert_eq!(findings(&report)[0].code, "probe-map-full");
    }
}
