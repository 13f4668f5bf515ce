//! Loss and congestion that the kernel makes, against the kernel's own counters.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringperf::record::{Figures, Run};
use support::netns::{Namespace, Routed, Veth, can_make_namespaces};
use support::process::Running;
use support::sound::{assert_in_order, assert_sound, document, figures, finding, only};

const PATIENCE: Duration = Duration::from_secs(90);

/// Payload of the datagrams that the rules look for, and what their IP packets have at least.
const SIZE: &str = "1000";

fn serve(namespace: &Namespace) -> Running {
    let server = namespace.ringperf(&["serve"]);
    server.wait_for_stdout("serving on", Duration::from_secs(10));
    server
}

fn run(namespace: &Namespace, host: &str, arguments: &[&str]) -> Run {
    let base = ["run", host, "--quiet", "--json", "-"];
    document(
        namespace.ringperf(&[&base[..], arguments].concat()),
        PATIENCE,
        0,
    )
}

/// A rule that counts what it drops: one in 50 of the large packets of a protocol.
struct Dropping<'a>(&'a Namespace);

impl<'a> Dropping<'a> {
    fn new(namespace: &'a Namespace, hook: &str, proto: &str) -> Dropping<'a> {
        let large = format!("meta l4proto {proto} meta length > 1000");
        let rules = format!(
            "table inet t {{
                 counter seen {{}}
                 counter dropped {{}}
                 chain c {{
                     type filter hook {hook} priority 0;
                     {large} counter name seen
                     {large} numgen inc mod 50 0 counter name dropped drop
                 }}
             }}"
        );
        namespace.run("nft", &[&rules]);
        Dropping(namespace)
    }

    fn count(&self, name: &str) -> u64 {
        let text = self.0.run("nft", &["list", "counter", "inet", "t", name]);
        let mut words = text.split_whitespace();
        words.find(|word| *word == "packets");
        let value = words.next().and_then(|word| word.parse().ok());
        value.unwrap_or_else(|| panic!("no packets in {text}"))
    }
}

/// The kernel's UDP counters of both sides, before and after.
struct Counters<'a> {
    sides: [&'a Namespace; 2],
    before: [u64; 4],
}

impl<'a> Counters<'a> {
    fn begin(client: &'a Namespace, server: &'a Namespace) -> Counters<'a> {
        let sides = [client, server];
        Counters {
            sides,
            before: Self::read(sides),
        }
    }

    fn read([client, server]: [&Namespace; 2]) -> [u64; 4] {
        [
            client.counter("Udp.OutDatagrams"),
            client.counter("Udp.InDatagrams"),
            server.counter("Udp.InDatagrams"),
            server.counter("Udp.RcvbufErrors"),
        ]
    }

    /// Sent and received by the client, received and dropped by the server's sockets.
    fn since(&self) -> [u64; 4] {
        let after = Self::read(self.sides);
        std::array::from_fn(|i| after[i] - self.before[i])
    }
}

/// Within half a percent, or a handful: the hellos are not counted by the program.
fn assert_near(what: &str, counted: u64, kernels: u64) {
    let most = (kernels / 200).max(4);
    let difference = counted.abs_diff(kernels);
    assert!(
        difference <= most,
        "{what}: {counted} counted, {kernels} by the kernel"
    );
}

const PACED: [&str; 10] = [
    "--proto",
    "udp",
    "--size",
    SIZE,
    "--rate",
    "10K",
    "--duration",
    "1s",
    "--warmup",
    "200ms",
];

/// The rule's own count, exactly, and the namespace's counters, within 0.5 %.
fn assert_loss(figures: &Figures, rule: &Dropping<'_>, seen_by_kernel: [u64; 4]) {
    let terms = &figures.reconciliation;
    let [_, _, received, no_room] = seen_by_kernel;
    assert_near("received", terms.received, received);
    let lost = terms.lost.expect("headers");
    assert_near("lost", lost, rule.count("dropped") + no_room);
    assert_near("sent", terms.sent, rule.count("seen"));
    let in_fifty = terms.sent / 50;
    assert!(
        lost >= in_fifty.saturating_sub(1) && in_fifty > 200,
        "{terms:?}"
    );
    // The window has its share of it.
    let udp = figures.udp.as_ref().expect("a UDP case");
    let percent = udp.lost_percent.expect("headers");
    assert!(percent >= 1.9, "{udp:?}");
    assert!(no_room > 0 || percent <= 2.1, "{udp:?}");
}

