//! A checked spec to its plan: the matrix in order, defaults filled in.

use std::collections::BTreeSet;

use super::matrix::{Kind, LoadSpec, Matrix};
use super::name::name;
use super::spec::{SizeSpec, Spec};
use super::zerocopy::senders;
use super::{
    Case, DEFAULT_PEER_TIMEOUT_NS, DEFAULT_TIMEOUT_NS, Direction, Engine, Family, GroupPlan,
    Limit, Options, Plan, Proto, Test, Traffic,
};

const SECOND: u64 = 1_000_000_000;

/// One point of the matrix.
struct Point {
    kind: Kind,
    size: Option<SizeSpec>,
    flows: u32,
    workers: (u32, u32),
    depth: Option<u32>,
    load: LoadSpec,
    family: Family,
}

/// The plan of a spec that has passed every rule; `cpus` are the client's and the server's.
pub(super) fn expand(spec: &Spec, matrix: &Matrix<'_>, cpus: (Vec<u32>, Vec<u32>)) -> Plan {
    let mut notes = Vec::new();
    let mut names = BTreeSet::new();
    let mut cases = Vec::new();
    let (mut clipped, mut repeated) = (0u32, 0u32);
    for point in points(matrix) {
        let case = case(spec, matrix.tour, &point);
        clipped += u32::from((case.workers, case.server_workers) != point.workers);
        if names.insert(case.name.clone()) {
            cases.push(case);
        } else {
            repeated += 1;
        }
    }
    if clipped > 0 {
        notes.push(format!(
            "more workers than flows at {clipped} of the matrix's points; a flow belongs to one \
             worker, so there is a worker per flow"
        ));
    }
    if repeated > 0 {
        notes.push(format!(
            "{repeated} of the matrix's points came to the same case as another one; each case \
             runs once"
        ));
    }
    Plan {
        cases,
        samples: spec.samples.unwrap_or(1),
        title: spec.title.clone(),
        client_cpus: cpus.0,
        server_cpus: cpus.1,
        peer_timeout_ns: spec.peer_timeout.unwrap_or(DEFAULT_PEER_TIMEOUT_NS),
        notes,
    }
}

fn points(matrix: &Matrix<'_>) -> Vec<Point> {
    let mut points = Vec::new();
    for &kind in &matrix.kinds {
        for size in matrix.sizes_of(kind) {
            for &flows in &matrix.flows {
                for &workers in &matrix.workers {
                    for &depth in &matrix.depths {
                        for &load in &matrix.loads {
                            points.extend(matrix.families.iter().map(|&family| Point {
                                kind,
                                size,
                                flows,
                                workers,
                                depth,
                                load,
                                family,
                            }));
                        }
                    }
                }
            }
        }
    }
    points
}

fn case(spec: &Spec, tour: bool, point: &Point) -> Case {
    let (proto, test) = point.kind;
    let request = point.size.map_or(0, |size| size.request);
    let response = point.size.and_then(|size| size.response).unwrap_or(request);
    let mut case = Case {
        name: String::new(),
        proto,
        test,
        groups: groups(test),
        request_bytes: request,
        response_bytes: if test.is_rr() { response } else { 0 },
        size_from_path_mtu: point.size.is_none(),
        flows: point.flows,
        workers: point.workers.0.min(point.flows),
        server_workers: point.workers.1.min(point.flows),
        depth: depth(spec, point),
        load: point.load.of_flows(point.flows),
        family: point.family,
        limit: limit(spec, tour),
        warmup_ns: warmup(spec, tour),
        interval_ns: spec.interval.unwrap_or(SECOND),
        options: options(spec, point.kind),
    };
    case.name = name(&case);
    case
}

fn groups(test: Test) -> Vec<GroupPlan> {
    let group = |traffic, direction| GroupPlan { traffic, direction };
    let up = group(Traffic::Stream, Direction::ClientToServer);
    let down = group(Traffic::Stream, Direction::ServerToClient);
    match test {
        Test::Stream => vec![up],
        Test::Reverse => vec![down],
        Test::Bidir => vec![up, down],
        Test::Rr => vec![group(Traffic::Rr, Direction::ClientToServer)],
        Test::Crr => vec![group(Traffic::Crr, Direction::ClientToServer)],
    }
}

fn depth(spec: &Spec, point: &Point) -> Option<u32> {
    match point.kind {
        // A connection carries one transaction; more at once is more flows.
        (_, Test::Crr) => None,
        (_, Test::Rr) => Some(point.depth.unwrap_or(1)),
        // The pattern follows the order of the bytes, which only one send at a time keeps.
        (Proto::Tcp, _) if spec.verify => Some(1),
        _ => point.depth,
    }
}

fn limit(spec: &Spec, tour: bool) -> Limit {
    match (spec.bytes, spec.transactions) {
        (Some(bytes), _) => Limit::Bytes { bytes },
        (None, Some(count)) => Limit::Transactions { count },
        (None, None) => {
            let default = if tour { 2 * SECOND } else { 10 * SECOND };
            Limit::Duration {
                ns: spec.duration.unwrap_or(default),
            }
        }
    }
}

fn warmup(spec: &Spec, tour: bool) -> u64 {
    if spec.bytes.is_some() || spec.transactions.is_some() {
        return 0;
    }
    spec.warmup
        .unwrap_or(if tour { SECOND / 2 } else { SECOND })
}

fn options(spec: &Spec, (proto, test): Kind) -> Options {
    let udp = proto == Proto::Udp;
    let wait = spec.wait.unwrap_or_default();
    let [client_engine, server_engine] = engines(spec, test);
    Options {
        nodelay: !udp && spec.nodelay.unwrap_or(test.is_rr()),
        mss: spec.mss,
        window: spec.window,
        rcvbuf: spec.rcvbuf,
        pacing: spec.pacing,
        congestion: spec.congestion.clone(),
        dscp: spec.dscp,
        close: if udp {
            Default::default()
        } else {
            spec.close.unwrap_or_default()
        },
        receive: spec.receive.unwrap_or_default(),
        coalesce: spec.coalesce,
        zerocopy: spec.zerocopy,
        gso: spec.gso,
        gro: spec.gro,
        fragment: udp && spec.fragment,
        client_wait: spec.client_wait.unwrap_or(wait),
        server_wait: spec.server_wait.unwrap_or(wait),
        client_engine,
        server_engine,
        client_busy_poll: spec.client_busy_poll.or(spec.busy_poll),
        server_busy_poll: spec.server_busy_poll.or(spec.busy_poll),
        think_ns: spec.think.unwrap_or(0),
        verify: spec.verify,
        timeout_ns: match (udp, test) {
            (true, Test::Rr) => spec.timeout.unwrap_or(DEFAULT_TIMEOUT_NS),
            _ => DEFAULT_TIMEOUT_NS,
        },
        as_application: spec.as_application,
        tuning: spec.tuning.clone(),
        probes: spec.probes.unwrap_or_default(),
        probes_without: spec.probes_without.clone(),
        source_ports: spec.source_ports.unwrap_or_default(),
        bind: spec.bind,
        device: spec.device.clone(),
    }
}

/// What drives the client's and the server's sockets. A side that sends without copies has no
/// choice.
fn engines(spec: &Spec, test: Test) -> [Engine; 2] {
    let typed = [spec.client_engine, spec.server_engine]
        .map(|own| own.or(spec.engine).unwrap_or_default());
    let Some(how) = spec.zerocopy else {
        return typed;
    };
    let [client, server] = senders(test);
    let of = |sends: bool, typed: Engine| if sends { how.engine() } else { typed };
    [of(client, typed[0]), of(server, typed[1])]
}
