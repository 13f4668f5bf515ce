//! SIGINT and SIGTERM: the first ends the run in order, the second at once.

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
    pub fn watch(stop: StopHandle) -> Interrupts {
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
                while let Ok(signal) = set.wait() {
                    let code = 128 + signal as i32 as u8;
                    if own.swap(code, Ordering::AcqRel) != 0 {
                        std::process::exit(i32::from(code));
                    }
                    stop.stop();
                }
            });
        if let Err(error) = waiter {
            log::warn!("signals cannot be handled in order: {error}");
        }
        Interrupts(seen)
    }

    /// The exit code of the signal that came: 130 or 143.
    pub fn exit_code(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Acquire)).filter(|code| *code != 0)
    }
}
