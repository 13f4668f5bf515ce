//! The kernel probes against the kernel's own counters: root only, in network namespaces.
//!
//! A test that cannot run here says so with `SKIP`. The traffic is made by the tests themselves
//! and bounded in number.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use ringperf::kernel::counters::Reading;
use ringperf::kernel::{FlowTag, Place, ProbeRequest, ProbeSet, Probes};
use ringperf::record::{KernelReport, RetransmitReport, UnavailableStatus};
use ringperf_ebpf::programs::SLOW_PATH;
use support::netns::{Namespace, Veth, can_make_namespaces};
use support::sound::{assert_sound, document};

/// The probes count the whole system: one test at a time.
static SERIAL: Mutex<()> = Mutex::new(());

const TAG: FlowTag = FlowTag { group: 2, flow: 7 };

fn skip(test: &str, reason: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "SKIP {test}: {reason}");
}

/// The lock, where the test can run: as root and with these programs.
fn may_run(test: &str, tools: &[&str]) -> Option<MutexGuard<'static, ()>> {
    let lock = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    for tool in tools {
        let found = Command::new(tool).arg("--version").output();
        if found.is_err() {
            skip(test, &format!("{tool} is not installed"));
            return None;
        }
    }
    can_make_namespaces(test).then_some(lock)
}

/// Every probe attached; none, after having said why, where this kernel cannot.
fn probes(test: &str) -> Option<Probes> {
    let probes = Probes::load(ProbeRequest::default());
    let Some(first) = probes.unavailable().first() else {
        return Some(probes);
    };
    assert_ne!(first.status, UnavailableStatus::Failed, "{first:?}");
    skip(test, &format!("{}: {}", first.program, first.text));
    None
}

/// What the probes saw since the load.
fn report(probes: &mut Probes) -> KernelReport {
    let window = probes.snapshot().expect("the maps can be read");
    probes.report(&[window], Vec::new())
}

/// What the stage programs saw since the load.
fn stage_report(probes: &mut Probes) -> KernelReport {
    let window = probes.snapshot().expect("the maps can be read");
    let mut report = KernelReport::default();
    probes.add_stages(&mut report, &[window], false);
    report
}

/// Segments of ours dropped for a reason.
fn dropped(report: &KernelReport, reason: &str) -> u64 {
    report
        .drops
        .iter()
        .filter(|line| line.reason == reason)
        .map(|line| line.ours)
        .sum()
}

/// How far a counter of this thread's namespace moved.
fn moved(before: &Reading, after: &Reading, source: &str, name: &str) -> i64 {
    let all = before.moved(after);
    let line = all
        .iter()
        .find(|c| c.source.starts_with(source) && c.name == name);
    line.map_or(0, |line| line.delta)
}

/// Equal within 1 %.
#[track_caller]
fn assert_same(seen: u64, kernel: u64, what: &str, report: &KernelReport) {
    assert!(kernel > 0, "{what}: the kernel counted nothing");
    let difference = seen.abs_diff(kernel);
    assert!(
        difference * 100 <= kernel,
        "{what}: {seen}, kernel {kernel}: {report:#?}"
    );
}

/// A bound socket in a namespace, followed.
fn udp(namespace: &Namespace, probes: &mut Probes, address: SocketAddr) -> UdpSocket {
    let _inside = namespace.enter();
    let socket = UdpSocket::bind(address).expect("a UDP socket");
    probes
        .follow_this_namespace()
        .expect("a namespace can be followed");
    probes
        .follow(socket.as_fd(), TAG)
        .expect("a socket can be followed");
    socket
}

/// Where the kernel has no memory for what programs keep with a socket, the traffic goes on, and
/// the run says that its flows are not watched.
#[test]
fn flows_that_cannot_be_marked_are_told() {
    let Some(_lock) = may_run("flows_that_cannot_be_marked_are_told", &[]) else {
        return;
    };
    if probes("flows_that_cannot_be_marked_are_told").is_none() {
        return;
    }
    let namespace = Namespace::new("optmem");
    namespace.ip(&["link", "set", "lo", "up"]);
    namespace.run("sh", &["-c", "echo 1 > /proc/sys/net/core/optmem_max"]);
    let rr = ["--test", "rr", "--flows", "2", "--duration", "300ms"];
    let arguments = [&["run", "--json", "-", "--quiet"][..], &rr].concat();
    let run = document(namespace.ringperf(&arguments), Duration::from_secs(30), 0);
    assert_sound(&run, 1);
    let sample = &run.cases[0].samples[0];
    for side in ["client", "server"] {
        let unwatched = sample.findings.iter().find(|finding| {
            finding.code == "flows-unwatched" && finding.text.contains(&format!("on the {side}"))
        });
        let text = &unwatched.expect("a finding for each side").text;
        assert!(text.contains("2 flows"), "{text}");
        assert!(text.contains("Cannot allocate memory"), "{text}");
    }
}

