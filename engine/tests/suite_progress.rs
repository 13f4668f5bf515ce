//! What is seen while something is under way: on a terminal, in a pipe, and by programs.

mod support;

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::process::{RINGPERF, Running};
use support::session::{STANDING, Server, code};

const FOUR: [&str; 10] = [
    "--flows",
    "1,2",
    "--samples",
    "2",
    "--duration",
    "300ms",
    "--warmup",
    "0s",
    "--interval",
    "100ms",
];

/// Runs a client whose stderr is a terminal; gives what it wrote there.
fn on_a_terminal(server: &Server, rest: &[&str]) -> String {
    // Python's pty module is a terminal that needs nothing of ours, and every Debian has it.
    let script = "import os, pty, sys\n\
                  seen = []\n\
                  def read(fd):\n\
                  \x20   data = os.read(fd, 65536)\n\
                  \x20   seen.append(data)\n\
                  \x20   return data\n\
                  status = pty.spawn(sys.argv[1:], read)\n\
                  sys.exit(os.waitstatus_to_exitcode(status))\n";
    let mut command = Command::new("python3");
    command.args(["-c", script, "sh", "-c"]);
    let host = server.host();
    let words = [&[RINGPERF, "run", &host], &FOUR[..], rest].concat();
    command.arg(format!("{} >/dev/null", words.join(" ")));
    let ended = Running::start(&mut command).ended(STANDING);
    assert_eq!(code(&ended), 0, "{ended:?}");
    ended.stdout
}

#[test]
fn a_terminal_shows_which_case_of_how_many() {
    let server = Server::start(&[]);
    let shown = on_a_terminal(&server, &[]);
    for (case, sample) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let wanted = format!("case {case}/2, sample {sample}/2, tcp stream 128K x{case}");
        assert!(shown.contains(&wanted), "{wanted}: {shown:?}");
    }
    assert!(shown.contains("bit/s received"), "{shown:?}");
    assert!(
        shown.contains('\r') && !shown.contains("panicked"),
        "rewritten in place"
    );
    assert_eq!(on_a_terminal(&server, &["--quiet"]), "");
}

#[test]
fn a_pipe_gets_lines_of_intervals_only() {
    let server = Server::start(&[]);
    let ended = server.client(&FOUR).ended(STANDING);
    assert_eq!(code(&ended), 0, "{ended:?}");
    for line in ended.stderr.lines() {
        assert!(
            line.starts_with("[  0.") && line.contains("s] case "),
            "{line:?}"
        );
    }
    assert!(ended.stderr.contains("case 2/2, sample 2/2, "), "{ended:?}");
}

#[test]
fn a_server_tells_programs_of_its_sessions() {
    let mut command = Command::new(RINGPERF);
    command.args([
        "serve",
        "--bind",
        "127.0.0.1",
        "--port",
        "0",
        "--json-stream",
    ]);
    let server = Running::start(&mut command);
    server.wait_for_stdout("\n", STANDING);
    let objects = || -> Vec<serde_json::Value> {
        let text = server.stdout();
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("an object a line")
    };
    let address = objects()[0]["address"].as_str().expect("text").to_string();
    let client = |rest: &[&str]| {
        let mut client = Command::new(RINGPERF);
        let short = ["--warmup", "0s", "--interval", "100ms", "--json", "-"];
        Running::start(client.args(["run", &address]).args(short).args(rest))
    };
    let first = client(&["--duration", "60s"]);
    first.wait_for_stderr("[  0.", STANDING);
    let second = client(&["--duration", "300ms"]).ended(STANDING);
    assert_eq!(code(&second), 4, "{second:?}");
    first.signal("KILL");
    server.wait_for_stdout("session-ended", STANDING);
    let kinds: Vec<String> = objects()
        .iter()
        .map(|object| object["type"].as_str().expect("text").to_string())
        .collect();
    assert_eq!(
        kinds,
        ["listening", "session-began", "refused", "session-ended"]
    );
    let told = objects();
    assert_eq!(told[2]["error"]["code"], "busy");
    assert_eq!(told[1]["run"], told[3]["run"]);
    assert!(told[3]["lasted_s"].as_f64() > Some(0.1) && told[3]["error"]["exit_code"] == 4);
    assert!(
        told.iter()
            .all(|object| object["at"].as_str().map(str::len) == Some(24))
    );
}

/// Nobody reads what a server says: it serves on.
#[test]
fn a_server_whose_stdout_is_gone() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut child = Command::new(RINGPERF)
        .args([
            "serve",
            "--bind",
            "127.0.0.1",
            "--port",
            "0",
            "--json-stream",
        ])
        .stdout(OwnedFd::from(writer))
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut reader = std::io::BufReader::new(reader);
    std::io::BufRead::read_line(&mut reader, &mut line).expect("it listens");
    drop(reader);
    let told: serde_json::Value = serde_json::from_str(&line).expect("an object");
    let address = told["address"].as_str().expect("text");
    for _ in 0..2 {
        let mut client = Command::new(RINGPERF);
        client.args(["run", address, "--duration", "100ms", "--warmup", "0s"]);
        let ended = Running::start(&mut client).ended(Duration::from_secs(30));
        assert_eq!(code(&ended), 0, "{ended:?}");
    }
    child.kill().expect("it runs");
    child.wait().expect("ours");
}
