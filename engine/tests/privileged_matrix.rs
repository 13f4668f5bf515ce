//! Every kind of traffic between two namespaces, every count of it reconciled.

mod support;

use std::net::IpAddr;
use std::time::Duration;

use ringperf::plan::Proto;
use ringperf::record::{Run, Sample};
use support::netns::{Namespace, Veth, can_make_namespaces};
use support::process::Running;
use support::sound::{
    assert_in_order, assert_sound, document, figures, finding, idle_windows, only,
};

/// Short samples: it is the counts that matter.
const SHORT: [&str; 8] = [
    "--duration",
    "150ms",
    "--warmup",
    "50ms",
    "--interval",
    "100ms",
    "--json",
    "-",
];

const PATIENCE: Duration = Duration::from_secs(120);

fn serve(namespace: &Namespace, more: &[&str]) -> Running {
    let arguments = [&["serve"], more].concat();
    let server = namespace.ringperf(&arguments);
    server.wait_for_stdout("serving on", Duration::from_secs(10));
    server
}

/// Runs a client in a namespace to its end.
fn run(namespace: &Namespace, host: IpAddr, arguments: &[&str]) -> Run {
    let host = host.to_string();
    let all = [&["run", &host, "--quiet"], arguments, &SHORT].concat();
    document(namespace.ringperf(&all), PATIENCE, 0)
}

/// The part of the matrix that one transport has, over one address family.
fn matrix(test: &str, tests: &str, proto: &str, v6: bool) {
    if !can_make_namespaces(test) {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server, &[]);
    let matrix = ["--proto", proto, "--test", tests, "--flows", "1,100"];
    let arguments = [&matrix[..], &["--size", "64,1K,16K"]].concat();
    let result = run(&veth.client, Veth::server_address(v6), &arguments);
    let kinds = tests.split(',').count();
    assert_sound(&result, kinds * 3 * 2);
    // Short windows on a busy machine.
    assert!(idle_windows(&result) <= 1, "windows without an arrival");
    assert_in_order(&result);
    for case in &result.cases {
        let used_v6 = case.samples[0].flows.iter().all(|flow| {
            let client = flow.client.as_ref().expect("every flow is the client's");
            client.peer.starts_with('[') == v6
        });
        assert!(used_v6, "{}: another address family", case.case.name);
        assert_fragments(
            &case.case.name,
            case.case.proto,
            case.case.request_bytes,
            &case.samples,
        );
    }
}

/// Datagrams of 16K on a path with an MTU of 1500 are fragmented, and a finding says into how
/// many; nothing else is.
fn assert_fragments(name: &str, proto: Proto, bytes: u64, samples: &[Sample]) {
    for sample in samples {
        let found = finding(sample, "fragmented");
        if proto != Proto::Udp || bytes < 1473 {
            assert_eq!(found, None, "{name}");
            continue;
        }
        let text = &found
            .unwrap_or_else(|| panic!("{name}: {:?}", sample.findings))
            .text;
        assert!(
            text.contains("12.0 fragments per datagram"),
            "{name}: {text}"
        );
    }
}

#[test]
fn tcp_over_ipv4() {
    matrix("tcp_over_ipv4", "stream,reverse,bidir,rr,crr", "tcp", false);
}

#[test]
fn tcp_over_ipv6() {
    matrix("tcp_over_ipv6", "stream,reverse,bidir,rr,crr", "tcp", true);
}

#[test]
fn udp_over_ipv4() {
    matrix("udp_over_ipv4", "stream,reverse,bidir,rr", "udp", false);
}

#[test]
fn udp_over_ipv6() {
    matrix("udp_over_ipv6", "stream,reverse,bidir,rr", "udp", true);
}

#[test]
fn without_a_size_datagrams_fill_the_path_and_are_never_fragmented() {
    if !can_make_namespaces("without_a_size_datagrams_fill_the_path_and_are_never_fragmented") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server, &[]);
    for (mtu, v6, size) in [
        (1500, false, 1472),
        (1500, true, 1452),
        (9000, false, 8972),
        (1280, true, 1232),
    ] {
        veth.set_mtu(mtu);
        let arguments = ["--proto", "udp", "--test", "stream,reverse"];
        let result = run(&veth.client, Veth::server_address(v6), &arguments);
        assert_sound(&result, 2);
        for case in &result.cases {
            assert_eq!(case.case.request_bytes, size, "MTU {mtu}");
            assert!(
                case.case.name.contains(&size.to_string()),
                "{}",
                case.case.name
            );
            assert_eq!(finding(&case.samples[0], "fragmented"), None);
            assert!(finding(&case.samples[0], "unpaced").is_some());
        }
    }
    for side in [&veth.client, &veth.server] {
        let fragments = side.counter("Ip.FragCreates") + side.counter("Ip6FragCreates");
        assert_eq!(fragments, 0, "{}", side.name());
    }
}