#[test]
fn datagrams_dropped_before_the_receiver_are_lost() {
    if !can_make_namespaces("datagrams_dropped_before_the_receiver_are_lost") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server);
    let rule = Dropping::new(&veth.server, "input", "udp");
    let counters = Counters::begin(&veth.client, &veth.server);
    let result = run(&veth.client, &Veth::SERVER4.to_string(), &PACED);
    let kernel = counters.since();
    assert_sound(&result, 1);
    assert_in_order(&result);
    let figures = figures(only(&result).1);
    assert_loss(figures, &rule, kernel);
    // Exactly, with the two requests of the flow's handshake.
    assert_eq!(kernel[0], figures.reconciliation.sent + 2);
}

#[test]
fn datagrams_dropped_on_the_way_are_lost() {
    if !can_make_namespaces("datagrams_dropped_on_the_way_are_lost") {
        return;
    }
    let routed = Routed::new();
    let _server = serve(&routed.server);
    let rule = Dropping::new(&routed.router, "forward", "udp");
    let counters = Counters::begin(&routed.client, &routed.server);
    let flows = [&PACED[..], &["--flows", "5"]].concat();
    let result = run(&routed.client, &Routed::SERVER.to_string(), &flows);
    let kernel = counters.since();
    assert_sound(&result, 1);
    assert_in_order(&result);
    assert_loss(figures(only(&result).1), &rule, kernel);
}

/// A packet filter's refusal is an error of the send: such a datagram was sent and is lost.
#[test]
fn datagrams_that_the_senders_own_filter_refuses_are_sent_and_lost() {
    if !can_make_namespaces("datagrams_that_the_senders_own_filter_refuses_are_sent_and_lost") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server);
    let rule = Dropping::new(&veth.client, "output", "udp");
    let counters = Counters::begin(&veth.client, &veth.server);
    let result = run(&veth.client, &Veth::SERVER4.to_string(), &PACED);
    let kernel = counters.since();
    assert_sound(&result, 1);
    assert_in_order(&result);
    assert_loss(figures(only(&result).1), &rule, kernel);
}

#[test]
fn requests_dropped_on_the_way_are_failed_transactions() {
    if !can_make_namespaces("requests_dropped_on_the_way_are_failed_transactions") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server);
    let rule = Dropping::new(&veth.server, "input", "udp");
    let rr = [
        "--proto", "udp", "--test", "rr", "--size", "1000/100", "--depth", "16",
    ];
    let more = ["--transactions", "5000", "--timeout", "200ms"];
    let host = Veth::SERVER4.to_string();
    let result = run(&veth.client, &host, &[&rr[..], &more].concat());
    assert_sound(&result, 1);
    let t = figures(only(&result).1).transactions.expect("transactions");
    assert_eq!((t.started, rule.count("seen")), (5000, 5000));
    assert_eq!(rule.count("dropped"), 100);
    // A busy machine may answer some too late, which says so.
    assert_eq!(t.failed, 100 + t.late, "{t:?}");
}

