//! Canned results for the tests of this and other rooms.

use super::*;
use crate::plan::{
    Case, Direction, Family, GroupPlan, Limit, Load, Options, Proto, Test, Traffic,
};

/// Ten seconds, in nanoseconds.
pub const WINDOW_NS: u64 = 10_000_000_000;

/// A case of one or (bidir) two groups.
pub fn case(name: &str, proto: Proto, test: Test, sizes: (u64, u64), flows: u32) -> Case {
    use Direction::{ClientToServer, ServerToClient};
    let groups = match test {
        Test::Stream => vec![(Traffic::Stream, ClientToServer)],
        Test::Reverse => vec![(Traffic::Stream, ServerToClient)],
        Test::Bidir => {
            vec![
                (Traffic::Stream, ClientToServer),
                (Traffic::Stream, ServerToClient),
            ]
        }
        Test::Rr => vec![(Traffic::Rr, ClientToServer)],
        Test::Crr => vec![(Traffic::Crr, ClientToServer)],
    };
    let group = |(traffic, direction)| GroupPlan { traffic, direction };
    Case {
        name: name.to_string(),
        proto,
        test,
        groups: groups.into_iter().map(group).collect(),
        request_bytes: sizes.0,
        response_bytes: sizes.1,
        size_from_path_mtu: false,
        flows,
        workers: 1,
        server_workers: 1,
        depth: None,
        load: Load::Closed,
        family: Family::Any,
        limit: Limit::Duration { ns: WINDOW_NS },
        warmup_ns: 1_000_000_000,
        interval_ns: 1_000_000_000,
        options: Options {
            timeout_ns: 1_000_000_000,
            ..Options::default()
        },
    }
}

/// Figures of a stream that received so many bytes in ten seconds.
pub fn stream(bytes: u64, udp: bool) -> Figures {
    let messages = bytes / 1000;
    Figures {
        sent: Amount {
            bytes: bytes + 500_000,
            messages: Some(messages + 500),
        },
        received: Amount {
            bytes,
            messages: udp.then_some(messages),
        },
        throughput_bps: bytes as f64 * 0.8,
        sent_bps: (bytes + 500_000) as f64 * 0.8,
        tcp: (!udp).then(|| Sides {
            client: Some(tcp(17)),
            server: Some(tcp(0)),
        }),
        udp: udp.then(|| UdpReport {
            mode: "full".to_string(),
            lost: Some(500),
            lost_percent: Some(500.0 / (messages + 500) as f64 * 100.0),
            reordered: Some(3),
            duplicated: Some(0),
            late: Some(0),
            socket_drops: Some(400),
            jitter_missing: Some("unpaced".to_string()),
            ..UdpReport::default()
        }),
        reconciliation: Reconciliation {
            reconciled: true,
            unit: if udp { "datagrams" } else { "bytes" }.to_string(),
            sent: 1,
            received: 1,
            lost: Some(0),
            ..Reconciliation::default()
        },
        ..Figures::default()
    }
}

fn tcp(retransmits: u64) -> TcpReport {
    TcpReport {
        congestion: "cubic".to_string(),
        retransmits,
        ..TcpReport::default()
    }
}

/// Figures of request-response that finished so many transactions in ten seconds.
pub fn rr(done: u64, p50: u64) -> Figures {
    Figures {
        sent: Amount {
            bytes: 2 * done,
            messages: Some(2 * done),
        },
        received: Amount {
            bytes: 2 * done,
            messages: Some(2 * done),
        },
        throughput_bps: done as f64 * 1.6,
        sent_bps: done as f64 * 1.6,
        transactions: Some(Transactions {
            started: done + 1,
            done,
            completed: done,
            in_flight: 1,
            per_second: done as f64 / 10.0,
            ..Transactions::default()
        }),
        latency_ns: Some(Latency {
            count: done,
            mean: p50 as f64 * 1.1,
            stdev: p50 as f64 / 3.0,
            min: p50 / 2,
            p50,
            p90: p50 * 2,
            p99: p50 * 4,
            p999: p50 * 10,
            p9999: p50 * 40,
            max: p50 * 100,
            histogram: "HISTFAAA".to_string(),
            ..Latency::default()
        }),
        tcp: Some(Sides {
            client: Some(tcp(0)),
            server: Some(tcp(0)),
        }),
        reconciliation: Reconciliation {
            reconciled: true,
            unit: "transactions".to_string(),
            sent: done + 1,
            received: done,
            lost: Some(0),
            in_flight: 1,
            ..Reconciliation::default()
        },
        ..Figures::default()
    }
}