#[test]
fn a_namespace_with_nothing_but_lo_works() {
    if !can_make_namespaces("a_namespace_with_nothing_but_lo_works") {
        return;
    }
    let alone = Namespace::new("alone");
    let _server = serve(&alone, &[]);
    for host in ["127.0.0.1", "::1"] {
        let host: IpAddr = host.parse().expect("an address");
        let tcp = run(&alone, host, &["--test", "stream,rr,crr"]);
        assert_sound(&tcp, 3);
        let udp = run(&alone, host, &["--proto", "udp", "--test", "bidir,rr"]);
        assert_sound(&udp, 2);
        assert_in_order(&udp);
    }
    let tour = [&["run", "--quiet"], &SHORT[..]].concat();
    let tour = document(alone.ringperf(&tour), PATIENCE, 0);
    assert_sound(&tour, 4);
}

#[test]
fn two_workers_on_each_side_share_the_flows_evenly() {
    if !can_make_namespaces("two_workers_on_each_side_share_the_flows_evenly") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server, &[]);
    let host = Veth::server_address(false);
    for proto in ["tcp", "udp"] {
        let arguments = ["--proto", proto, "--test", "stream,reverse,bidir,rr"];
        let two = [
            "--workers",
            "2",
            "--flows",
            "6",
            "--depth",
            "4",
            "--size",
            "1K",
        ];
        let result = run(&veth.client, host, &[&arguments[..], &two].concat());
        // That flow f belongs to worker f mod 2 on both sides is part of what is sound.
        assert_sound(&result, 4);
        assert_in_order(&result);
        for case in &result.cases {
            assert_eq!((case.case.workers, case.case.server_workers), (2, 2));
            assert_eq!(case.case.depth, Some(4));
            let engine = &case.samples[0].engine;
            for side in [&engine.client, &engine.server] {
                let side = side.as_ref().expect("a report");
                assert_eq!((side.depth, side.worker_cpus.len()), (4, 2), "{side:?}");
            }
        }
    }
}

#[test]
fn only_the_server_spreads_over_two_workers() {
    if !can_make_namespaces("only_the_server_spreads_over_two_workers") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server, &[]);
    let arguments = [
        "--server-workers",
        "2",
        "--flows",
        "8",
        "--test",
        "stream,rr,crr",
    ];
    let result = run(&veth.client, Veth::server_address(true), &arguments);
    assert_sound(&result, 3);
    let spread = |sample: &Sample| {
        let workers = sample.flows.iter().filter_map(|flow| flow.server.as_ref());
        let second = workers.filter(|server| server.worker == 1).count();
        (sample.flows.len(), second)
    };
    for case in &result.cases[..2] {
        assert_eq!((case.case.workers, case.case.server_workers), (1, 2));
        assert_eq!(spread(&case.samples[0]), (8, 4), "{}", case.case.name);
    }
}

/// A run that an exact amount ends.
fn exact(namespace: &Namespace, arguments: &[&str]) -> Run {
    let host = Veth::SERVER4.to_string();
    let base = [
        "run",
        &host,
        "--quiet",
        "--json",
        "-",
        "--interval",
        "100ms",
    ];
    let all = [&base[..], arguments].concat();
    document(namespace.ringperf(&all), PATIENCE, 0)
}

