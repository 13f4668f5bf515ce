//! neper: a program per kind of traffic, epoll, one thread here. Its streams set MSG_MORE on
//! every send, which is its default and its faster mode.

use anyhow::Result;

use super::super::super::namespace::Listens;
use super::super::case::{Case, Job, Mode, Proto};
use super::{Basis, Call, Figure, Peer, Setting, after, client, optional_after, server};

pub(super) const PEER: Peer = Peer {
    name: "neper",
    program: ["tcp_rr", "--version"],
    calls,
};

const CONTROL: u16 = 12866;
const DATA: u16 = 12867;

fn calls(setting: &Setting) -> Vec<Call> {
    let case = setting.case;
    let (label, both) = match case.mode {
        Mode::Plain => ("neper", ""),
        Mode::Discard => ("neper --skip-rx-copy", " --skip-rx-copy"),
        Mode::Busy | Mode::Offload => return Vec::new(),
    };
    let program = match (case.proto, case.job) {
        (Proto::Tcp, Job::Stream) => "tcp_stream",
        (Proto::Udp, Job::Stream) => "udp_stream",
        (Proto::Tcp, Job::Rr) => "tcp_rr",
        (Proto::Udp, Job::Rr) => "udp_rr",
        (_, Job::Crr) => "tcp_crr",
    };
    let Some(path) = setting.programs.find(program) else {
        return Vec::new();
    };
    let (size, read): (_, super::Read) = match case.job {
        Job::Stream => (format!("-B {}", case.size), read_stream),
        Job::Rr | Job::Crr => (format!("-Q {0} -R {0}", case.size), read_transactions),
    };
    let common = format!("-C {CONTROL} -P {DATA} -T 1 -F {}{both}", case.flows);
    let percentiles = match case.job {
        Job::Stream => "",
        Job::Rr | Job::Crr => " -p 50,99",
    };
    // The server of transactions must be told their sizes; that of streams reads what comes.
    let told = match case.job {
        Job::Stream => "",
        Job::Rr | Job::Crr => size.as_str(),
    };
    vec![Call {
        label,
        server: server(format!("{path} {common} {told}").trim_end()),
        listens: Listens::Tcp(CONTROL),
        client: client(&format!(
            "{path} -c -H {} -l {} {size} {common}{percentiles}",
            setting.address, setting.seconds
        )),
        lead_s: 0.0,
        read,
    }]
}

/// What the server received, bits per second, as it told the client.
fn read_stream(text: &str, case: &Case) -> Result<Figure> {
    let bits = after(text, "remote_throughput")?;
    Ok(Figure::received(bits / 8.0 / f64::from(case.size)))
}

fn read_transactions(text: &str, _: &Case) -> Result<Figure> {
    let us = |name| optional_after(text, name).map(|seconds| seconds * 1e6);
    let both = us("latency_p50").zip(us("latency_p99"));
    Ok(Figure {
        rate: after(text, "throughput")?,
        basis: Basis::Received,
        latency_us: both.map(|(median, tail)| [median, tail]),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::case;
    use super::*;

    #[test]
    fn streams_are_what_the_server_received() {
        let text = include_str!("../data/neper-stream.txt");
        let figure = read_stream(text, &case(Proto::Tcp, Job::Stream, 64)).unwrap();
        assert_eq!(figure.rate, 144_544_940.0 / 512.0);
        let text = include_str!("../data/neper-udp.txt");
        let figure = read_stream(text, &case(Proto::Udp, Job::Stream, 64)).unwrap();
        assert_eq!(figure.rate, 13_004_392.0 / 512.0);
    }

    #[test]
    fn transactions_are_the_clients() {
        let text = include_str!("../data/neper-rr10.txt");
        let figure = read_transactions(text, &case(Proto::Tcp, Job::Rr, 1)).unwrap();
        assert_eq!(figure.rate, 35_113.99);
        let [median, tail] = figure.latency_us.unwrap();
        assert!((median - 127.99).abs() < 1e-6 && (tail - 3727.35).abs() < 1e-6);
        let text = include_str!("../data/neper-crr.txt");
        let figure = read_transactions(text, &case(Proto::Tcp, Job::Crr, 1)).unwrap();
        assert_eq!(figure.rate, 4922.98);
        let text = include_str!("../data/neper-udprr.txt");
        let figure = read_transactions(text, &case(Proto::Udp, Job::Rr, 1)).unwrap();
        assert_eq!(figure.rate, 22_881.93);
        assert!(read_transactions("", &case(Proto::Udp, Job::Rr, 1)).is_err());
    }
}
