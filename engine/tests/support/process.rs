//! Processes that end with the test that started them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The command under test.
pub const RINGPERF: &str = env!("CARGO_BIN_EXE_ringperf");

/// What a process has written to one of its outputs so far.
#[derive(Clone, Default)]
struct Text(Arc<(Mutex<(String, bool)>, Condvar)>);

impl Text {
    /// Collects lines until the end of `from`.
    fn collect(&self, from: impl Read + Send + 'static) -> JoinHandle<()> {
        let text = self.clone();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while from
                .read_until(b'\n', &mut line)
                .is_ok_and(|bytes| bytes > 0)
            {
                text.change(|so_far, _| so_far.push_str(&String::from_utf8_lossy(&line)));
                line.clear();
            }
            text.change(|_, ended| *ended = true);
        })
    }

    fn change(&self, change: impl FnOnce(&mut String, &mut bool)) {
        let (lock, changed) = &*self.0;
        let mut state = lock.lock().expect("no holder panics");
        let (text, ended) = &mut *state;
        change(text, ended);
        changed.notify_all();
    }

    fn so_far(&self) -> String {
        self.0.0.lock().expect("no holder panics").0.clone()
    }

    /// Waits until the text contains `wanted`; false where it ended or time ran out before.
    fn wait_for(&self, wanted: &str, at_most: Duration) -> bool {
        let (lock, changed) = &*self.0;
        let state = lock.lock().expect("no holder panics");
        let going_on = |(text, ended): &mut (String, bool)| !text.contains(wanted) && !*ended;
        let (state, _) = changed
            .wait_timeout_while(state, at_most, going_on)
            .expect("no holder panics");
        state.0.contains(wanted)
    }
}

/// How a process ended and what it wrote.
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// Its results.
    pub stdout: String,
    /// Its diagnostics.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl std::fmt::Debug for Ended {
    /// What it said went wrong comes first; a document may be long.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(to, "{} after {:?}; stderr:", self.status, self.took)?;
        writeln!(to, "{}\nstdout:\n{}", self.stderr, self.stdout)
    }
}

/// A process that is killed on drop, also by a panic.
pub struct Running {
    child: Child,
    begun: Instant,
    stdout: Text,
    stderr: Text,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    /// Starts a command without an input, its outputs collected.
    pub fn start(command: &mut Command) -> Running {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let (stdout, stderr) = (Text::default(), Text::default());
        let readers = vec![
            stdout.collect(child.stdout.take().expect("piped")),
            stderr.collect(child.stderr.take().expect("piped")),
        ];
        Running {
            child,
            begun: Instant::now(),
            stdout,
            stderr,
            readers,
        }
    }

    /// Process number. In a namespace too it is the command's own, since `ip netns exec` becomes
    /// the command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to stdout so far.
    pub fn stdout(&self) -> String {
        self.stdout.so_far()
    }

    /// What it wrote to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.so_far()
    }

    /// Waits for a text on stdout; panics with what there was where it does not come.
    pub fn wait_for_stdout(&self, wanted: &str, at_most: Duration) {
        let came = self.stdout.wait_for(wanted, at_most);
        assert!(
            came,
            "no {wanted:?} on stdout:\n{}\nstderr:\n{}",
            self.stdout(),
            self.stderr()
        );
    }

    /// Waits for a text on stderr; panics with what there was where it does not come.
    pub fn wait_for_stderr(&self, wanted: &str, at_most: Duration) {
        let came = self.stderr.wait_for(wanted, at_most);
        assert!(
            came,
            "no {wanted:?} on stderr:\n{}\nstdout:\n{}",
            self.stderr(),
            self.stdout()
        );
    }

    /// Sends a signal by its name without `SIG`, to this process only.
    pub fn signal(&self, name: &str) {
        let signal = format!("SIG{name}").parse::<nix::sys::signal::Signal>();
        let signal = signal.unwrap_or_else(|_| panic!("{name} is not a signal"));
        let pid = nix::unistd::Pid::from_raw(self.pid() as i32);
        nix::sys::signal::kill(pid, signal).expect("our child is there until it is waited for");
    }

    /// Waits for its end; none where it goes on after `at_most`.
    pub fn wait(&mut self, at_most: Duration) -> Option<Ended> {
        let until = Instant::now() + at_most;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = self.begun.elapsed();
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader does not panic");
        }
        Some(Ended {
            status,
            stdout: self.stdout(),
            stderr: self.stderr(),
            took,
        })
    }

    /// Waits for its end; panics with what it wrote where it goes on after `at_most`.
    pub fn ended(mut self, at_most: Duration) -> Ended {
        match self.wait(at_most) {
            Some(ended) => ended,
            None => panic!(
                "still running after {at_most:?}; stdout:\n{}\nstderr:\n{}",
                self.stdout(),
                self.stderr()
            ),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended and been waited for, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command under test, in this namespace.
pub fn ringperf(arguments: &[&str]) -> Running {
    Running::start(Command::new(RINGPERF).args(arguments))
}
