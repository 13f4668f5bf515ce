//! Attaching one probe: the first of its programs that verifies.

use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, BtfError, Ebpf};
use ringperf_ebpf::programs::Probe;

use crate::record::{Unavailable, UnavailableStatus};

/// Lines of the verifier that are kept for the log.
const VERIFIER_LINES: usize = 12;

/// What an error means for the next step.
#[derive(PartialEq, Eq, Debug)]
enum Verdict {
    /// The tracepoint has fewer arguments: try the next program.
    FewerArguments,
    NotPermitted,
    NotSupported,
    Failed,
}

/// Attaches a probe and gives the name of the program that did it.
pub(super) fn attach(ebpf: &mut Ebpf, btf: &Btf, probe: &Probe) -> Result<String, Unavailable> {
    let mut last = None;
    for name in probe.programs {
        let error = match attach_one(ebpf, btf, probe.tracepoint, name) {
            Ok(()) => return Ok((*name).to_string()),
            Err(error) => error,
        };
        let verdict = verdict(&error);
        log::debug!("probe {name}: {}", tail(&error.to_string()));
        let stop = verdict != Verdict::FewerArguments;
        last = Some((verdict, error));
        if stop {
            break;
        }
    }
    Err(unavailable(probe, last))
}

fn attach_one(ebpf: &mut Ebpf, btf: &Btf, on: &str, name: &str) -> Result<(), ProgramError> {
    let program = ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)?;
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(on, btf)?;
    program.attach()?;
    Ok(())
}

fn verdict(error: &ProgramError) -> Verdict {
    match error {
        ProgramError::Btf(BtfError::UnknownBtfTypeName { .. }) => Verdict::NotSupported,
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => verifier(io_error.raw_os_error(), &verifier_log.to_string()),
        ProgramError::SyscallError(error) if refused(error.io_error.raw_os_error()) => {
            Verdict::NotPermitted
        }
        _ => Verdict::Failed,
    }
}

/// The verifier answers EACCES and EPERM too, but never without words.
fn verifier(errno: Option<i32>, log: &str) -> Verdict {
    if log.trim().is_empty() && refused(errno) || errno == Some(libc::EPERM) {
        Verdict::NotPermitted
    } else if log.contains("doesn't have") && log.contains("argument") {
        Verdict::FewerArguments
    } else if log.contains("unknown func") {
        Verdict::NotSupported
    } else {
        Verdict::Failed
    }
}

fn refused(errno: Option<i32>) -> bool {
    matches!(errno, Some(libc::EPERM | libc::EACCES))
}

fn unavailable(probe: &Probe, last: Option<(Verdict, ProgramError)>) -> Unavailable {
    let program = probe.tracepoint.to_string();
    let since = probe.since.to_string();
    let (status, text) = match last {
        Some((Verdict::NotPermitted, _)) => (
            UnavailableStatus::NotPermitted,
            "the kernel refused to load it: give the process CAP_BPF and CAP_PERFMON".to_string(),
        ),
        Some((Verdict::NotSupported, error)) => {
            let text = match error {
                ProgramError::LoadError { .. } => {
                    "this kernel's programs cannot look up whose socket it is".to_string()
                }
                _ => format!("this kernel has no such tracepoint: {error}"),
            };
            (UnavailableStatus::NotSupported { since }, text)
        }
        Some((_, error)) => {
            let text = first(&error.to_string());
            (
                UnavailableStatus::Failed,
                format!("{text} (the log has the verifier's last lines)"),
            )
        }
        None => (UnavailableStatus::Failed, "it has no program".to_string()),
    };
    Unavailable {
        program,
        status,
        text,
    }
}

/// The first line of a text: the rest is the verifier's, for the log.
fn first(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(VERIFIER_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_words_for_three_things() {
        let arity = "func 'kfree_skb' doesn't have 4-th argument";
        assert_eq!(verifier(Some(libc::EACCES), arity), Verdict::FewerArguments);
        assert_eq!(verifier(Some(libc::EPERM), ""), Verdict::NotPermitted);
        assert_eq!(verifier(Some(libc::EACCES), ""), Verdict::NotPermitted);
        let helper = "unknown func bpf_sk_storage_get#107";
        assert_eq!(verifier(Some(libc::EINVAL), helper), Verdict::NotSupported);
        assert_eq!(
            verifier(Some(libc::EACCES), "R1 invalid mem access"),
            Verdict::Failed
        );
    }

    #[test]
    fn what_is_not_supported_says_since_when() {
        let probe = Probe {
            tracepoint: "t",
            programs: &["t__1"],
            since: "6.3",
            stamps: &[],
        };
        let error = BtfError::UnknownBtfTypeName {
            type_name: "btf_trace_t".to_string(),
        };
        let error = ProgramError::Btf(error);
        assert_eq!(verdict(&error), Verdict::NotSupported);
        let told = unavailable(&probe, Some((Verdict::NotSupported, error)));
        assert_eq!(
            told.status,
            UnavailableStatus::NotSupported {
                since: "6.3".to_string()
            }
        );
        assert!(told.text.contains("no such tracepoint"), "{told:?}");
    }

    #[test]
    fn the_end_of_a_long_log_is_kept() {
        let log: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert!(tail(&log).starts_with("88\n") && tail(&log).ends_with("99"));
    }
}