/// A complete sample of ten seconds.
pub fn sample(case: &Case, number: u32, figures: Vec<Figures>) -> Sample {
    let own = match figures.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    };
    let groups = case
        .groups
        .iter()
        .zip(figures)
        .map(|(plan, figures)| Group {
            traffic: plan.traffic,
            direction: plan.direction,
            figures,
        });
    let interval = Interval {
        length_s: 1.0,
        counters: Counters {
            received_bytes: 5,
            ..Counters::default()
        },
        ..Interval::default()
    };
    Sample {
        number,
        started: "2026-11-30T12:00:01.000Z".to_string(),
        complete: true,
        duration_s: 10.0,
        groups: groups.collect(),
        figures: own,
        cpu: Sides {
            client: Some(cpu(11.0, 2.5)),
            server: Some(cpu(9.0, 4.0)),
        },
        kernel: Sides::default(),
        engine: Sides {
            client: Some(engine()),
            server: Some(engine()),
        },
        flows: Vec::new(),
        intervals: SideIntervals {
            client: vec![interval],
            server: vec![interval],
        },
        findings: Vec::new(),
        error: None,
    }
}

fn cpu(total_s: f64, softirq_s: f64) -> CpuReport {
    CpuReport {
        method: "tick".to_string(),
        window_s: 10.0,
        total_s: Some(total_s),
        softirq_s: Some(softirq_s),
        ..CpuReport::default()
    }
}

fn engine() -> EngineReport {
    EngineReport {
        name: "io_uring".to_string(),
        features: vec!["single-issuer".to_string(), "defer-taskrun".to_string()],
        depth: 4,
        receive_low_water: Some(65_536),
        min_wait_us: Some(50),
        receive_buffers: Some((64, 65_536)),
        worker_cpus: vec![0],
        ..EngineReport::default()
    }
}

fn host(name: &str) -> HostFacts {
    HostFacts {
        hostname: name.to_string(),
        kernel: "6.18.2".to_string(),
        architecture: "x86_64".to_string(),
        cpu_model: Some("EPYC 9354".to_string()),
        cpus_online: 64,
        nics: vec![NicFacts {
            name: "eth0".to_string(),
            driver: Some("mlx5_core".to_string()),
            mtu: 9000,
            speed_mbps: Some(100_000),
            ..NicFacts::default()
        }],
        ringperf: "0.1.0".to_string(),
        ..HostFacts::default()
    }
}

fn run(cases: Vec<CaseResult>) -> Run {
    Run {
        schema: SCHEMA.to_string(),
        uuid: "5f0c1a52-9a55-4d33-8f0c-0d6f1c1f6b11".to_string(),
        started: "2026-11-30T12:00:00.000Z".to_string(),
        tool: Tool {
            name: "ringperf".to_string(),
            version: "0.1.0".to_string(),
            command: vec![
                "ringperf".to_string(),
                "run".to_string(),
                "beta".to_string(),
            ],
        },
        title: None,
        complete: true,
        client: Some(host("alpha")),
        server: Some(host("beta")),
        cases,
        findings: Vec::new(),
        error: None,
    }
}

/// One finished case with these figures, a sample each.
pub fn finished(case: Case, samples: Vec<Vec<Figures>>) -> CaseResult {
    let samples = samples
        .into_iter()
        .zip(1..)
        .map(|(groups, i)| sample(&case, i, groups));
    let samples = samples.collect();
    CaseResult {
        case,
        samples,
        probed: None,
        error: None,
    }
}