#[test]
fn exact_amounts_of_streams_are_exact() {
    if !can_make_namespaces("exact_amounts_of_streams_are_exact") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server, &[]);
    for (proto, flows) in [("tcp", "1"), ("udp", "1"), ("tcp", "7"), ("udp", "7")] {
        let what = format!("{proto} x{flows}");
        let tests = ["--test", "stream,reverse,bidir"];
        let kinds = [&["--proto", proto, "--flows", flows], &tests[..]].concat();
        let with = |more: &[&str]| {
            let run = exact(&veth.client, &[&kinds, more].concat());
            assert_sound(&run, 3);
            run
        };
        let bytes = with(&["--bytes", "1000001", "--size", "1000"]);
        for group in groups(&bytes) {
            assert_eq!(group.sent.bytes, 1_000_001, "{what}");
            // Each flow's last message is shorter.
            let flows: u64 = flows.parse().expect("a number");
            let most = 1_000_001 / 1000 + flows;
            assert!(group.sent.messages.expect("sends") <= most, "{what}");
        }
        let messages = with(&["--transactions", "1003", "--size", "300"]);
        for group in groups(&messages) {
            let sent = (group.sent.messages, group.sent.bytes);
            assert_eq!(sent, (Some(1003), 1003 * 300), "{what}");
        }
    }
}

#[test]
fn exact_numbers_of_transactions_are_exact() {
    if !can_make_namespaces("exact_numbers_of_transactions_are_exact") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server, &[]);
    let kinds = [("tcp", "rr", "1"), ("udp", "rr", "1"), ("tcp", "rr", "7")];
    let more = [("udp", "rr", "7"), ("tcp", "crr", "3")];
    for (proto, test, flows) in kinds.into_iter().chain(more) {
        let kind = ["--proto", proto, "--test", test, "--flows", flows];
        let count = ["--transactions", "501", "--size", "10"];
        let run = exact(&veth.client, &[&kind[..], &count].concat());
        assert_sound(&run, 1);
        let t = figures(only(&run).1).transactions.expect("transactions");
        let got = (t.started, t.done, t.failed);
        assert_eq!(got, (501, 501, 0), "{proto} {test} x{flows}");
    }
}

fn groups(run: &Run) -> Vec<&ringperf::record::Figures> {
    let samples = run.cases.iter().flat_map(|case| &case.samples);
    samples
        .flat_map(|sample| sample.groups.iter().map(|group| &group.figures))
        .collect()
}

#[test]
fn datagrams_cut_and_merged_by_the_kernel_are_counted_one_by_one() {
    if !can_make_namespaces("datagrams_cut_and_merged_by_the_kernel_are_counted_one_by_one") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server, &[]);
    let host = Veth::server_address(false);
    let kinds = [
        "--proto",
        "udp",
        "--test",
        "stream,bidir",
        "--size",
        "20,1000",
    ];
    for offload in [&["--gso", "16"][..], &["--gro"], &["--gso", "16", "--gro"]] {
        for load in [&[][..], &["--rate", "5000", "--flows", "1,3"]] {
            let result = run(&veth.client, host, &[&kinds[..], offload, load].concat());
            assert_sound(&result, if load.is_empty() { 4 } else { 8 });
            assert_in_order(&result);
            for case in &result.cases {
                assert_offload(case, offload);
            }
        }
    }
}

/// Sends of 16 keep the pace of single ones and the exact amount.
#[test]
fn datagrams_cut_by_the_kernel_keep_the_pace() {
    if !can_make_namespaces("datagrams_cut_by_the_kernel_keep_the_pace") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server, &[]);
    let amount = ["--proto", "udp", "--size", "100", "--transactions", "1003"];
    for flows in ["1", "3"] {
        let pace = ["--rate", "5000/total", "--gso", "16", "--flows", flows];
        let run = exact(&veth.client, &[&amount[..], &pace].concat());
        assert_sound(&run, 1);
        let sample = only(&run).1;
        assert_eq!(figures(sample).sent.messages, Some(1003));
        // A busy machine is late, none is early.
        assert!(sample.duration_s >= 0.19, "{} s", sample.duration_s);
    }
}

fn assert_offload(case: &ringperf::record::CaseResult, offload: &[&str]) {
    let name = &case.case.name;
    for group in &case.samples[0].groups {
        let udp = group.figures.udp.as_ref().expect("a UDP case");
        let jitter = (udp.jitter_ns, &udp.jitter_missing);
        assert!(
            udp.jitter_ns.is_none() && udp.jitter_missing.is_some(),
            "{name}: {jitter:?}"
        );
        let arrived = group.figures.received.messages.expect("datagrams");
        let operations = udp.receive_operations.expect("counted");
        if !offload.contains(&"--gro") {
            assert!(operations >= arrived, "{name}: {operations} for {arrived}");
        }
    }
}
