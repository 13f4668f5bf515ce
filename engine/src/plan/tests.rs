//! Defaults, names and order of the matrix.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::check::check;
use super::*;
use crate::units::{PerSecond, Scope};

const SECOND: u64 = 1_000_000_000;

fn to_host() -> Spec {
    Spec {
        host: Some("node".parse().unwrap()),
        ..Spec::default()
    }
}

fn names(spec: &Spec) -> Vec<String> {
    check(spec)
        .unwrap()
        .cases
        .into_iter()
        .map(|case| case.name)
        .collect()
}

#[test]
fn a_host_alone_is_one_tcp_stream() {
    let plan = check(&to_host()).unwrap();
    assert_eq!(
        (plan.cases.len(), plan.samples, plan.peer_timeout_ns),
        (1, 1, 5 * SECOND)
    );
    let case = &plan.cases[0];
    assert_eq!(case.name, "tcp stream 128K x1 w1");
    assert_eq!((case.proto, case.test), (Proto::Tcp, Test::Stream));
    assert_eq!((case.request_bytes, case.response_bytes), (131_072, 0));
    assert_eq!(
        (case.flows, case.workers, case.server_workers, case.depth),
        (1, 1, 1, None)
    );
    assert_eq!((case.load, case.family), (Load::Closed, Family::Any));
    assert_eq!(case.limit, Limit::Duration { ns: 10 * SECOND });
    assert_eq!((case.warmup_ns, case.interval_ns), (SECOND, SECOND));
    assert!(!case.options.nodelay && !case.size_from_path_mtu);
    let expected = GroupPlan {
        traffic: Traffic::Stream,
        direction: Direction::ClientToServer,
    };
    assert_eq!(case.groups, [expected]);
    assert!(plan.notes.is_empty());
}

#[test]
fn nothing_at_all_is_the_tour() {
    let plan = check(&Spec::default()).unwrap();
    let cases: Vec<&str> = plan.cases.iter().map(|case| case.name.as_str()).collect();
    let tour = [
        "tcp stream 128K x1 w1",
        "tcp rr 1/1 x1 w1 d1",
        "udp stream mtu x1 w1",
        "udp rr 1/1 x1 w1 d1",
    ];
    assert_eq!(cases, tour);
    for case in &plan.cases {
        assert_eq!(case.limit, Limit::Duration { ns: 2 * SECOND });
        assert_eq!(case.warmup_ns, SECOND / 2);
        assert_eq!(case.size_from_path_mtu, case.name == "udp stream mtu x1 w1");
        assert_eq!(case.options.nodelay, case.name.starts_with("tcp rr"));
    }
    // A dimension without a host is that matrix over loopback, with the usual times.
    let plan = check(&Spec {
        flows: vec![3],
        ..Spec::default()
    })
    .unwrap();
    assert_eq!(plan.cases[0].name, "tcp stream 128K x3 w1");
    assert_eq!(plan.cases[0].limit, Limit::Duration { ns: 10 * SECOND });
}

#[test]
fn the_matrix_is_in_order() {
    let spec = Spec {
        protos: vec![Proto::Tcp, Proto::Udp],
        tests: vec![Test::Reverse, Test::Rr],
        sizes: vec!["64".parse().unwrap(), "1K".parse().unwrap()],
        flows: vec![2],
        families: vec![Family::V4, Family::V6],
        ..to_host()
    };
    let expected: Vec<String> = ["tcp reverse", "tcp rr", "udp reverse", "udp rr"]
        .iter()
        .flat_map(|kind| ["64", "1K"].map(|size| (kind, size)))
        .flat_map(|(kind, size)| [4, 6].map(|family| (kind, size, family)))
        .map(|(kind, size, family)| match kind.ends_with("rr") {
            true => format!("{kind} {size}/{size} x2 w1 d1 ipv{family}"),
            false => format!("{kind} {size} x2 w1 ipv{family}"),
        })
        .collect();
    assert_eq!(names(&spec), expected);
}

#[test]
fn groups_follow_the_test() {
    use Direction::{ClientToServer as Up, ServerToClient as Down};
    for (test, expected) in [
        (Test::Stream, vec![(Traffic::Stream, Up)]),
        (Test::Reverse, vec![(Traffic::Stream, Down)]),
        (
            Test::Bidir,
            vec![(Traffic::Stream, Up), (Traffic::Stream, Down)],
        ),
        (Test::Rr, vec![(Traffic::Rr, Up)]),
        (Test::Crr, vec![(Traffic::Crr, Up)]),
    ] {
        let plan = check(&Spec {
            tests: vec![test],
            ..to_host()
        })
        .unwrap();
        let case = &plan.cases[0];
        let groups: Vec<_> = case
            .groups
            .iter()
            .map(|g| (g.traffic, g.direction))
            .collect();
        assert_eq!(groups, expected);
        assert_eq!(case.total_flows() as usize, expected.len());
    }
}