/// The short tour: a case of each kind, one sample.
pub fn tour() -> Run {
    let tcp = case(
        "tcp stream 128K x1",
        Proto::Tcp,
        Test::Stream,
        (131_072, 0),
        1,
    );
    let tcp_rr = case("tcp rr 1/1 x1", Proto::Tcp, Test::Rr, (1, 1), 1);
    let udp = case("udp stream 1472 x1", Proto::Udp, Test::Stream, (1472, 0), 1);
    run(vec![
        finished(tcp, vec![vec![stream(26_625_000_000, false)]]),
        finished(tcp_rr, vec![vec![rr(452_100, 21_300)]]),
        finished(udp, vec![vec![stream(1_250_000_000, true)]]),
    ])
}

/// Two groups, several samples, several flows, lost answers, findings and errors.
pub fn busy() -> Run {
    let mut spread = stream(12_500_000_000, false);
    spread.fairness = Some(0.912);
    spread.flow_spread = Some((500_000_000.0, 2_000_000_000.0));
    let both = case("tcp bidir 16K x8", Proto::Tcp, Test::Bidir, (16_384, 0), 8);
    let bidir = finished(both, vec![vec![spread, stream(11_000_000_000, false)]]);

    let lossy = case("udp rr 64/1K x1", Proto::Udp, Test::Rr, (64, 1024), 1);
    let mut answers = rr(90, 200_000);
    answers.tcp = None;
    if let (Some(done), Some(latency)) = (&mut answers.transactions, &mut answers.latency_ns) {
        (done.started, done.failed, done.in_flight) = (100, 10, 0);
        latency.unanswered = 10;
        latency.lower_bounds = ["p90", "p99", "p999", "p9999", "max"]
            .map(str::to_string)
            .to_vec();
        latency.lower_bounds.remove(0);
    }
    let slow = vec![
        vec![rr(400_000, 24_000)],
        vec![rr(452_100, 21_300)],
        vec![rr(1, 9_000)],
    ];
    let tcp_rr = case("tcp rr 1/1 x1 rate 50000", Proto::Tcp, Test::Rr, (1, 1), 1);
    let mut open = finished(tcp_rr, slow);
    for sample in &mut open.samples {
        sample.findings.push(Finding::new(
            Severity::Warning,
            "achieved-below-offered",
            format!(
                "sample {}: fewer transactions than the schedule asked for",
                sample.number
            ),
        ));
    }
    open.samples[2].complete = false;
    let death = ErrorReport {
        exit_code: 4,
        code: "server-lost".to_string(),
        text: "the server at 10.0.0.2:5301 closed the connection".to_string(),
    };
    open.samples[2].error = Some(death.clone());
    let latency = open.samples[0]
        .figures
        .as_mut()
        .unwrap()
        .latency_ns
        .as_mut()
        .unwrap();
    latency.lower_bounds = vec!["p999".to_string(), "p9999".to_string(), "max".to_string()];
    open.samples[0].groups[0].figures = open.samples[0].figures.clone().unwrap();

    let mut run = run(vec![bidir, finished(lossy, vec![vec![answers]]), open]);
    run.title = Some("before the upgrade".to_string());
    run.complete = false;
    run.findings.push(Finding::new(
        Severity::Info,
        "path-translated",
        "the path translates addresses: the client is 10.0.0.9:4001 to itself and \
         192.0.2.1:61001 to the server",
    ));
    run.error = Some(death);
    run
}

/// Every canned run.
pub fn runs() -> Vec<Run> {
    let error = ErrorReport {
        exit_code: 2,
        code: "usage".to_string(),
        text: "crr needs tcp: --test crr does not go with --proto udp".to_string(),
    };
    let usage = Run::failed(
        vec!["ringperf".to_string()],
        std::time::SystemTime::now(),
        error,
    );
    vec![tour(), busy(), usage]
}
