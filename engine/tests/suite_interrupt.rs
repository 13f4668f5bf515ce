//! Ctrl-C and SIGTERM, once and twice: what is said, what is kept, and how long it takes.

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use ringperf::record::Run;
use support::process::{Ended, RINGPERF, Running};
use support::session::{
    STANDING, Scratch, Server, code, document, one_document, wait_for_intervals,
};

/// Two cases, of which the second is cut short.
const TWO_CASES: [&str; 8] = [
    "--flows",
    "1,2",
    "--duration",
    "1500ms",
    "--warmup",
    "0s",
    "--interval",
    "100ms",
];

const SIGNALS: [(&str, i32); 2] = [("INT", 130), ("TERM", 143)];

/// A busy machine's addition to "at once".
const AT_ONCE: Duration = Duration::from_millis(1500);

const SAID: &str = "stopping; again to abandon";

/// Waits until the second case has received something, by the live line or by the objects.
fn wait_for_the_second_case(client: &Running) {
    let live = |line: &str| line.contains("128K x2") && !line.contains(": 0 bit/s received");
    let object = |line: &str| {
        let of_server = line.contains("\"case_number\":2") && line.contains("\"server\"");
        of_server && !line.contains("\"received_total\":0,")
    };
    let until = Instant::now() + STANDING;
    while !client.stderr().lines().any(live) && !client.stdout().lines().any(object) {
        assert!(Instant::now() < until, "{}", client.stderr());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Two signals to a client whose server hangs in the second case: nothing can be waited for.
fn abandoned(signal: &str, rest: &[&str]) -> Ended {
    let server = Server::start(&[]);
    let client = server.client(&[&TWO_CASES, rest].concat());
    wait_for_the_second_case(&client);
    server.running.signal("STOP");
    client.signal("INT");
    client.wait_for_stderr(SAID, STANDING);
    let second = Instant::now();
    client.signal(signal);
    let ended = client.ended(STANDING);
    assert!(second.elapsed() < AT_ONCE, "{:?}", second.elapsed());
    server.running.signal("CONT");
    ended
}

/// The first case whole, the second as far as it was told of, all marked incomplete.
fn both_cases_are_there(run: &Run, exit: i32) {
    let [first, second] = run.cases.as_slice() else {
        panic!("not two cases: {run:?}")
    };
    assert!(first.samples[0].complete && first.samples[0].groups[0].figures.received.bytes > 0);
    let cut = &second.samples[0];
    assert!(!run.complete && !cut.complete, "marked incomplete");
    assert!(cut.groups[0].figures.received.bytes > 0, "{cut:?}");
    let error = run.error.as_ref().expect("said in the document");
    assert_eq!(
        (error.code.as_str(), i32::from(error.exit_code)),
        ("interrupted", exit)
    );
}

#[test]
fn a_second_signal_keeps_the_document() {
    for (signal, exit) in SIGNALS {
        let kept = Scratch::new("abandoned");
        let ended = abandoned(signal, &["--json", "-", "--output", kept.text()]);
        assert_eq!(code(&ended), exit, "{ended:?}");
        let run = document(&ended);
        both_cases_are_there(&run, exit);
        assert_eq!(kept.only_run(), run);
    }
}

#[test]
fn a_second_signal_keeps_the_table() {
    for (signal, exit) in SIGNALS {
        let kept = Scratch::new("abandoned-table");
        let file = kept.path().join("result.json");
        let ended = abandoned(signal, &["--json", file.to_str().expect("text")]);
        assert_eq!(code(&ended), exit, "{ended:?}");
        for wanted in ["128K x1", "(incomplete)", "INCOMPLETE", "abandoned"] {
            assert!(ended.stdout.contains(wanted), "{wanted}: {ended:?}");
        }
        let text = std::fs::read_to_string(file).expect("written");
        both_cases_are_there(&one_document(&text), exit);
    }
}

#[test]
fn a_second_signal_ends_a_stream_with_its_document() {
    let server = Server::start(&[]);
    let asked = [&TWO_CASES[..], &["--json-stream"]].concat();
    let client = server.client(&asked);
    wait_for_the_second_case(&client);
    server.running.signal("STOP");
    client.signal("INT");
    client.wait_for_stderr(SAID, STANDING);
    client.signal("TERM");
    let ended = client.ended(STANDING);
    server.running.signal("CONT");
    assert_eq!(code(&ended), 143, "{ended:?}");
    both_cases_are_there(&one_document(ended.stdout.lines().last().expect("it")), 143);
}

/// One signal: both sides stop, the other side's last report is there, stderr says what to do.
#[test]
fn the_first_signal_says_what_the_second_does() {
    let server = Server::start(&[]);
    for (signal, exit) in SIGNALS {
        for quiet in [&["--quiet"][..], &[]] {
            let kept = Scratch::new("first");
            let stream = ["--json-stream", "--output", kept.text()];
            let client = server.client(&[&TWO_CASES[..], quiet, &stream].concat());
            wait_for_the_second_case(&client);
            client.signal(signal);
            let ended = client.ended(STANDING);
            assert_eq!(code(&ended), exit, "{ended:?}");
            assert!(ended.stderr.contains(SAID), "{ended:?}");
            let run = kept.only_run();
            both_cases_are_there(&run, exit);
            let engine = &run.cases[1].samples[0].engine;
            assert!(engine.server.is_some(), "the server's last report");
        }
        server.serves_the_next();
    }
}

/// Both sides in one process: neither is waited for.
#[test]
fn without_a_host() {
    for (signal, exit) in SIGNALS {
        let kept = Scratch::new("own");
        let mut command = Command::new(RINGPERF);
        command.args(["run", "--json", "-", "--output", kept.text()]);
        let client = Running::start(command.args(["--duration", "60s", "--interval", "100ms"]));
        wait_for_intervals(&client, 3);
        let first = Instant::now();
        client.signal(signal);
        client.signal(signal);
        let ended = client.ended(STANDING);
        assert!(first.elapsed() < AT_ONCE, "{:?}", first.elapsed());
        assert_eq!(code(&ended), exit, "{ended:?}");
        let run = document(&ended);
        assert!(!run.complete && run.cases[0].samples[0].groups[0].figures.received.bytes > 0);
        assert_eq!(kept.only_run(), run);
    }
}

/// Nobody reads the document: a third signal ends even that, and files are there already.
#[test]
fn a_third_signal_waits_for_no_reader() {
    let server = Server::start(&[]);
    let kept = Scratch::new("third");
    // A pipe that is full before the document: it takes 64 KiB and nobody reads them.
    let (reader, mut full) = std::io::pipe().expect("a pipe");
    std::io::Write::write_all(&mut full, &[b'x'; 65_536]).expect("so much fits");
    let mut command = Command::new(RINGPERF);
    command.args(["run", &server.host(), "--json", "-", "--duration", "60s"]);
    command.args(["--output", kept.text(), "--interval", "100ms"]);
    let log = kept.path().join("stderr");
    let errors = std::fs::File::create(&log).expect("writable");
    let mut child = command
        .stdout(full)
        .stderr(errors)
        .spawn()
        .expect("it starts");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    let said = |wanted: &str| {
        let until = Instant::now() + STANDING;
        while !std::fs::read_to_string(&log)
            .expect("there")
            .contains(wanted)
        {
            assert!(Instant::now() < until, "{wanted}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    said("[  0.");
    for signal in [nix::sys::signal::SIGINT; 2] {
        nix::sys::signal::kill(pid, signal).expect("it runs");
        said(SAID);
    }
    std::thread::sleep(Duration::from_secs(2));
    assert!(
        child.try_wait().expect("ours").is_none(),
        "it waits for a reader"
    );
    nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).expect("it runs");
    let third = Instant::now();
    let status = child.wait().expect("ours");
    assert!(third.elapsed() < AT_ONCE);
    assert_eq!(status.code(), Some(143));
    drop(reader);
    std::fs::remove_file(&log).expect("there");
    assert!(!kept.only_run().complete);
}
