//! A worker on the caller's thread, with the caller's engine.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::backend::{Backend, Setup};
use crate::measure::recorder::Recorder;

use super::flow::Role;
use super::outcome::WorkerOutcome;
use super::policy::Choices;
use super::signals::Signals;
use super::thread::{Adopted, Belongings, WorkerPlan, assemble, flows_of, recorder_plan, work};

/// Runs a worker to its end, as [`super::spawn`]'s thread does but for pinning. The start must
/// have been signalled, and something must signal the stop.
///
/// Public for one reason: what the loop itself costs can be counted exactly only with an engine
/// that costs nothing the kernel decides, and only one outside of this package is such an
/// engine. None where the sockets could not be set up.
///
/// # Errors
///
/// Where the engine cannot be made.
#[inline(never)]
pub fn drive<B: Backend>(
    plan: &WorkerPlan,
    flows: Vec<Adopted>,
    (signals, woken): (Arc<Signals>, OwnedFd),
    engine: impl FnOnce(&Setup) -> io::Result<B>,
) -> io::Result<Option<WorkerOutcome>> {
    let belongings = Belongings {
        flows,
        ..Belongings::default()
    };
    let flows = flows_of(plan, &belongings);
    let roles: Vec<Role> = flows.iter().map(|flow| flow.role).collect();
    let choices = Choices::of(&plan.case, plan.client, &roles);
    let backend = engine(&choices.setup(&plan.case, flows.len() as u32))?;
    let (recorder, _batches) = Recorder::new(recorder_plan(plan));
    let (says, _notes) = channel();
    let worker = assemble(plan, recorder, signals, &says, backend, choices, flows);
    Ok(work(plan, worker, belongings, woken))
}
