//! Commands with an end: each runs in a process group of its own, is bounded in time, and is
//! ended with everything it started when its time is up or the user interrupts.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGINT, SIGTERM};

/// How often a running command is looked at.
const TICK: Duration = Duration::from_millis(50);

/// How long a command has between being asked to end and being ended.
const GRACE: Duration = Duration::from_secs(3);

/// Exit code after an interrupt.
const INTERRUPTED: i32 = 130;

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Takes SIGINT and SIGTERM as a wish to stop, so that what was set up is taken down again. A
/// second one ends this process at once.
///
/// # Errors
///
/// Where the handlers cannot be installed.
pub fn watch_signals() -> Result<()> {
    let stop = STOP.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal finds the flag clear and only sets it.
        let second = Arc::clone(stop);
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, second)?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// Whether the user asked to stop.
pub fn interrupted() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// What a command left.
#[derive(Debug, Default)]
pub struct Finished {
    /// Whether it ended by itself with exit code 0.
    pub success: bool,
    /// Its exit code, if it has one.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Whether a command's output is also shown, both streams on standard error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    /// As it comes.
    Yes,
    /// Only kept.
    No,
}

enum Piece {
    Stdout(String),
    Stderr(String),
}

/// Runs a command to its end, at most for `limit`.
///
/// # Errors
///
/// Where it cannot be started, is interrupted, or its time is up; not for its exit code.
pub fn run(command: Command, limit: Duration, show: Show) -> Result<Finished> {
    run_watched(command, limit, show, |_| {})
}

/// The same, and tells the command's process group once it has started.
///
/// # Errors
///
/// As [`run`].
pub fn run_watched(
    mut command: Command,
    limit: Duration,
    show: Show,
    started: impl FnOnce(u32),
) -> Result<Finished> {
    let name = name_of(&command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("{name} could not be started"))?;
    started(child.id());
    let (sender, pieces) = channel();
    read_lines(child.stdout.take(), sender.clone(), Piece::Stdout);
    read_lines(child.stderr.take(), sender, Piece::Stderr);
    let mut finished = Finished::default();
    let ended = follow(&mut child, &pieces, limit, show, &mut finished);
    if let Err(why) = ended {
        end_group(&mut child);
        return Err(why.context(name));
    }
    let status = child.wait()?;
    (finished.success, finished.code) = (status.success(), status.code());
    Ok(finished)
}

/// Collects the output until the command has ended.
fn follow(
    child: &mut Child,
    pieces: &Receiver<Piece>,
    limit: Duration,
    show: Show,
    finished: &mut Finished,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    let mut ended: Option<Instant> = None;
    loop {
        match pieces.recv_timeout(TICK) {
            Ok(piece) => keep(piece, show, finished)?,
            Err(RecvTimeoutError::Disconnected) if ended.is_some() => return Ok(()),
            // Both streams are closed while the process lives on.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        if ended.is_some_and(|at| at.elapsed() > GRACE) {
            // Something that it started holds the pipes open, and its group with them.
            signal_group(child, Signal::SIGKILL);
            return Ok(());
        }
        if interrupted() {
            bail!("interrupted");
        }
        if Instant::now() > deadline {
            bail!("not done after {} s", limit.as_secs());
        }
    }
}

fn keep(piece: Piece, show: Show, finished: &mut Finished) -> Result<()> {
    let (Piece::Stdout(line) | Piece::Stderr(line)) = &piece;
    if show == Show::Yes {
        std::io::stderr().write_all(line.as_bytes())?;
    }
    match piece {
        Piece::Stdout(line) => finished.stdout.push_str(&line),
        Piece::Stderr(line) => finished.stderr.push_str(&line),
    }
    Ok(())
}

fn read_lines<R>(stream: Option<R>, sender: Sender<Piece>, piece: fn(String) -> Piece)
where
    R: Read + Send + 'static,
{
    let Some(stream) = stream else { return };
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .is_ok_and(|length| length > 0)
        {
            let text = String::from_utf8_lossy(&line).into_owned();
            if sender.send(piece(text)).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// Asks a command and everything it started to end, and ends what does not.
fn end_group(child: &mut Child) {
    signal_group(child, Signal::SIGTERM);
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(TICK);
    }
    signal_group(child, Signal::SIGKILL);
    let _ = child.wait();
}

/// The group may be gone already, which is what is wanted.
fn signal_group(child: &Child, signal: Signal) {
    let _ = killpg(Pid::from_raw(child.id() as i32), signal);
}

fn name_of(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy()),
    );
    words.join(" ")
}

/// A server that runs beside other commands and is ended when this is dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
}

impl Background {
    /// Starts it, without input and output.
    ///
    /// # Errors
    ///
    /// Where it cannot be started.
    pub fn start(mut command: Command) -> Result<Background> {
        let name = name_of(&command);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("{name} could not be started"))?;
        Ok(Background { child })
    }

    /// Its process and process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it and all it started without asking, where nothing of it matters any more.
    pub fn end_at_once(mut self) {
        signal_group(&self.child, Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if !self.has_ended() {
            end_group(&mut self.child);
        }
    }
}

/// Whether a program of that name is on the path.
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::kill;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_and_the_code_are_kept() {
        let script = "echo out; echo err >&2; exit 3";
        let finished = run(shell(script), Duration::from_secs(10), Show::No).unwrap();
        assert_eq!((finished.success, finished.code), (false, Some(3)));
        assert_eq!(
            (finished.stdout.as_str(), finished.stderr.as_str()),
            ("out\n", "err\n")
        );
    }

    #[test]
    fn a_command_without_end_is_ended() {
        let began = Instant::now();
        let error = run(shell("sleep 60"), Duration::from_millis(200), Show::No).unwrap_err();
        assert!(format!("{error:#}").contains("not done after"), "{error:#}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn what_a_command_leaves_running_is_ended() {
        let began = Instant::now();
        let left = run(
            shell("sleep 60 & echo $!"),
            Duration::from_secs(30),
            Show::No,
        )
        .unwrap();
        assert!(left.success && began.elapsed() < Duration::from_secs(20));
        let pid: i32 = left.stdout.trim().parse().unwrap();
        let gone = || kill(Pid::from_raw(pid), None).is_err() || is_zombie(pid);
        let deadline = Instant::now() + Duration::from_secs(5);
        while !gone() && Instant::now() < deadline {
            std::thread::sleep(TICK);
        }
        assert!(gone());
    }

    fn is_zombie(pid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
    }

    #[test]
    fn what_cannot_be_started_says_its_name() {
        let error = run(Command::new("no-such-program"), GRACE, Show::No).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("no-such-program could not be started")
        );
        assert!(!on_path("no-such-program") && on_path("sh"));
    }
}