/// A rule that drops 1 in 50 of our datagrams.
#[test]
fn a_rule_that_drops_is_seen_as_netfilter() {
    let test = "a_rule_that_drops_is_seen_as_netfilter";
    let Some(_lock) = may_run(test, &["nft"]) else {
        return;
    };
    let Some(mut probes) = probes(test) else {
        return;
    };
    let veth = Veth::new();
    veth.server.run("nft", &["add", "table", "ip", "t"]);
    let chain = "{ type filter hook input priority 0 ; }";
    veth.server
        .run("nft", &["add", "chain", "ip", "t", "in", chain]);
    let rule = "ip protocol udp numgen inc mod 50 0 counter drop";
    let mut words = vec!["add", "rule", "ip", "t", "in"];
    words.extend(rule.split(' '));
    veth.server.run("nft", &words);
    let server = udp(
        &veth.server,
        &mut probes,
        SocketAddr::new(Veth::SERVER4.into(), 0),
    );
    let client = udp(
        &veth.client,
        &mut probes,
        SocketAddr::new(Veth::CLIENT4.into(), 0),
    );
    let to = server.local_addr().expect("an address");
    for _ in 0..10_000 {
        client
            .send_to(&[0; 64], to)
            .expect("a datagram can be sent");
    }
    let report = report(&mut probes);
    let rules = veth.server.run("nft", &["list", "chain", "ip", "t", "in"]);
    let mut words = rules
        .split_whitespace()
        .skip_while(|word| *word != "packets")
        .skip(1);
    let counted: u64 = words
        .next()
        .and_then(|w| w.parse().ok())
        .expect("the rule counts");
    assert_same(
        dropped(&report, "NETFILTER_DROP"),
        counted,
        "NETFILTER_DROP",
        &report,
    );
    assert_eq!(counted, 200);
    let line = report
        .drops
        .iter()
        .find(|line| line.reason == "NETFILTER_DROP");
    let line = line.expect("it is there");
    assert_ne!(line.place, "hidden");
    assert_eq!(line.per_interval, [line.ours]);
}

/// A receive buffer of 4 KiB that nobody reads.
#[test]
fn a_small_buffer_is_seen_at_its_socket() {
    let test = "a_small_buffer_is_seen_at_its_socket";
    let Some(_lock) = may_run(test, &[]) else {
        return;
    };
    let Some(mut probes) = probes(test) else {
        return;
    };
    let veth = Veth::new();
    let server = udp(
        &veth.server,
        &mut probes,
        SocketAddr::new(Veth::SERVER4.into(), 0),
    );
    let client = udp(
        &veth.client,
        &mut probes,
        SocketAddr::new(Veth::CLIENT4.into(), 0),
    );
    setsockopt(&server, sockopt::RcvBuf, &4096).expect("a buffer can be set");
    let to = server.local_addr().expect("an address");
    let _inside = veth.server.enter();
    let before = Reading::of_this_host();
    for _ in 0..5000 {
        client
            .send_to(&[0; 512], to)
            .expect("a datagram can be sent");
    }
    let after = Reading::of_this_host();
    let report = report(&mut probes);
    let kernel = moved(&before, &after, "snmp.Udp", "RcvbufErrors") as u64;
    assert_same(
        dropped(&report, "SOCKET_RCVBUFF"),
        kernel,
        "SOCKET_RCVBUFF",
        &report,
    );
    assert_same(
        report.udp_queue_fail.ours,
        kernel,
        "udp_fail_queue_rcv_skb",
        &report,
    );
}

