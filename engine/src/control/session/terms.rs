//! What a case means for the session: flows to expect, time to allow, who ends it.

use std::collections::HashSet;

use super::SECOND;
use crate::control::crew::FlowKey;
use crate::control::hello::PROBE;
use crate::plan::{Case, Direction, Limit, Proto, Traffic};

/// Payload in flight beyond which request-response traffic may hold up a heartbeat, bytes.
const FILLING: u64 = 1 << 20;

/// Whether connections are made and closed by the traffic itself.
pub fn is_crr(case: &Case) -> bool {
    case.groups
        .iter()
        .any(|group| group.traffic == Traffic::Crr)
}

/// Whether the case's own traffic may fill the path and delay the control connection. Of
/// request-response no more is ever under way than the depth, whatever the schedule asks for.
pub fn fills_path(case: &Case) -> bool {
    case.groups.iter().any(|group| match group.traffic {
        Traffic::Stream => true,
        Traffic::Rr | Traffic::Crr => {
            let outstanding = u64::from(case.depth.unwrap_or(1)) * u64::from(case.flows);
            let bytes = case.request_bytes.saturating_add(case.response_bytes);
            outstanding.saturating_mul(bytes) > FILLING
        }
    })
}

/// Whether a side sends or asks in any group: (client, server).
pub fn active_sides(case: &Case) -> (bool, bool) {
    let any = |direction| case.groups.iter().any(|group| group.direction == direction);
    (
        any(Direction::ClientToServer),
        any(Direction::ServerToClient),
    )
}

/// Warm-up and window together, where they are fixed. Nanoseconds.
pub fn planned_ns(case: &Case) -> Option<u64> {
    case.duration_ns()
        .map(|ns| ns.saturating_add(case.warmup_ns))
}

/// Whether the case ends by an exact count instead of a time.
pub fn is_exact(case: &Case) -> bool {
    !matches!(case.limit, Limit::Duration { .. })
}

/// Time to open all flows, nanoseconds.
pub fn opening_ns(case: &Case) -> u64 {
    let flows = case.flows as u64 * case.groups.len() as u64;
    10 * SECOND + flows * SECOND / 500
}

/// Every flow that must open before traffic, in order.
pub fn flow_keys(case: &Case) -> Vec<FlowKey> {
    if is_crr(case) {
        return vec![PROBE];
    }
    let groups = 0..case.groups.len() as u32;
    groups
        .flat_map(|group| (0..case.flows).map(move |flow| FlowKey { group, flow }))
        .collect()
}

/// The flows that a sample still waits for.
#[derive(Debug)]
pub struct Roll {
    /// What the flows are made of.
    pub proto: Proto,
    case_flows: u32,
    groups: u32,
    crr: bool,
    present: HashSet<FlowKey>,
}

impl Roll {
    /// Waits for every flow of the case. Reserves nothing.
    pub fn new(case: &Case) -> Roll {
        Roll {
            proto: case.proto,
            case_flows: case.flows,
            groups: case.groups.len() as u32,
            crr: is_crr(case),
            present: HashSet::new(),
        }
    }

    /// Whether this flow is one of the sample's and not yet there.
    pub fn expects(&self, key: FlowKey) -> bool {
        let known = if self.crr {
            key == PROBE
        } else {
            key.group < self.groups && key.flow < self.case_flows
        };
        known && !self.present.contains(&key)
    }

    /// Notes an expected flow; whether it was one.
    pub fn note(&mut self, key: FlowKey) -> bool {
        self.expects(key) && self.present.insert(key)
    }

    /// How many flows are there, of how many.
    pub fn count(&self) -> (u64, u64) {
        let all = if self.crr {
            1
        } else {
            u64::from(self.groups) * u64::from(self.case_flows)
        };
        (self.present.len() as u64, all)
    }

    /// Whether every flow is there.
    pub fn complete(&self) -> bool {
        let (present, all) = self.count();
        present == all
    }
}
