//! What goes where: stdout, stderr, files, pipes that close and disks that are full.

mod support;

use std::fs::File;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ringperf::record::Interval;
use support::process::{RINGPERF, Running, ringperf};
use support::session::{STANDING, Scratch, Server, code, document, one_document};

const SHORT: [&str; 6] = [
    "--duration",
    "300ms",
    "--warmup",
    "100ms",
    "--interval",
    "100ms",
];

#[test]
fn a_stream_of_objects_and_the_document_last() {
    let server = Server::start(&[]);
    let asked = ["--test", "stream,rr", "--samples", "2", "--json-stream"];
    let ended = server
        .client(&[&asked[..], &SHORT].concat())
        .ended(STANDING);
    assert_eq!(code(&ended), 0, "{ended:?}");
    assert_eq!(ended.stderr, "", "nothing beside it");
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    let run = one_document(lines.pop().expect("the document"));
    let values: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    assert!(values.iter().all(|value| value["type"] == "interval"));
    assert_eq!(run.cases.len(), 2);
    for case in &run.cases {
        assert_eq!(case.samples.len(), 2);
        for sample in &case.samples {
            let of_side = |side: &str| -> Vec<&serde_json::Value> {
                let of_this = |value: &&serde_json::Value| {
                    value["case"] == case.case.name
                        && value["sample"] == sample.number
                        && value["side"] == side
                        && value["index"].as_i64() >= Some(0)
                };
                values.iter().filter(of_this).collect()
            };
            told_as_counted(&of_side("client"), &sample.intervals.client);
            told_as_counted(&of_side("server"), &sample.intervals.server);
        }
    }
}

/// What was streamed is what the document has, to the last transaction completed. Of those that
/// began in an interval one may end after it was told of. Several intervals that a busy machine
/// told of at once are one row.
fn told_as_counted(streamed: &[&serde_json::Value], counted: &[Interval]) {
    assert!(
        !streamed.is_empty() && streamed.len() <= counted.len(),
        "{streamed:?}"
    );
    for value in streamed {
        let group = &value["groups"][0];
        let real = |name: &str| group[name].as_f64().expect("a number");
        let bounds = real("start_s")..real("start_s") + real("length_s") - 1e-9;
        let own = counted.iter().filter(|i| bounds.contains(&i.start_s));
        let mut sum = Interval::default();
        for interval in own {
            sum.counters.add(&interval.counters);
            sum.transactions += interval.transactions;
            sum.completed += interval.completed;
        }
        let live = |name: &str| group[name].as_u64().expect("a count");
        let received = sum.counters.received_bytes;
        assert_eq!(live("received_bytes"), received, "{group}");
        assert_eq!(live("completed"), sum.completed, "{group}");
        let began = live("transactions");
        assert!((began..=began + 1).contains(&sum.transactions), "{group}");
    }
}

#[test]
fn an_interrupted_stream_has_its_document_last() {
    let server = Server::start(&[]);
    let asked = ["--duration", "60s", "--interval", "100ms", "--json-stream"];
    let client = server.client(&asked);
    client.wait_for_stdout("\"index\":3", STANDING);
    client.signal("INT");
    let ended = client.ended(STANDING);
    assert_eq!(code(&ended), 130, "{ended:?}");
    let run = one_document(ended.stdout.lines().last().expect("the document"));
    assert_eq!(run.error.expect("an error").exit_code, 130);
    for line in ended.stdout.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("an object");
        assert!(value.is_object());
    }
}

#[test]
fn quiet_is_quiet() {
    let server = Server::start(&[]);
    for asked in [
        &["--quiet"][..],
        &["--quiet", "-b", "1G"],
        &["-q", "--json", "-"],
    ] {
        let ended = server.client(&[asked, &SHORT].concat()).ended(STANDING);
        assert_eq!(code(&ended), 0, "{ended:?}");
        assert_eq!(ended.stderr, "", "{asked:?}");
        assert!(!ended.stdout.is_empty());
    }
}

