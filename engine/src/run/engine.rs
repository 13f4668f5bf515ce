//! Which engine drives a side's sockets, and why.

use crate::control::crew::Side;
use crate::control::wire::Refusal;
use crate::plan::{Case, Engine, Load, Traffic};
use crate::record::{Finding, Severity};
use crate::uring::{self, RingError};
use crate::worker::EngineKind;

use super::factory::on;

/// An engine with the reason for it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Chosen {
    pub(super) kind: EngineKind,
    /// For the result.
    pub(super) reason: String,
    /// Where it is not the one that the case would have had.
    pub(super) finding: Option<Finding>,
}

/// Why plain calls were taken although nothing forbids a ring.
const PLAIN: &str = "one transaction at a time a worker";

/// Chooses what the case asks of a side.
///
/// # Errors
/// 5 where the case asks for io_uring and this host refuses it.
pub(super) fn choose(side: Side, case: &Case) -> Result<Chosen, Refusal> {
    let wanted = match side {
        Side::Client => case.options.client_engine,
        Side::Server => case.options.server_engine,
    };
    let mut chosen = of(side, wanted, plain_calls_win(side, case), uring::available)?;
    if let Some(how) = case.zerocopy_of(side == Side::Client) {
        // The plan asked for it, not the user.
        chosen.reason = format!("--zerocopy {how} needs it");
    }
    Ok(chosen)
}

/// Transactions one after the other have nothing that could share a kernel entry, and a plain
/// call is done sooner than a ring's: 5 % asleep and 18 % awake, measured over loopback on 6.18.
/// A schedule may have several due at once, which a ring takes together.
fn plain_calls_win(side: Side, case: &Case) -> bool {
    let workers = match side {
        Side::Client => case.workers,
        Side::Server => case.server_workers,
    };
    let streams = case.groups.iter().any(|g| g.traffic == Traffic::Stream);
    let outstanding = u64::from(case.total_flows()) * u64::from(case.depth.unwrap_or(1));
    !streams && case.load == Load::Closed && outstanding <= u64::from(workers)
}

fn of(
    side: Side,
    wanted: Engine,
    plain: bool,
    available: impl Fn() -> Result<(), RingError>,
) -> Result<Chosen, Refusal> {
    let chosen = |kind, reason: &str| Chosen {
        kind,
        reason: reason.to_string(),
        finding: None,
    };
    if wanted == Engine::Sockets {
        return Ok(chosen(EngineKind::Sockets, "asked for"));
    }
    if wanted == Engine::Auto && plain {
        return Ok(chosen(EngineKind::Sockets, PLAIN));
    }
    match (wanted, available()) {
        (Engine::IoUring, Ok(())) => Ok(chosen(EngineKind::IoUring, "asked for")),
        (_, Ok(())) => Ok(chosen(EngineKind::IoUring, "io_uring is available")),
        (Engine::IoUring, Err(error)) => {
            let text = on(side, &error.to_string());
            Err(Refusal::new(5, "io-uring-unavailable", text))
        }
        (_, Err(error)) => {
            let reason = format!("io_uring is refused: {}", error.brief());
            let text = on(
                side,
                &format!("{error}. Plain system calls and epoll take its place"),
            );
            Ok(Chosen {
                finding: Some(Finding::new(Severity::Warning, "engine-fallback", text)),
                ..chosen(EngineKind::Sockets, &reason)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<(), RingError> {
        Err(RingError::TooOld {
            missing: "polling of sockets (5.7)".to_string(),
        })
    }

    #[test]
    fn auto_takes_io_uring_unless_it_is_refused() {
        let got = of(Side::Client, Engine::Auto, false, || Ok(())).unwrap();
        assert_eq!((got.kind, got.finding), (EngineKind::IoUring, None));
        let got = of(Side::Server, Engine::Auto, false, refused).unwrap();
        assert_eq!(got.kind, EngineKind::Sockets);
        assert_eq!(got.reason, "io_uring is refused: too old a kernel");
        let finding = got.finding.expect("falling back is told");
        assert_eq!(
            (finding.severity, finding.code.as_str()),
            (Severity::Warning, "engine-fallback")
        );
        assert!(
            finding.text.starts_with("on the server: "),
            "{}",
            finding.text
        );
        assert!(finding.text.contains("Remedy"), "{}", finding.text);
    }

    #[test]
    fn one_transaction_at_a_time_is_for_plain_calls() {
        use crate::plan::{Proto, Test};
        use crate::record::canned;

        let plain = |test, flows, workers: (u32, u32), depth| {
            let mut case = canned::case("a case", Proto::Tcp, test, (1, 1), flows);
            (case.workers, case.server_workers) = workers;
            case.depth = depth;
            let of = |side| plain_calls_win(side, &case);
            (of(Side::Client), of(Side::Server))
        };
        assert_eq!(plain(Test::Rr, 1, (1, 1), None), (true, true));
        assert_eq!(plain(Test::Crr, 1, (1, 1), None), (true, true));
        assert_eq!(plain(Test::Rr, 2, (2, 1), Some(1)), (true, false));
        assert_eq!(plain(Test::Rr, 1, (1, 1), Some(2)), (false, false));
        assert_eq!(plain(Test::Stream, 1, (1, 1), None), (false, false));
        let mut case = canned::case("a case", Proto::Udp, Test::Rr, (1, 1), 1);
        case.load = Load::Rate { per_second: 10.0 };
        assert!(!plain_calls_win(Side::Client, &case));

        let got = of(Side::Client, Engine::Auto, true, refused).unwrap();
        assert_eq!((got.kind, got.finding), (EngineKind::Sockets, None));
        assert_eq!(got.reason, PLAIN);
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused() {
        let got = of(Side::Client, Engine::Sockets, false, refused).unwrap();
        let expected = Chosen {
            kind: EngineKind::Sockets,
            reason: "asked for".to_string(),
            finding: None,
        };
        assert_eq!(got, expected);
        let got = of(Side::Client, Engine::IoUring, true, || Ok(())).unwrap();
        assert_eq!(
            (got.kind, got.reason.as_str()),
            (EngineKind::IoUring, "asked for")
        );
        let refusal = of(Side::Client, Engine::IoUring, true, refused).unwrap_err();
        assert_eq!(
            (refusal.exit_code, refusal.code.as_str()),
            (5, "io-uring-unavailable")
        );
        assert!(refusal.text.contains("on the client") && refusal.text.contains("Remedy"));
    }
}
