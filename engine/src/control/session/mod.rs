//! The session as state machines without I/O: what arrived goes in, what to do comes out.
//!
//! Time is an argument (nanoseconds of any monotonic clock), so that tests own it.

pub mod client;
mod liveness;
pub mod server;
pub mod terms;

#[cfg(test)]
mod property;
#[cfg(test)]
mod rules;

pub use client::{ClientAction, ClientInput, ClientSession};
pub use server::{ServerAction, ServerInput, ServerSession};

use super::crew::CrewEvent;
use super::wire::Refusal;
use crate::record::Progress;

/// One second, nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// What a crew said, without the sockets that only the shells can handle.
#[derive(Clone, PartialEq, Debug)]
pub enum CrewNews {
    /// Every worker waits for the start.
    Armed,
    /// An interval ended.
    Progress(Box<Progress>),
    /// This side's window ended.
    WindowDone,
    /// Every worker has stopped.
    Stopped,
    /// The sample cannot go on.
    Failed(Refusal),
}

impl CrewNews {
    /// The news in an event; `None` for a stranger's connection.
    pub fn from_event(event: CrewEvent) -> Option<CrewNews> {
        Some(match event {
            CrewEvent::Armed => CrewNews::Armed,
            CrewEvent::Progress(progress) => CrewNews::Progress(Box::new(progress)),
            CrewEvent::WindowDone => CrewNews::WindowDone,
            CrewEvent::Stopped => CrewNews::Stopped,
            CrewEvent::Failed(refusal) => CrewNews::Failed(refusal),
            CrewEvent::Stranger(..) => return None,
        })
    }
}
