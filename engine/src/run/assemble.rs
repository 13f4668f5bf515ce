//! Two sides' reports of one sample become the sample of the result.
//!
//! Pure: no I/O, no clock. The receiver's count is the throughput, the sender's stands beside
//! it. Counts are held against each other in [`reconcile`]; whatever does not add up makes the
//! sample say `unreconciled`. A side that died is known by the [`Progress`] it had sent.

mod budget;
mod figures;
mod findings;
mod flows;
mod latency;
mod reconcile;
mod side;
#[cfg(test)]
mod tests;
mod udp;

use std::time::SystemTime;

use crate::plan::{Case, Direction, GroupPlan};
use crate::record::{
    ErrorReport, Figures, Finding, Group, GroupReport, Progress, Sample, SideIntervals,
    SideReport, Sides,
};
use crate::units::rfc3339;
use side::Known;

/// Everything known of one sample when it has ended, however it ended.
#[derive(Clone, Debug)]
pub struct SampleInput<'a> {
    /// The case, with what the session resolved.
    pub case: &'a Case,
    /// From 1.
    pub number: u32,
    /// Wall-clock start.
    pub started: SystemTime,
    /// The client's report; none where its crew failed.
    pub client: Option<SideReport>,
    /// The server's report; none where it never arrived.
    pub server: Option<SideReport>,
    /// What the client reported while running, in order; used where its report is missing.
    pub client_progress: &'a [Progress],
    /// What the server reported while running, in order; used where its report is missing.
    pub server_progress: &'a [Progress],
    /// Findings of the session and of the hosts about this sample.
    pub findings: Vec<Finding>,
    /// What ended the sample early.
    pub error: Option<ErrorReport>,
}

/// One group as both sides know it. The sender of a stream, or the asking side of
/// request-response, is `from`; the receiver, or the answering side, is `to`.
struct Joined<'a> {
    case: &'a Case,
    index: u32,
    plan: GroupPlan,
    from: &'a Known,
    to: &'a Known,
    from_group: GroupReport,
    to_group: GroupReport,
}

impl<'a> Joined<'a> {
    fn new(case: &'a Case, index: usize, client: &'a Known, server: &'a Known) -> Joined<'a> {
        let plan = case.groups[index];
        let (from, to) = match plan.direction {
            Direction::ClientToServer => (client, server),
            Direction::ServerToClient => (server, client),
        };
        let group = |side: &Known| side.report.groups.get(index).cloned().unwrap_or_default();
        let (from_group, to_group) = (group(from), group(to));
        Joined {
            case,
            index: index as u32,
            plan,
            from,
            to,
            from_group,
            to_group,
        }
    }

    /// `count` per second of the sender's, or asking side's, window.
    fn sender_rate(&self, count: u64) -> f64 {
        self.from.per_second(&self.from_group, count)
    }

    /// `count` per second of the receiver's, or answering side's, window.
    fn receiver_rate(&self, count: u64) -> f64 {
        self.to.per_second(&self.to_group, count)
    }

    /// Words that tell the groups of a case apart; empty where there is one only.
    fn label(&self) -> &'static str {
        match (self.case.groups.len(), self.plan.direction) {
            (0 | 1, _) => "",
            (_, Direction::ClientToServer) => "client to server: ",
            (_, Direction::ServerToClient) => "server to client: ",
        }
    }
}

/// A sum that a hostile or broken report cannot make overflow.
fn total(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, u64::saturating_add)
}

/// Joins what both sides know of a sample.
pub fn sample(input: SampleInput<'_>) -> Sample {
    let case = input.case;
    let client = Known::new("client", input.client, input.client_progress, case);
    let server = Known::new("server", input.server, input.server_progress, case);

    let mut found = input.findings;
    found.extend(findings::of_side(&client));
    found.extend(findings::of_side(&server));
    found.extend(findings::incomplete(&client, &server));

    let mut groups = Vec::with_capacity(case.groups.len());
    for index in 0..case.groups.len() {
        let joined = Joined::new(case, index, &client, &server);
        let (figures, faults) = figures::figures(&joined);
        found.extend(findings::of_group(&joined, &figures, faults));
        let plan = joined.plan;
        groups.push(Group {
            traffic: plan.traffic,
            direction: plan.direction,
            figures,
        });
    }
    let flows = flows::join(&client, &server);
    found.extend(findings::translated(&flows, &found));

    let mut asked = client.report.kernel.clone();
    budget::join(&mut asked, server.report.kernel.as_ref());
    let whole = client.complete() && server.complete();
    Sample {
        number: input.number,
        started: rfc3339(input.started),
        complete: whole && input.error.is_none(),
        duration_s: duration_s(case, &client, &server),
        figures: own_figures(&groups),
        groups,
        kernel: Sides {
            client: asked,
            server: server.report.kernel.clone(),
        },
        flows: flows::bounded(flows, case),
        findings: found,
        error: input.error,
        cpu: Sides {
            client: client.report.cpu.clone(),
            server: server.report.cpu.clone(),
        },
        engine: Sides {
            client: client.engine(),
            server: server.engine(),
        },
        intervals: SideIntervals {
            client: client.report.intervals,
            server: server.report.intervals,
        },
    }
}

/// With one group, the sample's own figures are that group's.
fn own_figures(groups: &[Group]) -> Option<Figures> {
    match groups {
        [only] => Some(only.figures.clone()),
        _ => None,
    }
}

/// The window by the clock whose count is the throughput: a stream's receiver, the asking side.
fn duration_s(case: &Case, client: &Known, server: &Known) -> f64 {
    use crate::plan::Traffic::Stream;
    let first = case.groups.first();
    let at_server = first.is_some_and(|group| {
        group.traffic == Stream && group.direction == Direction::ClientToServer
    });
    if at_server {
        server.window_s()
    } else {
        client.window_s()
    }
}