/// A shaper with room for a few packets.
#[test]
fn a_full_queue_is_seen_at_its_discipline() {
    let test = "a_full_queue_is_seen_at_its_discipline";
    let Some(_lock) = may_run(test, &["tc"]) else {
        return;
    };
    let Some(mut probes) = probes(test) else {
        return;
    };
    let veth = Veth::new();
    let qdisc = "qdisc add dev veth0 root tbf rate 10mbit burst 3000 limit 6000";
    veth.client.run("tc", &qdisc.split(' ').collect::<Vec<_>>());
    let server = udp(
        &veth.server,
        &mut probes,
        SocketAddr::new(Veth::SERVER4.into(), 0),
    );
    let client = udp(
        &veth.client,
        &mut probes,
        SocketAddr::new(Veth::CLIENT4.into(), 0),
    );
    let to = server.local_addr().expect("an address");
    let _inside = veth.client.enter();
    let before = Reading::of_this_host();
    let mut refused = 0;
    for _ in 0..5000 {
        // The kernel tells the sender of some of the drops.
        refused += u64::from(client.send_to(&[0; 1000], to).is_err());
    }
    let after = Reading::of_this_host();
    let report = report(&mut probes);
    let kernel = moved(&before, &after, "qdisc.veth0.tbf", "drops") as u64;
    assert_same(
        dropped(&report, "QDISC_DROP"),
        kernel,
        "QDISC_DROP",
        &report,
    );
    assert!(refused <= kernel);
    let text = veth
        .client
        .run("tc", &["-s", "qdisc", "show", "dev", "veth0"]);
    assert!(
        text.contains(&format!("dropped {kernel},")),
        "{kernel}: {text}"
    );
}

/// A listener that accepts nobody.
#[test]
fn a_full_listen_queue_is_seen() {
    let test = "a_full_listen_queue_is_seen";
    let Some(_lock) = may_run(test, &["sysctl"]) else {
        return;
    };
    let Some(mut probes) = probes(test) else {
        return;
    };
    let veth = Veth::new();
    veth.server.run("sysctl", &["-qw", "net.core.somaxconn=1"]);
    let listener = {
        let _inside = veth.server.enter();
        let listener = TcpListener::bind((Veth::SERVER4, 0)).expect("a listener");
        probes
            .follow_this_namespace()
            .expect("a namespace can be followed");
        probes
            .follow(listener.as_fd(), TAG)
            .expect("a listener can be followed");
        listener
    };
    let to = listener.local_addr().expect("an address");
    let before = around(&veth.server, &listener);
    let mut connected = Vec::new();
    {
        let _inside = veth.client.enter();
        for _ in 0..12 {
            let wait = Duration::from_millis(100);
            connected.extend(TcpStream::connect_timeout(&to, wait).ok());
        }
    }
    let after = around(&veth.server, &listener);
    let window = probes.snapshot().expect("the maps can be read");
    let report = probes.report(&[window], before.moved(&after));
    let kernel = moved(&before, &after, "netstat.TcpExt", "ListenOverflows") as u64;
    assert_same(report.listen_drops.ours, kernel, "listen drops", &report);
    assert_eq!(report.listen_drops.system, report.listen_drops.ours);
    assert!(
        connected.len() <= 2,
        "a queue of 1 holds 2: {}",
        connected.len()
    );
}

/// The counters of a namespace, with those of a listener.
fn around(namespace: &Namespace, listener: &TcpListener) -> Reading {
    let _inside = namespace.enter();
    let mut reading = Reading::of_this_host();
    reading
        .add_listener(listener.as_fd())
        .expect("a listener has counters");
    reading
}

/// A receiver that goes away with data unread, and one that is not there.
#[test]
fn a_killed_receiver_is_seen_as_resets_and_no_socket() {
    let test = "a_killed_receiver_is_seen_as_resets_and_no_socket";
    let Some(_lock) = may_run(test, &[]) else {
        return;
    };
    let Some(mut probes) = probes(test) else {
        return;
    };
    let veth = Veth::new();
    let server = udp(
        &veth.server,
        &mut probes,
        SocketAddr::new(Veth::SERVER4.into(), 0),
    );
    let client = udp(
        &veth.client,
        &mut probes,
        SocketAddr::new(Veth::CLIENT4.into(), 0),
    );
    let gone = server.local_addr().expect("an address");
    let streams: Vec<_> = (0..20)
        .map(|_| stream(&veth.client, &veth.server, Veth::SERVER4, &mut probes))
        .collect();
    let _inside = veth.server.enter();
    let before = Reading::of_this_host();
    drop(server);
    for _ in 0..100 {
        // The answer to the one before is an error of this one.
        let _ = client.send_to(&[0; 64], gone);
    }
    for (mut to, from) in streams {
        to.write_all(&[0; 1000]).expect("a stream takes data");
        // Delivery on a veth pair is done when the call returns, but for a busy CPU.
        from.set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a time-out can be set");
        from.peek(&mut [0]).expect("the data arrives");
        drop(from);
    }
    let after = Reading::of_this_host();
    let report = report(&mut probes);
    let no_port = moved(&before, &after, "snmp.Udp", "NoPorts") as u64;
    assert_same(dropped(&report, "NO_SOCKET"), no_port, "NO_SOCKET", &report);
    let resets = moved(&before, &after, "snmp.Tcp", "OutRsts") as u64;
    assert_same(report.resets_sent.ours, resets, "resets sent", &report);
    assert_same(
        report.resets_received.ours,
        resets,
        "resets received",
        &report,
    );
    assert_eq!(resets, 20);
}

