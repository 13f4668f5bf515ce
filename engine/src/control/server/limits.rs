//! What a server refuses before any traffic, by name.

use std::net::IpAddr;

use super::Limits;
use crate::control::flows::in_network;
use crate::control::session::SECOND;
use crate::control::session::terms::planned_ns;
use crate::control::wire::Refusal;
use crate::plan::{Case, Load, Proto};

/// Most flows that any case may ask for, beyond which only an attack makes sense.
const FLOWS: u64 = 1 << 20;
/// Largest message, bytes.
const MESSAGE: u64 = 64 << 20;
/// Most groups of traffic in a case.
const GROUPS: usize = 16;

/// Whether this client may speak at all.
pub(super) fn check_peer(limits: &Limits, peer: IpAddr) -> Result<(), Refusal> {
    let allowed = limits.allow.is_empty()
        || limits
            .allow
            .iter()
            .any(|(network, prefix)| in_network(peer, *network, *prefix));
    if allowed {
        return Ok(());
    }
    let text = format!("the server does not serve {peer} (its --allow does not name it)");
    Err(Refusal::new(4, "not-allowed", text))
}

/// Whether a case is within sense and within the limits.
pub(super) fn check_case(limits: &Limits, case: &Case) -> Result<(), Refusal> {
    check_sense(case)?;
    let flows = u64::from(case.flows) * case.groups.len() as u64;
    if let Some(max) = limits.max_flows
        && flows > u64::from(max)
    {
        return Err(beyond(
            "--max-flows",
            format!("{flows} flows, where {max} are allowed"),
        ));
    }
    if let (Some(max), Some(planned)) = (limits.max_duration, planned_ns(case))
        && u128::from(planned) > max.as_nanos()
    {
        let seconds = planned as f64 / SECOND as f64;
        let max = max.as_secs_f64();
        let text = format!("{seconds} s with the warm-up, where {max} s are allowed");
        return Err(beyond("--max-duration", text));
    }
    if let Some(max) = limits.max_bitrate {
        check_bitrate(case, max)?;
    }
    Ok(())
}

fn check_sense(case: &Case) -> Result<(), Refusal> {
    let flows = u64::from(case.flows) * case.groups.len() as u64;
    let sensible = (1..=FLOWS).contains(&flows)
        && case.groups.len() <= GROUPS
        && case.request_bytes <= MESSAGE
        && case.response_bytes <= MESSAGE
        && case.interval_ns > 0
        && case.workers > 0
        && case.server_workers > 0;
    if sensible {
        return Ok(());
    }
    let text = format!("the server cannot make sense of the case `{}`", case.name);
    Err(Refusal::new(4, "bad-offer", text))
}

fn check_bitrate(case: &Case, max: u64) -> Result<(), Refusal> {
    let paced = match case.load {
        Load::Bitrate { bits_per_second } => Some(bits_per_second as f64),
        Load::Rate { per_second } => {
            let larger = case.request_bytes.max(case.response_bytes);
            Some(per_second * 8.0 * larger as f64)
        }
        Load::Closed => match (case.proto, case.options.pacing) {
            (Proto::Tcp, Some(pacing)) => Some(pacing as f64 * f64::from(case.flows)),
            _ => None,
        },
    };
    match paced {
        Some(bits) if bits <= max as f64 => Ok(()),
        Some(bits) => {
            let text = format!("{bits:.0} bits per second, where {max} are allowed");
            Err(beyond("--max-bitrate", text))
        }
        None => {
            let text = format!(
                "an unpaced case, where {max} bits per second are allowed; use --bitrate or --rate"
            );
            Err(beyond("--max-bitrate", text))
        }
    }
}

fn beyond(limit: &str, text: String) -> Refusal {
    Refusal::new(4, "limit", format!("beyond the server's {limit}: {text}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::control::tests::case::{bulk, echo};

    fn refused(limits: &Limits, case: &Case) -> String {
        check_case(limits, case).unwrap_err().text
    }

    #[test]
    fn limits_refuse_by_name() {
        let limits = Limits {
            max_flows: Some(3),
            ..Limits::default()
        };
        assert!(check_case(&limits, &bulk(3)).is_ok());
        assert!(refused(&limits, &bulk(4)).contains("--max-flows"));

        let max_duration = Some(Duration::from_millis(1));
        let limits = Limits {
            max_duration,
            ..Limits::default()
        };
        assert!(refused(&limits, &bulk(1)).contains("--max-duration"));

        let limits = Limits {
            max_bitrate: Some(1_000_000),
            ..Limits::default()
        };
        assert!(refused(&limits, &bulk(1)).contains("unpaced"));
        let paced = |bits_per_second| Case {
            load: Load::Bitrate { bits_per_second },
            ..bulk(1)
        };
        assert!(check_case(&limits, &paced(1_000_000)).is_ok());
        assert!(refused(&limits, &paced(1_000_001)).contains("--max-bitrate"));
        let rate = |per_second| Case {
            load: Load::Rate { per_second },
            ..echo(1)
        };
        assert!(check_case(&limits, &rate(100.0)).is_ok());
        assert!(refused(&limits, &rate(1e9)).contains("--max-bitrate"));
    }

    #[test]
    fn senseless_cases_are_refused_without_limits() {
        let limits = Limits::default();
        let senseless = [
            Case {
                flows: 0,
                ..bulk(1)
            },
            Case {
                flows: u32::MAX,
                groups: vec![bulk(1).groups[0]; 3],
                ..bulk(1)
            },
            Case {
                groups: vec![],
                ..bulk(1)
            },
            Case {
                request_bytes: u64::MAX,
                ..bulk(1)
            },
            Case {
                interval_ns: 0,
                ..bulk(1)
            },
            Case {
                server_workers: 0,
                ..bulk(1)
            },
        ];
        for case in senseless {
            assert_eq!(check_case(&limits, &case).unwrap_err().code, "bad-offer");
        }
    }

    #[test]
    fn only_allowed_networks_are_served() {
        let allow = vec![("10.0.0.0".parse().unwrap(), 8)];
        let limits = Limits {
            allow,
            ..Limits::default()
        };
        assert!(check_peer(&limits, "10.9.9.9".parse().unwrap()).is_ok());
        assert!(check_peer(&limits, "::ffff:10.9.9.9".parse().unwrap()).is_ok());
        let refused = check_peer(&limits, "127.0.0.1".parse().unwrap()).unwrap_err();
        assert!(refused.text.contains("--allow"));
    }
}
