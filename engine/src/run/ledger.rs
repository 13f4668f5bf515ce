//! What the run has so far: the conductor writes it, and whoever ends the run takes it.
//!
//! A second signal ends the run at once, whatever the conductor waits for. It takes the ledger as
//! it stands: finished samples whole, the one under way as far as both sides have told of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::control::crew::Side;
use crate::plan::Case;
use crate::record::{CaseResult, Progress, Run, Sample};

use super::assemble::{self, SampleInput};

/// The run so far; clones are the same one.
#[derive(Clone)]
pub(super) struct Ledger(Arc<Mutex<Book>>);

struct Book {
    /// None once it was taken.
    run: Option<Run>,
    open: Option<Open>,
}

/// The sample under way.
struct Open {
    case: Case,
    number: u32,
    started: SystemTime,
    client: Vec<Progress>,
    server: Vec<Progress>,
}

impl Ledger {
    pub(super) fn new(run: Run) -> Ledger {
        Ledger(Arc::new(Mutex::new(Book {
            run: Some(run),
            open: None,
        })))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the run; nothing once it was taken.
    pub(super) fn with(&self, change: impl FnOnce(&mut Run)) {
        if let Some(run) = &mut self.book().run {
            change(run);
        }
    }

    /// The run's UUID; empty once it was taken.
    pub(super) fn uuid(&self) -> String {
        let book = self.book();
        book.run
            .as_ref()
            .map(|run| run.uuid.clone())
            .unwrap_or_default()
    }

    /// A further case begins.
    pub(super) fn case(&self, case: &Case) {
        self.with(|run| {
            run.cases.push(CaseResult {
                case: case.clone(),
                samples: Vec::new(),
                probed: None,
                error: None,
            });
        });
    }

    /// A sample of the last case begins.
    pub(super) fn open(&self, case: &Case, number: u32, started: SystemTime) {
        self.book().open = Some(Open {
            case: case.clone(),
            number,
            started,
            client: Vec::new(),
            server: Vec::new(),
        });
    }

    /// One side told of an interval. Its histogram is left out: it would be kept twice, for days
    /// where a sample takes days.
    pub(super) fn heard(&self, side: Side, progress: &Progress) {
        let mut book = self.book();
        let Some(open) = &mut book.open else { return };
        let told = Progress {
            latency: Vec::new(),
            groups: progress.groups.clone(),
            lifetime: progress.lifetime.clone(),
            ..*progress
        };
        match side {
            Side::Client => open.client.push(told),
            Side::Server => open.server.push(told),
        }
    }

    /// The sample under way has ended: what it gave, or why its case did not run.
    pub(super) fn close(&self, result: impl FnOnce(&mut CaseResult)) {
        let mut book = self.book();
        book.open = None;
        if let Some(case) = book.run.as_mut().and_then(|run| run.cases.last_mut()) {
            result(case);
        }
    }

    /// Whether somebody took the run, to write it.
    pub(super) fn is_taken(&self) -> bool {
        self.book().run.is_none()
    }

    /// The run as it stands, for the first who asks; a sample under way is in it as far as it is
    /// known.
    pub(super) fn take(&self) -> Option<Run> {
        let mut book = self.book();
        let mut run = book.run.take()?;
        let open = book.open.take();
        if let (Some(open), Some(case)) = (open, run.cases.last_mut()) {
            case.samples.extend(open.known());
        }
        Some(run)
    }
}

impl Open {
    /// What both sides have told of; none where neither has.
    fn known(self) -> Option<Sample> {
        if self.client.is_empty() && self.server.is_empty() {
            return None;
        }
        Some(assemble::sample(SampleInput {
            case: &self.case,
            number: self.number,
            started: self.started,
            client: None,
            server: None,
            client_progress: &self.client,
            server_progress: &self.server,
            findings: Vec::new(),
            error: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Counters, Interval, canned};

    fn told(index: i64, received_bytes: u64) -> Progress {
        let counters = Counters {
            sent_bytes: received_bytes,
            received_bytes,
            ..Counters::default()
        };
        Progress {
            index,
            groups: vec![Interval {
                index: index as u64,
                start_s: index as f64,
                length_s: 1.0,
                counters,
                ..Interval::default()
            }],
            lifetime: vec![counters],
            latency: vec![Some("a histogram".to_string())],
            ..Progress::default()
        }
    }

    #[test]
    fn an_abandoned_run_has_its_finished_samples_and_what_was_told_of_the_next() {
        let canned = canned::tour();
        let (case, whole) = (&canned.cases[0].case, &canned.cases[0].samples[0]);
        let run = Run {
            cases: Vec::new(),
            ..canned.clone()
        };
        let ledger = Ledger::new(run);
        ledger.case(case);
        ledger.open(case, 1, SystemTime::now());
        ledger.heard(Side::Server, &told(0, 5));
        ledger.close(|result| result.samples.push(whole.clone()));
        ledger.open(case, 2, SystemTime::now());
        for index in 0..3 {
            ledger.heard(Side::Client, &told(index, 1000));
            ledger.heard(Side::Server, &told(index, 1000));
        }
        let run = ledger.take().unwrap();
        let [first, second] = run.cases[0].samples.as_slice() else {
            panic!("{:?}", run.cases[0].samples)
        };
        assert_eq!(first, whole);
        assert!(!second.complete);
        assert_eq!(
            (second.number, second.groups[0].figures.received.bytes),
            (2, 3000)
        );
        assert_eq!(second.intervals.server.len(), 3);
        assert!(
            ledger.take().is_none(),
            "whoever comes second writes nothing"
        );
        ledger.with(|_| panic!("it was taken"));
    }

    #[test]
    fn a_sample_that_told_nothing_leaves_nothing() {
        let canned = canned::tour();
        let case = &canned.cases[0].case;
        let ledger = Ledger::new(Run {
            cases: Vec::new(),
            ..canned.clone()
        });
        ledger.case(case);
        ledger.open(case, 1, SystemTime::now());
        let run = ledger.take().unwrap();
        assert_eq!((run.cases.len(), run.cases[0].samples.len()), (1, 0));
    }
}