/// Has a socket's stages counted: they are kept as histograms.
fn place(probes: &mut Probes, socket: BorrowedFd<'_>) {
    let place = Place {
        record: None,
        worker: 0,
    };
    probes
        .place(socket, place)
        .expect("a socket can have a place");
}

/// A connection from `a` to `b`, followed on both sides: by inheritance from the listener there.
fn stream(
    a: &Namespace,
    b: &Namespace,
    address: Ipv4Addr,
    probes: &mut Probes,
) -> (TcpStream, TcpStream) {
    let listener = {
        let _inside = b.enter();
        TcpListener::bind((address, 0)).expect("a listener")
    };
    probes
        .follow(listener.as_fd(), TAG)
        .expect("a listener can be followed");
    place(probes, listener.as_fd());
    let to = listener.local_addr().expect("an address");
    let _inside = a.enter();
    let client = TcpStream::connect(to).expect("a connection");
    probes
        .follow(client.as_fd(), TAG)
        .expect("a stream can be followed");
    place(probes, client.as_fd());
    let server = listener.accept().expect("its other end").0;
    for end in [&client, &server] {
        end.set_nodelay(true).expect("an option can be set");
    }
    (client, server)
}

/// Segments lost on the way come again, by flow and cause.
#[test]
fn retransmissions_are_those_of_the_kernel() {
    let test = "retransmissions_are_those_of_the_kernel";
    let Some(_lock) = may_run(test, &["nft"]) else {
        return;
    };
    let Some(mut probes) = probes(test) else {
        return;
    };
    let veth = Veth::new();
    // One segment on the wire is one packet for the rule.
    veth.client
        .run("ip", &["link", "set", "veth0", "gso_max_segs", "1"]);
    let (mut to, mut from) = stream(&veth.client, &veth.server, Veth::SERVER4, &mut probes);
    veth.server.run("nft", &["add", "table", "ip", "t"]);
    let chain = "{ type filter hook input priority 0 ; }";
    veth.server
        .run("nft", &["add", "chain", "ip", "t", "in", chain]);
    let mut words = vec!["add", "rule", "ip", "t", "in"];
    words.extend("ip protocol tcp numgen inc mod 50 0 drop".split(' '));
    veth.server.run("nft", &words);
    let _inside = veth.client.enter();
    let before = Reading::of_this_host();
    let reader = std::thread::spawn(move || std::io::copy(&mut from, &mut std::io::sink()));
    for _ in 0..256 {
        to.write_all(&[0; 16_384]).expect("a stream takes data");
    }
    drop(to);
    let read = reader
        .join()
        .expect("the reader ends")
        .expect("it reads to the end");
    assert_eq!(read, 256 * 16_384);
    let after = Reading::of_this_host();
    let report = report(&mut probes);
    let kernel = moved(&before, &after, "snmp.Tcp", "RetransSegs") as u64;
    let of_the_flow = |line: &&RetransmitReport| line.flow == Some(7) && line.group == Some(2);
    let seen = report
        .retransmits
        .iter()
        .filter(of_the_flow)
        .map(|line| line.segments)
        .sum();
    assert_same(seen, kernel, "retransmits", &report);
    assert!(
        report
            .retransmits
            .iter()
            .any(|line| line.cause == "Recovery"),
        "{report:#?}"
    );
    assert!(dropped(&report, "NETFILTER_DROP") > 0);
}

/// A ping-pong of two followed sockets: how long a round trip took, nanoseconds.
fn ping_pong(rounds: u32, mut ping: impl FnMut(), mut pong: impl FnMut() + Send) -> f64 {
    std::thread::scope(|scope| {
        scope.spawn(|| (0..rounds).for_each(|_| pong()));
        let start = Instant::now();
        (0..rounds).for_each(|_| ping());
        start.elapsed().as_nanos() as f64 / f64::from(rounds)
    })
}

