//! When things go wrong and only root can make them go wrong: links that go down, disks that
//! are full, shapers, users without rights.

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use ringperf::record::Run;
use support::netns::{Namespace, Veth, can_make_namespaces};
use support::process::{Ended, RINGPERF, Running};
use support::session::{
    STANDING, Scratch, Server, code, document, one_document, wait_for_intervals,
};

const ENDLESS: [&str; 6] = ["--duration", "90s", "--warmup", "0s", "--interval", "100ms"];
const SHORT: [&str; 6] = [
    "--duration",
    "300ms",
    "--warmup",
    "100ms",
    "--interval",
    "100ms",
];

/// A server at one end of a veth pair.
fn serve_on(veth: &Veth) -> Server {
    let mut command = veth.server.command(RINGPERF);
    let address = Veth::SERVER4.to_string();
    Server::of(command.args(["serve", "--bind", &address, "--port", "0"]))
}

fn client_on(veth: &Veth, server: &Server, arguments: &[&str]) -> Running {
    let host = server.host();
    veth.client.ringperf(&[&["run", &host], arguments].concat())
}

fn run_error(run: &Run) -> &str {
    let samples = run.cases.iter().flat_map(|case| &case.samples);
    let of_samples = samples.filter_map(|sample| sample.error.as_ref());
    let of_cases = run.cases.iter().filter_map(|case| case.error.as_ref());
    let first = run.error.iter().chain(of_cases).chain(of_samples).next();
    &first.unwrap_or_else(|| panic!("no error: {run:?}")).text
}

/// The link goes down in a sample: both ends leave, and the server takes the next client.
fn silence(kind: &[&str], patience: Duration) {
    let veth = Veth::new();
    let server = serve_on(&veth);
    let kept = Scratch::new("link-down");
    let rest = [
        "--peer-timeout",
        "2s",
        "--json",
        "-",
        "--output",
        kept.text(),
    ];
    let client = client_on(&veth, &server, &[kind, &ENDLESS, &rest].concat());
    wait_for_intervals(&client, 4);
    veth.set_link(false);
    let down = Instant::now();
    let ended = client.ended(Duration::from_secs(40));
    let took = down.elapsed();
    assert!(
        took >= patience.saturating_sub(Duration::from_secs(1)),
        "{took:?}"
    );
    assert!(
        took < patience + Duration::from_secs(5),
        "{took:?}: {ended:?}"
    );
    assert_eq!(code(&ended), 4, "{ended:?}");
    let run = document(&ended);
    assert!(
        run_error(&run).contains("nothing arrived"),
        "{}",
        run_error(&run)
    );
    let sample = &run.cases[0].samples[0];
    assert!(!run.complete && !sample.complete);
    assert!(
        sample.groups[0].figures.received.bytes > 0,
        "what was measured"
    );
    assert!(sample.intervals.server.len() >= 3, "{:?}", sample.intervals);
    assert_eq!(kept.only_run(), run);
    server
        .running
        .wait_for_stderr("the client was lost", Duration::from_secs(5));
    veth.set_link(true);
    let next = client_on(
        &veth,
        &server,
        &[&SHORT[..], &["--wait-for-server", "20s"]].concat(),
    );
    assert_eq!(code(&next.ended(Duration::from_secs(40))), 0);
}

#[test]
fn the_link_goes_down_under_transactions() {
    if can_make_namespaces("the_link_goes_down_under_transactions") {
        silence(&["--test", "rr"], Duration::from_secs(2));
    }
}

/// A stream may fill the path and hold up heartbeats, so that patience is 15 s.
#[test]
fn the_link_goes_down_under_a_stream() {
    if can_make_namespaces("the_link_goes_down_under_a_stream") {
        silence(&["--test", "stream"], Duration::from_secs(15));
    }
}

/// Ten times what the path carries, for 20 s: its loss is a result, and nobody is taken for dead.
#[test]
fn a_flood_through_a_shaper_is_no_dead_peer() {
    if !can_make_namespaces("a_flood_through_a_shaper_is_no_dead_peer") {
        return;
    }
    let veth = Veth::new();
    // A queue shorter than a socket's send buffer: it drops before the sender has to wait.
    let shape = "qdisc add dev veth0 root tbf rate 100mbit burst 64kb latency 5ms";
    veth.client.run("tc", &shape.split(' ').collect::<Vec<_>>());
    let server = serve_on(&veth);
    let asked = [
        "--proto",
        "udp",
        "--bitrate",
        "1G",
        "--duration",
        "20s",
        "--peer-timeout",
        "2s",
        "--json",
        "-",
    ];
    let ended = client_on(&veth, &server, &asked).ended(Duration::from_secs(60));
    assert_eq!(code(&ended), 0, "{ended:?}");
    let run = document(&ended);
    let figures = &run.cases[0].samples[0].groups[0].figures;
    let mbps = figures.throughput_bps / 1e6;
    assert!(
        run.complete && (50.0..101.0).contains(&mbps),
        "{mbps} Mbit/s"
    );
    let udp = figures.udp.as_ref().expect("of UDP");
    assert!(udp.lost.expect("headers") > 0, "{udp:?}");
    assert!(
        figures.reconciliation.reconciled,
        "{:?}",
        figures.reconciliation
    );
}