#[test]
fn in_a_pipe_lines_are_plain() {
    let server = Server::start(&[]);
    let ended = server.client(&SHORT).ended(STANDING);
    assert_eq!(code(&ended), 0, "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let told = lines.iter().filter(|line| line.starts_with("[  0."));
    assert!((1..=3).contains(&told.count()), "{lines:?}");
    for text in [&ended.stderr, &ended.stdout] {
        assert!(!text.contains(['\r', '\u{1b}']), "{text:?}");
    }
    assert!(ended.stdout.contains("tcp stream 128K"), "{}", ended.stdout);
}

/// Runs a client whose stdout and stderr are as given.
fn with_outputs(server: &Server, arguments: &[&str], out: Stdio, err: Stdio) -> Output {
    Command::new(RINGPERF)
        .args(["run", &server.host()])
        .args(arguments)
        .args(SHORT)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .output()
        .expect("it starts")
}

/// The writing end of a pipe that nobody reads.
fn broken_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    let file = File::options().write(true).open("/dev/full");
    file.expect("it is always there").into()
}

#[test]
fn a_stdout_that_cannot_be_written() {
    let server = Server::start(&[]);
    for arguments in [&[][..], &["--json", "-"], &["--json-stream"]] {
        for (out, cause) in [(broken_pipe(), "Broken pipe"), (full(), "No space left")] {
            let kept = Scratch::new("stdout");
            let output = ["--output", kept.text()];
            let all = [arguments, &output].concat();
            let ended = with_outputs(&server, &all, out, Stdio::piped());
            let text = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(4), "{arguments:?}: {text}");
            assert!(text.contains(cause), "{arguments:?}: {text}");
            assert!(!text.contains("panicked"), "{arguments:?}: {text}");
            let run = kept.only_run();
            assert!(run.complete, "nothing measured is lost");
            let error = run.error.expect("what got out says what did not");
            assert!(
                error.exit_code == 4 && error.text.contains(cause),
                "{error:?}"
            );
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough() {
    let server = Server::start(&[]);
    let case = SHORT.join(" ");
    for arguments in ["", "--json -", "--json-stream"] {
        let script = format!(
            "{{ {RINGPERF} run {} {case} {arguments}; echo ended $? >&2; }} | head -c 10",
            server.host()
        );
        let ended = Running::start(Command::new("sh").args(["-c", &script])).ended(STANDING);
        assert_eq!(ended.stdout.len(), 10, "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        // Whether the pipe was gone before the last write is the reader's doing.
        let expected = ["ended 0", "ended 4"];
        assert!(
            expected.iter().any(|code| ended.stderr.contains(code)),
            "{ended:?}"
        );
    }
}

/// Closed descriptors are not taken by sockets, which would then carry text. A result that nobody
/// gets is a failure.
#[test]
fn outputs_that_are_closed() {
    let server = Server::start(&[]);
    let case = SHORT.join(" ");
    for closed in [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        let kept = Scratch::new("closed");
        let script = format!(
            "{RINGPERF} run {} {case} --output {} {closed}",
            server.host(),
            kept.text()
        );
        let ended = Running::start(Command::new("sh").args(["-c", &script])).ended(STANDING);
        let run = kept.only_run();
        let sample = run.cases.first().and_then(|case| case.samples.first());
        let why = sample.map(|sample| (&sample.error, &sample.findings));
        let lost = closed.contains(">&- ") || closed == ">&-";
        let expected = if lost { 4 } else { 0 };
        assert_eq!(code(&ended), expected, "{closed}: {:?} {why:?}", run.error);
        assert_eq!(run.error.is_some(), lost, "{closed}: {:?}", run.error);
        let said = ended.stderr.contains("standard output is closed");
        assert_eq!(said, closed == ">&-", "{ended:?}");
        let counts = &run.cases[0].samples[0].groups[0].figures.reconciliation;
        assert!(run.complete && counts.reconciled, "{closed}: {counts:?}");
    }
}

#[test]
fn a_stderr_that_nobody_reads() {
    let server = Server::start(&[]);
    let ended = with_outputs(&server, &["--json", "-"], Stdio::piped(), broken_pipe());
    assert_eq!(ended.status.code(), Some(0));
    assert!(one_document(&String::from_utf8_lossy(&ended.stdout)).complete);
    let vacant = with_outputs(
        &server,
        &["--flows", "0", "--json", "-"],
        Stdio::piped(),
        full(),
    );
    assert_eq!(vacant.status.code(), Some(2));
    one_document(&String::from_utf8_lossy(&vacant.stdout));
    let unreachable = Command::new(RINGPERF)
        .args(["-vvv", "run", "127.0.0.1:1", "--json", "-"])
        .stderr(broken_pipe())
        .output()
        .expect("it starts");
    assert_eq!(unreachable.status.code(), Some(4));
    one_document(&String::from_utf8_lossy(&unreachable.stdout));
}

#[test]
fn files_that_cannot_be_written_lose_nothing_of_the_others() {
    let server = Server::start(&[]);
    let kept = Scratch::new("kept");
    let asked = ["--json", "/dev/full", "--output", kept.text()];
    let ended = server
        .client(&[&asked[..], &SHORT].concat())
        .ended(STANDING);
    assert_eq!(code(&ended), 4, "{ended:?}");
    assert!(ended.stderr.contains("/dev/full") && ended.stderr.contains("No space left"));
    assert!(
        ended.stdout.contains("tcp stream 128K"),
        "the table: {ended:?}"
    );
    let run = kept.only_run();
    let error = run.error.expect("what got out says what did not");
    assert!(
        run.complete && error.text.contains("/dev/full"),
        "{error:?}"
    );
    assert_eq!((error.exit_code, error.code.as_str()), (4, "output-failed"));
}

/// What shows before any traffic is said before any traffic.
#[test]
fn places_that_cannot_be_written_are_said_before_any_traffic() {
    let server = Server::start(&[]);
    let scratch = Scratch::new("places");
    let file = scratch.path().join("file");
    std::fs::write(&file, "x").expect("a file");
    let text = |path: std::path::PathBuf| path.to_str().expect("text").to_string();
    let (below, dir) = (text(file.join("below")), text(scratch.path().into()));
    let (missing, file) = (text(scratch.path().join("none/x.json")), text(file));
    for (flag, place) in [
        ("--output", &file),
        ("--output", &below),
        ("--json", &below),
        ("--json", &missing),
        ("--json", &dir),
    ] {
        let ended = server.client(&[flag, place.as_str()]).ended(STANDING);
        assert_eq!(code(&ended), 2, "{ended:?}");
        for wanted in [flag, place] {
            assert!(ended.stderr.contains(wanted), "{wanted}: {ended:?}");
        }
    }
    // All at once, and in a document where one was asked for.
    let other = Scratch::new("places-other");
    let asked = ["--json", &missing, "--output", other.text()];
    let ended = server.client(&asked).ended(STANDING);
    assert_eq!(code(&ended), 2, "{ended:?}");
    let run = other.only_run();
    assert_eq!(
        (run.error.expect("said").exit_code, run.cases.len()),
        (2, 0)
    );
    let ended = server
        .client(&["--json", "-", "--output", &below])
        .ended(STANDING);
    let run = document(&ended);
    let error = run.error.expect("said");
    assert_eq!((code(&ended), error.exit_code, run.cases.len()), (2, 2, 0));
    assert!(error.text.contains("--output") && error.text.contains(&below));
    assert_eq!(
        std::fs::read_to_string(&file).expect("there"),
        "x",
        "as it was"
    );
    let served = server.running.stderr();
    assert!(!served.contains("session"), "no traffic: {served}");
}

/// What fails only at the end leaves the others, which say so.
#[test]
fn a_place_that_goes_away_in_between() {
    let server = Server::start(&[]);
    let (scratch, kept) = (Scratch::new("away"), Scratch::new("away-kept"));
    let file = scratch.path().join("result.json");
    std::fs::write(&file, "older").expect("a file");
    let dir = scratch.path().join("runs");
    let (file_text, dir_text) = (file.to_str().expect("text"), dir.to_str().expect("text"));
    let asked = [
        "--duration",
        "1s",
        "--interval",
        "100ms",
        "--json",
        file_text,
    ];
    let client = server.client(&[&asked[..], &["--output", dir_text]].concat());
    client.wait_for_stderr("[  0.", STANDING);
    let older = std::fs::read_to_string(&file).expect("there");
    assert_eq!(older, "older", "kept until there is something to write");
    std::fs::remove_dir(&dir).expect("made for the trial, and empty");
    std::fs::write(&dir, "x").expect("a file");
    let ended = client.ended(STANDING);
    assert_eq!(code(&ended), 4, "{ended:?}");
    assert!(ended.stderr.contains(dir_text), "{ended:?}");
    for wanted in ["tcp stream 128K", "output-failed"] {
        assert!(ended.stdout.contains(wanted), "the table: {ended:?}");
    }
    let run = one_document(&std::fs::read_to_string(&file).expect("written"));
    let error = run.error.expect("said");
    assert!(run.complete && error.text.contains(dir_text), "{error:?}");

    // Stdout is the one that fails: the files are saved again with what happened.
    let asked = ["--json", file_text, "--output", kept.text()];
    let ended = with_outputs(&server, &asked, full(), Stdio::piped());
    assert_eq!(ended.status.code(), Some(4));
    for run in [
        kept.only_run(),
        one_document(&std::fs::read_to_string(&file).expect("there")),
    ] {
        let error = run.error.expect("said");
        assert!(
            run.complete && error.text.contains("No space left"),
            "{error:?}"
        );
    }
}

#[test]
fn every_run_is_kept_and_the_last_one_by_name() {
    let server = Server::start(&[]);
    let scratch = Scratch::new("every");
    let (dir, file) = (
        scratch.path().join("runs"),
        scratch.path().join("last.json"),
    );
    let (dir, file) = (dir.to_str().expect("text"), file.to_str().expect("text"));
    let mut uuids = Vec::new();
    for _ in 0..2 {
        let asked = ["--json", file, "--output", dir, "--title", "a title"];
        let ended = server
            .client(&[&asked[..], &SHORT].concat())
            .ended(STANDING);
        assert_eq!(code(&ended), 0, "{ended:?}");
        assert!(
            ended.stdout.contains("a title"),
            "the table as well: {ended:?}"
        );
        let run = one_document(&std::fs::read_to_string(file).expect("written"));
        assert_eq!(run.title.as_deref(), Some("a title"));
        uuids.push(format!("{}.json", run.uuid));
    }
    let names = std::fs::read_dir(dir).expect("made");
    let mut names: Vec<String> = names
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    uuids.sort();
    assert_eq!(names, uuids);
}

/// The commands of the README that name a host, as printed, but shorter.
#[test]
fn the_readme_tells_the_truth() {
    let readme = include_str!("../../README.md");
    let commands: Vec<Vec<&str>> = readme
        .lines()
        .filter_map(|line| line.trim().strip_prefix("ringperf run HOST "))
        .map(|line| line.split("  ").next().unwrap_or(line).split(' ').collect())
        .collect();
    assert!(commands.len() >= 8, "{commands:?}");
    let server = Server::start(&[]);
    let scratch = Scratch::new("readme");
    for command in commands {
        let mut client = Command::new(RINGPERF);
        client
            .current_dir(scratch.path())
            .args(["run", &server.host()]);
        client
            .args(&command)
            .args(["--duration", "200ms", "--warmup", "100ms"]);
        let ended = Running::start(&mut client).ended(Duration::from_secs(60));
        assert_eq!(code(&ended), 0, "{command:?}: {ended:?}");
    }
    let result = scratch.path().join("result.json");
    one_document(&std::fs::read_to_string(result).expect("as the README says"));
    assert_eq!(
        std::fs::read_dir(scratch.path().join("runs"))
            .expect("made")
            .count(),
        1
    );
    for limits in readme.lines().filter(|line| line.contains("`--allow")) {
        for flag in limits
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|flag| flag.starts_with("--"))
        {
            let help = ringperf(&["serve", "--help"]).ended(STANDING).stdout;
            let name = flag.split(' ').next().unwrap_or(flag);
            assert!(help.contains(name), "{name}");
        }
    }
}

/// The first command of the README: both sides in this process, four cases.
#[test]
fn the_tour() {
    let ended = ringperf(&["run"]).ended(Duration::from_secs(60));
    assert_eq!(code(&ended), 0, "{ended:?}");
    for case in ["tcp stream", "tcp rr", "udp stream", "udp rr"] {
        assert!(ended.stdout.contains(case), "{case}: {}", ended.stdout);
    }
    let ended = ringperf(&["run", "--duration", "100ms", "--json", "-"]).ended(STANDING);
    assert!(document(&ended).complete, "{ended:?}");
}