#[test]
fn retransmits_are_those_of_the_namespace() {
    if !can_make_namespaces("retransmits_are_those_of_the_namespace") {
        return;
    }
    let veth = Veth::new();
    let _server = serve(&veth.server);
    let rule = Dropping::new(&veth.server, "input", "tcp");
    let host = Veth::SERVER4.to_string();
    for flows in ["1", "8"] {
        let (before, dropped) = (
            veth.client.counter("Tcp.RetransSegs"),
            rule.count("dropped"),
        );
        let exact = ["--bytes", "60M", "--flows", flows];
        let result = run(&veth.client, &host, &exact);
        assert_sound(&result, 1);
        let kernels = veth.client.counter("Tcp.RetransSegs") - before;
        let tcp = figures(only(&result).1).tcp.as_ref().expect("a TCP case");
        let client = tcp.client.as_ref().expect("the client's");
        assert!(rule.count("dropped") > dropped, "nothing was dropped");
        assert!(client.retransmits > 0, "{client:?}");
        let difference = client.retransmits.abs_diff(kernels);
        // The control connection's own, and those of the stream's last segments.
        assert!(
            difference <= (kernels / 100).max(3),
            "{client:?} and {kernels}"
        );
        let flows = &only(&result).1.flows;
        let of_flows: u64 = flows
            .iter()
            .filter_map(|flow| flow.client.as_ref()?.retransmits)
            .sum();
        assert_eq!(of_flows, client.retransmits, "flow by flow");
    }
}

/// Shapes what leaves the router towards the server.
fn shape(routed: &Routed, rate: &str, limit: &str) {
    shape_towards(routed, Routed::TO_SERVER, rate, limit);
}

fn shape_towards(routed: &Routed, device: &str, rate: &str, limit: &str) {
    let shaper = ["tbf", "rate", rate, "burst", "32k", "limit", limit];
    let add = ["qdisc", "add", "dev", device, "root"];
    routed.router.run("tc", &[&add[..], &shaper].concat());
}

/// The flood of a test, through 100 Mbit/s.
fn flood(routed: &Routed, arguments: &[&str]) -> Run {
    let host = Routed::SERVER.to_string();
    let udp = ["--proto", "udp", "--interval", "500ms"];
    let result = run(&routed.client, &host, &[&udp[..], arguments].concat());
    assert_sound(&result, 1);
    assert_in_order(&result);
    let sample = only(&result).1;
    let figures = figures(sample);
    let udp = figures.udp.as_ref().expect("a UDP case");
    // 100 Mbit/s of frames are 97.3 of payload, and the queue of the warm-up is the window's.
    let mbit = figures.throughput_bps / 1e6;
    assert!((60.0..=99.0).contains(&mbit), "{mbit} Mbit/s received");
    assert!(udp.lost_percent.expect("headers") > 20.0, "{udp:?}");
    result
}

#[test]
fn a_flood_through_a_shaper_ends_normally_with_its_loss() {
    if !can_make_namespaces("a_flood_through_a_shaper_ends_normally_with_its_loss") {
        return;
    }
    let routed = Routed::new();
    shape(&routed, "100mbit", "512k");
    let _server = serve(&routed.server);
    let time = ["--duration", "2s", "--warmup", "500ms"];
    let unpaced = flood(&routed, &time);
    assert!(finding(only(&unpaced).1, "unpaced").is_some());
    flood(
        &routed,
        &[&time[..], &["--bitrate", "1G", "--flows", "10"]].concat(),
    );
    // The server serves the next client at once.
    let next = run(
        &routed.client,
        &Routed::SERVER.to_string(),
        &["--transactions", "10"],
    );
    assert!(next.complete);
}

/// The slow one: as long as it takes for any time-out to be reached.
#[test]
fn twenty_seconds_of_a_gigabit_through_a_shaper_are_no_dead_peer() {
    if !can_make_namespaces("twenty_seconds_of_a_gigabit_through_a_shaper_are_no_dead_peer") {
        return;
    }
    let routed = Routed::new();
    shape(&routed, "100mbit", "512k");
    let _server = serve(&routed.server);
    let arguments = ["--bitrate", "1G", "--duration", "20s", "--warmup", "1s"];
    let result = flood(&routed, &arguments);
    let sample = only(&result).1;
    assert!((sample.duration_s - 20.0).abs() < 1e-6);
    let whole = sample.intervals.server.len();
    assert_eq!(whole, 40, "intervals of the server");
}

