//! Every rule of a plan, with its message. All broken rules are reported at once.
//!
//! `values` holds what one flag may be, `traffic` what goes together with which traffic, `sides`
//! what concerns hosts, CPUs and ports, `zerocopy` what goes together with zero-copy,
//! `tuning` what the engine's choices may be.

mod sides;
mod traffic;
mod tuning;
mod values;
mod zerocopy;

use super::expand::expand;
use super::matrix::Matrix;
use super::{Plan, ServeOptions, Spec};

/// Most cases of one plan.
const MAX_CASES: usize = 10_000;

/// A broken rule: the flags that break it, with their values, and why they do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {reason}", flags.join(" with "))]
pub struct PlanError {
    /// Flags as they could have been typed.
    pub flags: Vec<String>,
    /// What is wrong and what to do about it.
    pub reason: String,
}

/// Broken rules, each once.
#[derive(Default)]
struct Errors(Vec<PlanError>);

impl Errors {
    fn push<const N: usize>(&mut self, flags: [String; N], reason: impl Into<String>) {
        let error = PlanError {
            flags: flags.to_vec(),
            reason: reason.into(),
        };
        if !self.0.contains(&error) {
            self.0.push(error);
        }
    }
}

/// Turns what was typed into what it means.
///
/// # Errors
/// Every broken rule, each naming its flags.
pub fn check(spec: &Spec) -> Result<Plan, Vec<PlanError>> {
    let matrix = Matrix::of(spec);
    let mut errors = Errors::default();
    values::check(spec, &mut errors);
    traffic::check(spec, &matrix, &mut errors);
    sides::check(spec, &matrix, &mut errors);
    tuning::check(spec, &matrix, &mut errors);
    zerocopy::check(spec, &matrix, &mut errors);
    if matrix.cases().is_none_or(|cases| cases > MAX_CASES) {
        let flags = [
            "--proto",
            "--test",
            "--size",
            "--flows",
            "--workers",
            "--depth",
            "--rate",
        ];
        errors.push(
            [flags.join(" x ")],
            format!("the matrix has more than {MAX_CASES} points; make several plans of it"),
        );
    }
    if !errors.0.is_empty() {
        return Err(errors.0);
    }
    let (cpus, notes) = sides::cpus(spec, &matrix);
    let mut plan = expand(spec, &matrix, cpus);
    plan.notes.extend(notes);
    Ok(plan)
}

/// Checks what was typed for `serve`.
///
/// # Errors
/// Every broken rule, each naming its flags.
pub fn check_serve(options: &ServeOptions) -> Result<(), Vec<PlanError>> {
    let mut errors = Errors::default();
    values::check_serve(options, &mut errors);
    if let Some(range) = options.data_ports
        && range.contains(options.port)
        && range.len() > 1
    {
        errors.push(
            [
                format!("--data-port {range}"),
                format!("--port {}", options.port),
            ],
            "the control port cannot be one of several data ports",
        );
    }
    if errors.0.is_empty() {
        Ok(())
    } else {
        Err(errors.0)
    }
}