/// Every stage sees every message, and together they are most of the round trip.
fn assert_stages(report: &KernelReport, transport: &str, rounds: u32, round_trip_ns: f64) {
    let lines: Vec<_> = report
        .stages
        .iter()
        .filter(|s| s.transport == transport)
        .collect();
    let names: Vec<&str> = lines.iter().map(|line| line.stage.as_str()).collect();
    let all = ["submit", "queue", "wire", "receive", "wait"];
    assert_eq!(
        names,
        if transport == "tcp" {
            &all[..]
        } else {
            &all[1..]
        }
    );
    let messages = u64::from(rounds) * 2;
    for line in &lines {
        let difference = line.count.abs_diff(messages);
        assert!(
            difference * 100 <= messages,
            "{messages} messages: {report:#?}"
        );
    }
    // Two messages make a round trip. What is missing is the system calls' own way in and out.
    let sum: f64 = lines.iter().map(|line| line.mean_ns * 2.0).sum();
    let share = sum / round_trip_ns;
    assert!(
        share > 0.5 && share <= 1.0,
        "{share} of {round_trip_ns} ns: {report:#?}"
    );
}

/// Request and response over loopback and over a veth pair, TCP and UDP.
#[test]
fn stages_see_every_message() {
    let test = "stages_see_every_message";
    let Some(_lock) = may_run(test, &[]) else {
        return;
    };
    let rounds = 5000;
    let veth = Veth::new();
    for (a, b, at) in [
        (&veth.client, &veth.server, (Veth::CLIENT4, Veth::SERVER4)),
        (
            &veth.server,
            &veth.server,
            (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST),
        ),
    ] {
        let mut probes = Probes::load(ProbeRequest {
            set: ProbeSet::Stages { records: 0 },
            ..ProbeRequest::default()
        });
        if let Some(first) = probes.unavailable().first() {
            assert_ne!(first.status, UnavailableStatus::Failed, "{first:?}");
            return skip(test, &format!("{}: {}", first.program, first.text));
        }
        let one = udp(a, &mut probes, SocketAddr::new(at.0.into(), 0));
        let two = udp(b, &mut probes, SocketAddr::new(at.1.into(), 0));
        for end in [&one, &two] {
            place(&mut probes, end.as_fd());
        }
        one.connect(two.local_addr().expect("an address"))
            .expect("a peer");
        two.connect(one.local_addr().expect("an address"))
            .expect("a peer");
        let time = ping_pong(
            rounds,
            || {
                one.send(&[1; 64]).expect("a request");
                one.recv(&mut [0; 64]).expect("a response");
            },
            || {
                two.recv(&mut [0; 64]).expect("a request");
                two.send(&[1; 64]).expect("a response");
            },
        );
        assert_stages(&stage_report(&mut probes), "udp", rounds, time);
        let (one, two) = stream(a, b, at.1, &mut probes);
        let time = ping_pong(
            rounds,
            || {
                (&one).write_all(&[1; 64]).expect("a request");
                (&one).read_exact(&mut [0; 64]).expect("a response");
            },
            || {
                (&two).read_exact(&mut [0; 64]).expect("a request");
                (&two).write_all(&[1; 64]).expect("a response");
            },
        );
        assert_stages(&stage_report(&mut probes), "tcp", rounds, time);
    }
}

/// What a process without all privileges is to do: print its report, or hold the probes.
const ROLE: &str = "RINGPERF_KERNEL_TEST_ROLE";

/// Loads the probes with whatever privilege there is, with traffic beside. The tests below start
/// this one in processes of less privilege, and one that they kill.
#[test]
fn loading_never_harms() {
    let lock = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let mut probes = Probes::load(ProbeRequest {
        cost: true,
        ..ProbeRequest::default()
    });
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a UDP socket");
    probes
        .follow(socket.as_fd(), TAG)
        .expect("following is harmless");
    let to = socket.local_addr().expect("an address");
    for _ in 0..100 {
        socket
            .send_to(&[1; 100], to)
            .expect("a datagram can be sent");
        assert_eq!(socket.recv(&mut [0; 200]).expect("it comes back"), 100);
    }
    let report = report(&mut probes);
    let all = report.unavailable.iter().any(|one| one.program == "all");
    let missing = if all {
        SLOW_PATH.len()
    } else {
        report.unavailable.len()
    };
    assert_eq!(
        report.attached.len() + missing,
        SLOW_PATH.len(),
        "{report:#?}"
    );
    match std::env::var(ROLE).as_deref() {
        Ok("report") => {
            let text = serde_json::to_string(&report).expect("a report is JSON");
            writeln!(std::io::stdout(), "\nREPORT {text}").expect("stdout takes it");
        }
        Ok("hold") => {
            writeln!(std::io::stdout(), "\nHOLDING").expect("stdout takes it");
            std::thread::sleep(Duration::from_secs(60));
        }
        _ => {}
    }
    drop(lock);
}