/// Runs a client in a mount namespace of its own, after a command of the shell.
fn after(prepare: &str, server: &Server, arguments: &str) -> Ended {
    let script = format!(
        "{prepare} && exec {RINGPERF} run {} {} {arguments}",
        server.host(),
        SHORT.join(" ")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    Running::start(&mut command).ended(STANDING)
}

#[test]
fn a_full_disk_says_so_and_loses_nothing_else() {
    if !can_make_namespaces("a_full_disk_says_so_and_loses_nothing_else") {
        return;
    }
    let server = Server::start(&[]);
    let (disk, file) = (Scratch::new("full-disk"), Scratch::new("other-disk"));
    let prepare = format!("mount -t tmpfs -o size=4k ringperf {}", disk.text());
    let path = file.path().join("result.json");
    let arguments = format!("--output {}/runs --json {}", disk.text(), path.display());
    let ended = after(&prepare, &server, &arguments);
    assert_eq!(code(&ended), 4, "{ended:?}");
    let line = ended.stderr.lines().find(|line| line.contains("ERROR"));
    let line = line.unwrap_or_else(|| panic!("{ended:?}"));
    assert!(
        line.contains(disk.text()) && line.contains("No space left"),
        "{line}"
    );
    assert!(
        ended.stdout.contains("tcp stream 128K"),
        "the table: {ended:?}"
    );
    let text = std::fs::read_to_string(&path).expect("the other file");
    let run = one_document(&text);
    let error = run.error.expect("what got out says what did not");
    assert!(
        run.complete && error.text.contains(disk.text()),
        "{error:?}"
    );

    let arguments = format!(
        "--json {}/result.json --output {}",
        disk.text(),
        file.text()
    );
    std::fs::remove_file(&path).expect("it is there");
    let ended = after(&prepare, &server, &arguments);
    assert_eq!(code(&ended), 4, "{ended:?}");
    let run = file.only_run();
    assert!(run.complete && run.error.is_some(), "{:?}", run.error);
    assert!(
        ended.stdout.contains("tcp stream 128K"),
        "the table: {ended:?}"
    );
}

/// A user without any capability drives the same traffic by the same command.
#[test]
fn a_user_without_rights() {
    if !can_make_namespaces("a_user_without_rights") {
        return;
    }
    let server = Server::start(&[]);
    // The way to the program may be closed to others; a copy is not.
    let scratch = Scratch::new("nobody");
    let program = scratch.path().join("ringperf");
    std::fs::copy(RINGPERF, &program).expect("room for it");
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]);
        command
            .arg(&program)
            .args(["run", &server.host(), "--json", "-"]);
        Running::start(command.args(SHORT).args(arguments)).ended(STANDING)
    };
    for kind in [
        &["--proto", "tcp", "--test", "stream,rr,crr"][..],
        &["--proto", "udp"],
    ] {
        let ended = as_nobody(kind);
        assert_eq!(code(&ended), 0, "{ended:?}");
        assert!(document(&ended).complete);
    }
    let ended = as_nobody(&["--rcvbuf", "64M"]);
    assert_eq!(code(&ended), 5, "{ended:?}");
    let run = document(&ended);
    let text = run_error(&run);
    assert!(
        text.contains("--rcvbuf") && text.contains("CAP_NET_ADMIN"),
        "{text}"
    );
    assert!(run.cases[0].samples.is_empty(), "before any traffic");
    server.serves_the_next();
}

/// The sysctl is named where it is the cause. Its text is put over the real one, since turning
/// the real one off would stop every other test; the refusal itself comes from a filter.
#[test]
fn io_uring_turned_off_by_the_sysctl() {
    if !can_make_namespaces("io_uring_turned_off_by_the_sysctl") {
        return;
    }
    let server = Server::start(&[]);
    let scratch = Scratch::new("sysctl");
    let file = scratch.path().join("value");
    std::fs::write(&file, "2\n").expect("a file");
    let script = format!(
        "mount --bind {} /proc/sys/kernel/io_uring_disabled && exec {RINGPERF} run {} \
         --engine io_uring --json -",
        file.display(),
        server.host()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let denied = support::seccomp::io_uring(libc::EPERM);
    let ended = Running::start(support::seccomp::deny(&mut command, &denied)).ended(STANDING);
    assert_eq!(code(&ended), 5, "{ended:?}");
    let run = document(&ended);
    let text = run_error(&run);
    for needed in [
        "on the client",
        "kernel.io_uring_disabled is 2",
        "sysctl -w",
    ] {
        assert!(text.contains(needed), "{needed}: {text}");
    }
}

/// Connections faster than their ports come back: it is said what ran out and what to do.
#[test]
fn connections_that_run_out_of_ports_say_so() {
    if !can_make_namespaces("connections_that_run_out_of_ports_say_so") {
        return;
    }
    let namespace = Namespace::new("ports");
    // Twenty ports, each of which rests for a minute after its connection.
    for set in [
        "net.ipv4.ip_local_port_range=40000 40019",
        "net.ipv4.tcp_tw_reuse=0",
    ] {
        namespace.run("sysctl", &["-q", "-w", set]);
    }
    for engine in ["io_uring", "sockets"] {
        let crr = [
            "run", "--test", "crr", "--flows", "4", "--json", "-", "--quiet",
        ];
        let how = ["--engine", engine];
        let ended = namespace
            .ringperf(&[&crr[..], &how, &SHORT].concat())
            .ended(Duration::from_secs(60));
        let run = document(&ended);
        let findings = run.cases.iter().flat_map(|case| &case.samples);
        let mut findings = findings.flat_map(|sample| &sample.findings);
        let told = findings.find(|finding| finding.code == "ports-exhausted");
        let told = told.unwrap_or_else(|| panic!("{engine}: nothing was said: {ended:?}"));
        for word in ["TIME_WAIT", "ip_local_port_range", "--close rst"] {
            assert!(told.text.contains(word), "{word}: {}", told.text);
        }
    }
}