#[test]
fn rates_are_totals_and_limits_have_no_warmup() {
    let spec = Spec {
        tests: vec![Test::Rr],
        flows: vec![1, 100],
        rates: vec![PerSecond {
            value: 1000.0,
            scope: Scope::Flow,
        }],
        transactions: Some(5000),
        ..to_host()
    };
    let plan = check(&spec).unwrap();
    let loads: Vec<Load> = plan.cases.iter().map(|case| case.load).collect();
    let rate = |per_second| Load::Rate { per_second };
    assert_eq!(loads, [rate(1000.0), rate(100_000.0)]);
    assert_eq!(plan.cases[1].name, "tcp rr 1/1 x100 w1 d1 rate=100K");
    assert_eq!(plan.cases[1].limit, Limit::Transactions { count: 5000 });
    assert_eq!(
        (plan.cases[1].warmup_ns, plan.cases[1].duration_ns()),
        (0, None)
    );
}

#[test]
fn names_carry_every_option_that_changes_the_traffic() {
    let named = |change: fn(&mut Spec)| {
        let mut spec = to_host();
        change(&mut spec);
        names(&spec).remove(0)
    };
    let rr = named(|spec| {
        spec.protos = vec![Proto::Udp];
        spec.tests = vec![Test::Rr];
        spec.flows = vec![10];
        spec.workers = vec![2];
        spec.depths = vec![4];
        spec.rates = vec!["1000/total".parse().unwrap()];
        spec.wait = Some(Wait::Spin);
        spec.timeout = Some(2 * SECOND);
        spec.think = Some(10_000_000);
    });
    assert_eq!(
        rr,
        "udp rr 1/1 x10 w2 d4 rate=1K timeout=2s think=10ms spin"
    );
    let stream = named(|spec| {
        spec.flows = vec![8];
        spec.client_workers = Some(2);
        spec.server_workers = Some(4);
        spec.nodelay = Some(true);
        spec.congestion = Some("bbr".to_string());
        spec.mss = Some(1000);
        spec.window = Some(1 << 20);
        spec.pacing = Some(1_000_000);
        spec.dscp = Some(46);
        spec.coalesce = Some(4);
        spec.close = Some(CloseKind::Rst);
        spec.source_ports = Some(SourcePorts::Fixed);
        spec.receive = Some(Receive::Discard);
        spec.as_application = true;
        spec.client_wait = Some(Wait::Spin);
        spec.server_busy_poll = Some(50);
    });
    assert_eq!(
        stream,
        "tcp stream 128K x8 w2:4 nodelay=on cc=bbr mss=1000 window=1M pacing=1M dscp=46 \
         coalesce=4 close=rst ports=fixed discard as-application client-spin \
         server-busy-poll=50us"
    );
    let udp = named(|spec| {
        spec.protos = vec![Proto::Udp];
        spec.bitrates = vec![10_000_000_000];
        spec.rcvbuf = Some(8 << 20);
        spec.gso = Some(16);
        spec.gro = true;
        spec.fragment = true;
        spec.verify = true;
    });
    assert_eq!(
        udp,
        "udp stream mtu x1 w1 bitrate=10G rcvbuf=8M gso=16 fragment gro verify"
    );
    assert_eq!(
        named(|spec| spec.verify = true),
        "tcp stream 128K x1 w1 d1 verify"
    );
}

#[test]
fn the_same_case_runs_once_and_idle_workers_are_left_out() {
    let spec = Spec {
        flows: vec![1, 8],
        workers: vec![1, 4],
        ..to_host()
    };
    let plan = check(&spec).unwrap();
    let cases: Vec<&str> = plan.cases.iter().map(|case| case.name.as_str()).collect();
    let expected = [
        "tcp stream 128K x1 w1",
        "tcp stream 128K x8 w1",
        "tcp stream 128K x8 w4",
    ];
    assert_eq!(cases, expected);
    assert_eq!(plan.notes.len(), 2, "{:?}", plan.notes);
    assert!(plan.notes[0].starts_with("more workers than flows at 1 of"));
}

#[test]
fn both_sides_in_one_process_share_out_the_cpus() {
    let plan = |cpus: &[u32], host| {
        let base = if host { to_host() } else { Spec::default() };
        let spec = Spec {
            cpus: cpus.to_vec(),
            flows: vec![4],
            workers: vec![2],
            ..base
        };
        check(&spec).unwrap()
    };
    let apart = plan(&[0, 2, 3, 5], false);
    assert_eq!(
        (apart.client_cpus, apart.server_cpus),
        (vec![0, 2], vec![3, 5])
    );
    assert!(apart.notes.is_empty());
    let shared = plan(&[0, 1], false);
    assert_eq!(
        (shared.client_cpus, shared.server_cpus),
        (vec![0, 1], vec![0, 1])
    );
    assert!(
        shared.notes[0].contains("share CPUs 0-1"),
        "{:?}",
        shared.notes
    );
    let remote = plan(&[0, 1], true);
    assert_eq!(
        (remote.client_cpus, remote.server_cpus),
        (vec![0, 1], vec![0, 1])
    );
    assert!(remote.notes.is_empty());
}

