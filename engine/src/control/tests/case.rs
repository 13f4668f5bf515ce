//! Cases for the tests.

use crate::plan::{
    Case, Direction, Family, GroupPlan, Limit, Load, Options, Proto, Test, Traffic,
};

fn base(test: Test, traffic: Traffic, flows: u32) -> Case {
    Case {
        name: format!("{test:?}"),
        proto: Proto::Tcp,
        test,
        groups: vec![GroupPlan {
            traffic,
            direction: Direction::ClientToServer,
        }],
        request_bytes: 64,
        response_bytes: if traffic == Traffic::Stream { 0 } else { 64 },
        size_from_path_mtu: false,
        flows,
        workers: 1,
        server_workers: 1,
        depth: None,
        load: Load::Closed,
        family: Family::Any,
        limit: Limit::Duration { ns: 100_000_000 },
        warmup_ns: 0,
        interval_ns: 50_000_000,
        options: Options::default(),
    }
}

/// Bulk data, unpaced.
pub(in crate::control) fn bulk(flows: u32) -> Case {
    base(Test::Stream, Traffic::Stream, flows)
}

/// Request and response.
pub(in crate::control) fn echo(flows: u32) -> Case {
    base(Test::Rr, Traffic::Rr, flows)
}

/// Connect, request and response, close.
pub(in crate::control) fn crr() -> Case {
    base(Test::Crr, Traffic::Crr, 1)
}
