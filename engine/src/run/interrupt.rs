//! SIGINT and SIGTERM: the first ends the run in order, the second at once.

use std::io::{IsTerminal, Write};
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::signal::{SigSet, Signal};

use crate::control::stop::StopHandle;

/// Remembers the signal that came.
#[derive(Clone, Debug)]
pub struct Interrupts(Arc<AtomicU8>);

impl Interrupts {
    /// Takes both signals away from every thread started from here on and waits for them on one
    /// of its own. Must be called before any other thread is started.
    ///
    /// The first signal sends the wish to stop. The second calls `abandon` with its exit code, on
    /// a thread of its own, and ends the process with that code once it returns. A third does
    /// not wait for that either.
    pub fn watch(stop: StopHandle, abandon: impl FnOnce(u8) + Send + 'static) -> Interrupts {
        let seen = Arc::new(AtomicU8::new(0));
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        if let Err(error) = set.thread_block() {
            log::warn!("signals cannot be handled in order: {error}");
            return Interrupts(seen);
        }
        let own = Arc::clone(&seen);
        let waiter = std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                let mut abandon = Some(abandon);
                while let Ok(signal) = set.wait() {
                    let code = 128 + signal as i32 as u8;
                    match (own.swap(code, Ordering::AcqRel), abandon.take()) {
                        (0, kept) => {
                            abandon = kept;
                            say("stopping; again to abandon");
                            stop.stop();
                        }
                        (_, Some(abandon)) => leave(code, abandon),
                        (_, None) => exit(i32::from(code)),
                    }
                }
            });
        if let Err(error) = waiter {
            log::warn!("signals cannot be handled in order: {error}");
        }
        Interrupts(seen)
    }

    /// The exit code of the signal that came last: 130 or 143.
    pub fn exit_code(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Acquire)).filter(|code| *code != 0)
    }
}

/// Ends the process after `abandon`, and at once where no thread can be had for it.
fn leave(code: u8, abandon: impl FnOnce(u8) + Send + 'static) {
    let leaver = std::thread::Builder::new()
        .name("abandon".into())
        .spawn(move || {
            abandon(code);
            exit(i32::from(code));
        });
    if leaver.is_err() {
        exit(i32::from(code));
    }
}

/// A line on stderr. On a terminal the live line, and the `^C` that the terminal shows, stand
/// before it.
fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    let before = if err.is_terminal() { "\n" } else { "" };
    if let Err(error) = writeln!(err, "{before}{text}") {
        log::debug!("stderr cannot be written: {error}");
    }
}
