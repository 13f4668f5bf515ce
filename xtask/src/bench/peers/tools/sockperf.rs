//! sockperf. Streams say what was sent; ping-pong halves its round trips, and so what it prints
//! is doubled.

use anyhow::{Context, Result};

use super::super::super::namespace::Listens;
use super::super::case::{Case, Job, Mode, Proto};
use super::{Basis, Call, Figure, Peer, Setting, after, client, server};

pub(super) const PEER: Peer = Peer {
    name: "sockperf",
    program: ["sockperf", "--version"],
    calls,
};

const PORT: u16 = 11111;

/// The largest message that it takes.
const LARGEST: u32 = 65_507;

fn calls(setting: &Setting) -> Vec<Call> {
    let case = setting.case;
    let (label, wait) = match case.mode {
        Mode::Plain => ("sockperf", ""),
        Mode::Busy => ("sockperf --nonblocked", " --nonblocked"),
        Mode::Discard | Mode::Offload => return Vec::new(),
    };
    let (test, read): (_, super::Read) = match case.job {
        Job::Stream => ("throughput", read_stream),
        Job::Rr => ("ping-pong", read_transactions),
        Job::Crr => return Vec::new(),
    };
    let Some(path) = setting.programs.find("sockperf") else {
        return Vec::new();
    };
    if case.flows > 1 || case.size > LARGEST {
        return Vec::new();
    }
    let (kind, listens) = match case.proto {
        Proto::Tcp => (" --tcp", Listens::Tcp(PORT)),
        Proto::Udp => ("", Listens::Udp(PORT)),
    };
    let to = format!("{kind} -i {} -p {PORT}{wait}", setting.address);
    vec![Call {
        label,
        server: server(&format!("{path} server{to}")),
        listens,
        client: client(&format!(
            "{path} {test}{to} -t {} -m {}",
            setting.seconds, case.size
        )),
        lead_s: 0.0,
        read,
    }]
}

fn read_stream(text: &str, _: &Case) -> Result<Figure> {
    let rate = text
        .lines()
        .find_map(|line| line.split_once("Message Rate is ")?.1.split(' ').next())
        .context("sockperf prints no message rate")?;
    Ok(Figure {
        rate: rate.parse().context(rate.to_string())?,
        basis: Basis::Sent,
        latency_us: None,
    })
}

fn read_transactions(text: &str, _: &Case) -> Result<Figure> {
    let line = text
        .lines()
        .find(|line| line.contains("[Valid Duration]"))
        .context("sockperf prints no valid duration")?;
    let percentile = |name: &str| {
        let line = text.lines().find(|line| line.contains(name))?;
        let half: f64 = line.rsplit('=').next()?.trim().parse().ok()?;
        Some(half * 2.0)
    };
    let median = percentile("percentile 50.000");
    let tail = percentile("percentile 99.000");
    Ok(Figure {
        rate: after(line, "ReceivedMessages")? / after(line, "RunTime")?,
        basis: Basis::Received,
        latency_us: median.zip(tail).map(|(median, tail)| [median, tail]),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::case;
    use super::*;

    #[test]
    fn transactions_are_of_the_valid_duration_and_round_trips_are_whole() {
        let text = include_str!("../data/sockperf-pp.txt");
        let figure = read_transactions(text, &case(Proto::Tcp, Job::Rr, 14)).unwrap();
        assert_eq!(figure.rate, 37_639.0 / 0.550);
        let [median, tail] = figure.latency_us.unwrap();
        assert_eq!((median, tail), (6.454 * 2.0, 32.142 * 2.0));
    }

    #[test]
    fn streams_are_of_what_was_sent() {
        let text = include_str!("../data/sockperf-tp.txt");
        let figure = read_stream(text, &case(Proto::Tcp, Job::Stream, 64)).unwrap();
        assert_eq!((figure.rate, figure.basis), (707_271.0, Basis::Sent));
        assert!(read_stream("sockperf: ERROR", &case(Proto::Tcp, Job::Stream, 64)).is_err());
    }
}