/// This very test program, to run `loading_never_harms` in a role, by `wrapper`.
fn in_role(wrapper: &[&str], role: &str) -> Command {
    let own = std::env::current_exe().expect("a test has a program");
    let mut command = Command::new(wrapper.first().map_or(own.as_os_str(), |w| w.as_ref()));
    if let [_, arguments @ ..] = wrapper {
        command.args(arguments).arg(&own);
    }
    command
        .args(["--exact", "loading_never_harms", "--nocapture"])
        .env(ROLE, role);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .stdin(Stdio::null());
    command
}

/// The report of a process as nobody with these capabilities.
fn report_with(capabilities: &str) -> KernelReport {
    let set = format!("-all{capabilities}");
    let (inherited, ambient) = (format!("--inh-caps={set}"), format!("--ambient-caps={set}"));
    let bounding = format!("--bounding-set={set}");
    let user = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let mut wrapper = user.to_vec();
    wrapper.extend([inherited.as_str(), ambient.as_str(), bounding.as_str()]);
    let output = in_role(&wrapper, "report").output().expect("setpriv runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{capabilities}: {text}");
    let line = text.lines().find_map(|line| line.strip_prefix("REPORT "));
    serde_json::from_str(line.expect("it has a report")).expect("it is one")
}

/// Nothing, either capability alone, and both.
#[test]
fn each_privilege_has_its_true_report() {
    let test = "each_privilege_has_its_true_report";
    let Some(_lock) = may_run(test, &["setpriv"]) else {
        return;
    };
    if probes(test).is_none() {
        return;
    }
    for (capabilities, refused) in [("", 1), (",+bpf", SLOW_PATH.len()), (",+perfmon", 1)] {
        let report = report_with(capabilities);
        assert_eq!(report.attached, Vec::<String>::new(), "{capabilities}");
        assert_eq!(
            report.unavailable.len(),
            refused,
            "{capabilities}: {report:#?}"
        );
        for one in &report.unavailable {
            assert_eq!(
                one.status,
                UnavailableStatus::NotPermitted,
                "{capabilities}: {one:?}"
            );
            assert!(one.text.contains("CAP_BPF"), "{one:?}");
        }
    }
    let report = report_with(",+bpf,+perfmon");
    assert_eq!(report.attached.len(), SLOW_PATH.len(), "{report:#?}");
    let cost = report.cost.expect("it was asked for");
    assert!(
        cost.missing
            .is_some_and(|text| text.contains("CAP_SYS_ADMIN"))
    );
}

/// Numbers of the kernel's programs or maps.
fn objects(kind: &str) -> BTreeSet<u64> {
    let output = Command::new("bpftool")
        .args(["-j", kind, "list"])
        .output()
        .expect("it runs");
    let list: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    list.iter().filter_map(|one| one["id"].as_u64()).collect()
}

/// Nothing stays of a process that was killed.
#[test]
fn a_killed_process_leaves_nothing() {
    let test = "a_killed_process_leaves_nothing";
    let Some(_lock) = may_run(test, &["bpftool"]) else {
        return;
    };
    if probes(test).is_none() {
        return;
    }
    let before = ["prog", "map", "link"].map(objects);
    let mut child = in_role(&[], "hold").spawn().expect("the test program runs");
    let output = child.stdout.take().expect("its output is a pipe");
    let ready = BufReader::new(output)
        .lines()
        .any(|line| line.is_ok_and(|l| l == "HOLDING"));
    let during = ["prog", "map", "link"].map(objects);
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    assert!(ready);
    let added = |now: &[BTreeSet<u64>; 3]| -> Vec<usize> {
        now.iter()
            .zip(&before)
            .map(|(now, before)| now.difference(before).count())
            .collect()
    };
    assert!(added(&during)[0] >= SLOW_PATH.len() && added(&during)[1] >= 6);
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let after = ["prog", "map", "link"].map(objects);
        let mut pairs = after.iter().zip(&during).zip(&before);
        // What others made meanwhile does not count.
        if pairs.all(|((after, during), before)| {
            after.intersection(during).all(|id| before.contains(id))
        }) {
            return;
        }
        assert!(Instant::now() < until, "left behind: {:?}", added(&after));
        std::thread::sleep(Duration::from_millis(50));
    }
}
