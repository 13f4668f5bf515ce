//! A server that tells where it listens, and what a client left behind.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringperf::record::{Run, read};

use super::process::{Ended, RINGPERF, Running};

/// How long a process may take to stand, on a machine that is busy with other tests.
pub const STANDING: Duration = Duration::from_secs(20);

/// A `ringperf serve` that listens.
pub struct Server {
    /// The process.
    pub running: Running,
    /// Where its control port is.
    pub address: SocketAddr,
}

impl Server {
    /// On loopback, on a port that the kernel chooses.
    pub fn start(arguments: &[&str]) -> Server {
        let mut command = Command::new(RINGPERF);
        command.args(["serve", "--bind", "127.0.0.1", "--port", "0"]);
        Server::of(command.args(arguments))
    }

    /// By any command that becomes `ringperf serve`.
    pub fn of(command: &mut Command) -> Server {
        let running = Running::start(command);
        running.wait_for_stdout("\n", STANDING);
        let line = running.stdout();
        let (_, address) = line.trim().rsplit_once(' ').expect("its first line");
        let address = address.parse().expect("an address ends the line");
        Server { running, address }
    }

    /// The address as it is typed after `run`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// A client of it with these arguments.
    pub fn client(&self, arguments: &[&str]) -> Running {
        Running::start(
            Command::new(RINGPERF)
                .args(["run", &self.host()])
                .args(arguments),
        )
    }

    /// Runs a short case to its end; panics where that is not a success. The server is well.
    pub fn serves_the_next(&self) {
        let next = ["--test", "rr", "--duration", "100ms", "--warmup", "0s"];
        let ended = self.client(&next).ended(STANDING);
        assert_eq!(code(&ended), 0, "{ended:?}\n{}", self.running.stderr());
    }
}

/// An address that nobody listens on. Not 127.0.0.1, where any connection of another test may
/// take a port that was free.
pub fn vacant_address() -> SocketAddr {
    let vacant = std::net::TcpListener::bind("127.77.0.1:0").expect("all of 127/8 is local");
    vacant.local_addr().expect("bound")
}

/// Waits until so many intervals of the window are on the live lines; a busy machine may skip
/// some.
pub fn wait_for_intervals(client: &Running, count: usize) {
    let until = std::time::Instant::now() + STANDING;
    let told = |line: &&str| line.starts_with("[ ") && line.contains("s] ");
    while client.stderr().lines().filter(told).count() < count {
        assert!(std::time::Instant::now() < until, "{}", client.stderr());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The exit code; panics where a signal ended it.
pub fn code(ended: &Ended) -> i32 {
    ended
        .status
        .code()
        .unwrap_or_else(|| panic!("ended by a signal: {ended:?}"))
}

/// The one document that stdout is: nothing before it, nothing after it.
pub fn document(ended: &Ended) -> Run {
    one_document(&ended.stdout)
}

/// The one document that a text is.
pub fn one_document(text: &str) -> Run {
    let values: Vec<serde_json::Value> = serde_json::Deserializer::from_str(text)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}:\n{text}"));
    assert_eq!(values.len(), 1, "one document and no more:\n{text}");
    read(text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

/// A directory of its own, removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it; the label keeps tests of one process apart.
    pub fn new(label: &str) -> Scratch {
        let name = format!("ringperf-test-{}-{label}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Scratch(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its path as text.
    pub fn text(&self) -> &str {
        self.0.to_str().expect("made of text")
    }

    /// The one run in it, by a file of its UUID's name.
    pub fn only_run(&self) -> Run {
        let files: Vec<PathBuf> = std::fs::read_dir(&self.0)
            .expect("it is there")
            .map(|entry| entry.expect("readable").path())
            .collect();
        let [file] = files.as_slice() else {
            panic!("not one file: {files:?}")
        };
        let run = one_document(&std::fs::read_to_string(file).expect("readable"));
        assert_eq!(
            file.file_name().and_then(|name| name.to_str()),
            Some(format!("{}.json", run.uuid).as_str())
        );
        run
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is seen by whoever looks into the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