#[test]
fn the_port_is_the_hosts_or_the_flags_or_5301() {
    let port = |host: &str, port| {
        let spec = Spec {
            host: Some(host.parse().unwrap()),
            port,
            ..Spec::default()
        };
        check(&spec).unwrap();
        spec.host_port().unwrap().to_string()
    };
    assert_eq!(port("node", None), "node:5301");
    assert_eq!(port("::1", Some(9)), "[::1]:9");
    assert_eq!(port("[::1]:7", None), "[::1]:7");
    assert_eq!(port("node:7", Some(7)), "node:7");
    assert_eq!(Spec::default().host_port(), None);
}

/// Some numbers in any order, none twice.
fn distinct(range: std::ops::Range<u32>, most: usize) -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::hash_set(range, 0..=most).prop_map(|set| set.into_iter().collect())
}

fn matrices() -> impl Strategy<Value = Spec> {
    let loads = prop_oneof![
        Just((vec![], vec![])),
        subsequence(vec![0.001, 2.5, 1000.0, 1e12], 1..4).prop_map(|rates| {
            let scopes = [Scope::Flow, Scope::Total];
            let both = |value| scopes.map(|scope| PerSecond { value, scope });
            (rates.into_iter().flat_map(both).collect(), vec![])
        }),
        Just((vec![], vec![1_000_000, 1_000_001, 1])),
    ];
    let kinds = (
        subsequence(vec![Proto::Tcp, Proto::Udp], 0..=2),
        subsequence(vec![Test::Stream, Test::Reverse, Test::Bidir], 0..=3),
        subsequence(vec![1u64, 64, 1000, 1024, 65_507], 0..=5),
    );
    let rest = (
        distinct(1..200, 3),
        distinct(1..9, 2),
        distinct(1..70, 2),
        subsequence(vec![Family::V4, Family::V6, Family::Any], 0..=3),
        select(vec![None, Some(1), Some(3)]),
    );
    (kinds, loads, rest).prop_map(|((protos, tests, sizes), (rates, bitrates), rest)| Spec {
        host: Some("node".parse().unwrap()),
        protos,
        tests,
        sizes: sizes
            .into_iter()
            .map(|request| SizeSpec {
                request,
                response: None,
            })
            .collect(),
        rates,
        bitrates,
        flows: rest.0,
        workers: rest.1,
        depths: rest.2,
        families: rest.3,
        server_workers: rest.4,
        ..Spec::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn names_are_unique_and_tell_cases_apart(spec in matrices()) {
        let plan = check(&spec).unwrap();
        let names: BTreeSet<&str> = plan.cases.iter().map(|case| case.name.as_str()).collect();
        prop_assert_eq!(names.len(), plan.cases.len());
        let mut bodies = BTreeSet::new();
        for case in &plan.cases {
            prop_assert!(case.workers <= case.flows && case.server_workers <= case.flows);
            bodies.insert(format!("{:?}", Case { name: String::new(), ..case.clone() }));
        }
        prop_assert_eq!(bodies.len(), plan.cases.len());
        // Every point of the matrix is there, under the name that it has as a plan of its own.
        let protos = if spec.protos.is_empty() { vec![Proto::Tcp] } else { spec.protos.clone() };
        for proto in protos {
            let alone = check(&Spec { protos: vec![proto], ..spec.clone() }).unwrap();
            for case in alone.cases {
                prop_assert!(names.contains(case.name.as_str()), "{}", case.name);
            }
        }
    }

    #[test]
    fn a_plan_survives_json(spec in matrices()) {
        let plan = check(&spec).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}

#[test]
fn zero_copy_has_its_engine_where_it_sends() {
    use Engine::{Auto, IoUring, Sockets};
    let cases = [
        (Test::Stream, ZeroCopy::Send, [IoUring, Auto]),
        (Test::Stream, ZeroCopy::Msg, [Sockets, Auto]),
        (Test::Reverse, ZeroCopy::File, [Auto, Sockets]),
        (Test::Bidir, ZeroCopy::Msg, [Sockets, Sockets]),
    ];
    for (test, how, engines) in cases {
        let spec = Spec {
            tests: vec![test],
            zerocopy: Some(how),
            ..to_host()
        };
        let case = check(&spec).unwrap().cases.remove(0);
        let options = &case.options;
        assert_eq!([options.client_engine, options.server_engine], engines);
        // The engine is no word of its own: there is no choice.
        let expected = format!("tcp {test} 128K x1 w1 zerocopy={how}");
        assert_eq!(case.name, expected);
        let sends = [true, false].map(|client| case.zerocopy_of(client).is_some());
        assert_eq!(sends, engines.map(|engine| engine != Auto));
        // The receiver's may be chosen, and is told.
        let spec = Spec {
            engine: Some(how.engine()),
            ..spec
        };
        let case = check(&spec).unwrap().cases.remove(0);
        let options = &case.options;
        assert_eq!(
            [options.client_engine, options.server_engine],
            [how.engine(); 2]
        );
        assert!(case.name.starts_with(&expected), "{}", case.name);
    }
}