/// A sender so slow that its datagrams wait in its own socket: what the kernel had not taken at
/// the stop was not sent, and nothing of it is lost.
#[test]
fn what_still_waits_in_the_senders_socket_is_not_lost() {
    if !can_make_namespaces("what_still_waits_in_the_senders_socket_is_not_lost") {
        return;
    }
    let veth = Veth::new();
    let shaper = ["tbf", "rate", "4mbit", "burst", "8k", "limit", "4m"];
    let add = ["qdisc", "add", "dev", Veth::DEVICE, "root"];
    veth.client.run("tc", &[&add[..], &shaper].concat());
    let _server = serve(&veth.server);
    let host = Veth::SERVER4.to_string();
    for flows in ["1", "4"] {
        let udp = ["--proto", "udp", "--size", SIZE, "--flows", flows];
        let time = ["--duration", "1s", "--warmup", "200ms"];
        let result = run(&veth.client, &host, &[&udp[..], &time].concat());
        assert_sound(&result, 1);
        assert_in_order(&result);
        let figures = figures(only(&result).1);
        let udp = figures.udp.as_ref().expect("a UDP case");
        assert!(figures.received.bytes > 200_000, "{:?}", figures.received);
        assert_eq!(udp.lost, Some(0), "flows {flows}: {udp:?}");
    }
}

/// When traffic of an interface began and ended, from its counter.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<(Instant, u64)>>,
}

impl Watch {
    fn begin(namespace: &Namespace) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let _here = namespace.enter();
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let mut seen = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let Some(sent) = sent_bytes() else { break };
                    seen.push((Instant::now(), sent));
                    std::thread::sleep(Duration::from_millis(5));
                }
                seen
            }
        });
        Watch { stop, thread }
    }

    /// How long it was from the first to the last time that more went than a control connection
    /// needs.
    fn traffic(self) -> Duration {
        self.stop.store(true, Ordering::SeqCst);
        let seen = self.thread.join().expect("no panic");
        let busy = |pair: &&[(Instant, u64)]| pair[1].1 - pair[0].1 > 8_000;
        let first = seen.windows(2).find(busy).map(|pair| pair[0].0);
        let last = seen.windows(2).rev().find(busy).map(|pair| pair[1].0);
        let (first, last) = first.zip(last).expect("there was traffic");
        last - first
    }
}

/// Bytes that the veth interface of this thread's namespace has sent; none once it is gone.
fn sent_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let mut lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    let (_, values) = lines.find(|(name, _)| *name == Veth::DEVICE)?;
    values.split_whitespace().nth(8)?.parse().ok()
}

#[test]
fn a_stream_through_a_deep_queue_ends_in_time() {
    if !can_make_namespaces("a_stream_through_a_deep_queue_ends_in_time") {
        return;
    }
    let routed = Routed::new();
    // Two seconds deep, either way: what one side says stands behind what it sends.
    shape_towards(&routed, Routed::TO_SERVER, "20mbit", "5m");
    shape_towards(&routed, Routed::TO_CLIENT, "20mbit", "5m");
    let _server = serve(&routed.server);
    let host = Routed::SERVER.to_string();
    for test in ["stream", "reverse", "bidir"] {
        let senders: &[&Namespace] = match test {
            "stream" => &[&routed.client],
            "reverse" => &[&routed.server],
            _ => &[&routed.client, &routed.server],
        };
        let watches: Vec<Watch> = senders.iter().map(|side| Watch::begin(side)).collect();
        // One sample alone: with probes another would follow.
        let limits = [
            "--duration",
            "3s",
            "--warmup",
            "500ms",
            "--flows",
            "4",
            "--probes",
            "off",
        ];
        let result = run(
            &routed.client,
            &host,
            &[&["--test", test][..], &limits].concat(),
        );
        assert_sound(&result, 1);
        // A stop that stands in a queue is not waited for: 0.2 s behind the window the senders end
        // by themselves, and leave 0.25 s later.
        let late = if test == "stream" { 300 } else { 200 + 250 };
        let most = Duration::from_millis(3500 + late + 200);
        for watch in watches {
            let traffic = watch.traffic();
            assert!(traffic <= most, "{test}: traffic for {traffic:?}");
        }
        for group in &only(&result).1.groups {
            let mbit = group.figures.throughput_bps / 1e6;
            assert!(
                (10.0..=21.0).contains(&mbit),
                "{test}: {mbit} Mbit/s through 20"
            );
        }
    }
}
