//! netperf. One flow per process, so only the cases of one.

use anyhow::Result;

use super::super::super::namespace::Listens;
use super::super::case::{Case, Job, Mode, Proto};
use super::{Basis, Call, Figure, Peer, Setting, after, client, optional_after, server};

pub(super) const PEER: Peer = Peer {
    name: "netperf",
    program: ["netperf", "-V"],
    calls,
};

const PORT: u16 = 12865;

/// What it is asked to print, one a line.
const STREAM: &str = "THROUGHPUT,REMOTE_RECV_THROUGHPUT";
const TRANSACTIONS: &str = "THROUGHPUT,P50_LATENCY,P99_LATENCY";

fn calls(setting: &Setting) -> Vec<Call> {
    let case = setting.case;
    let test = match (case.proto, case.job) {
        (Proto::Tcp, Job::Stream) => "TCP_STREAM",
        (Proto::Udp, Job::Stream) => "UDP_STREAM",
        (Proto::Tcp, Job::Rr) => "TCP_RR",
        (Proto::Udp, Job::Rr) => "UDP_RR",
        (_, Job::Crr) => "TCP_CRR",
    };
    let programs = setting.programs;
    let found = programs.find("netperf").zip(programs.find("netserver"));
    let Some((path, serves)) = found else {
        return Vec::new();
    };
    if case.flows > 1 || case.mode != Mode::Plain {
        return Vec::new();
    }
    let (size, read): (_, super::Read) = match case.job {
        Job::Stream => (format!("-m {} -k {STREAM}", case.size), read_stream),
        Job::Rr | Job::Crr => (
            format!("-r {0},{0} -k {TRANSACTIONS}", case.size),
            read_transactions,
        ),
    };
    let address = setting.address;
    vec![Call {
        label: "netperf",
        server: server(&format!("{serves} -D -4 -L {address} -p {PORT}")),
        listens: Listens::Tcp(PORT),
        client: client(&format!(
            "{path} -4 -H {address} -p {PORT} -P 0 -t {test} -l {} -- {size}",
            setting.seconds
        )),
        lead_s: 0.0,
        read,
    }]
}

fn read_stream(text: &str, case: &Case) -> Result<Figure> {
    let bits = after(text, "REMOTE_RECV_THROUGHPUT")? * 1e6;
    Ok(Figure::received(bits / 8.0 / f64::from(case.size)))
}

fn read_transactions(text: &str, _: &Case) -> Result<Figure> {
    let median = optional_after(text, "P50_LATENCY");
    let tail = optional_after(text, "P99_LATENCY");
    Ok(Figure {
        rate: after(text, "THROUGHPUT")?,
        basis: Basis::Received,
        latency_us: median.zip(tail).map(|(median, tail)| [median, tail]),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::case;
    use super::*;

    #[test]
    fn streams_are_what_the_other_side_received() {
        let text = include_str!("../data/netperf-stream.txt");
        let figure = read_stream(text, &case(Proto::Tcp, Job::Stream, 64)).unwrap();
        assert_eq!(figure.rate.round(), (171.40e6_f64 / 512.0).round());
        let text = include_str!("../data/netperf-udp.txt");
        let figure = read_stream(text, &case(Proto::Udp, Job::Stream, 64)).unwrap();
        assert_eq!(figure.rate.round(), (34.97e6_f64 / 512.0).round());
    }

    #[test]
    fn transactions_have_percentiles() {
        let text = include_str!("../data/netperf-rr.txt");
        let figure = read_transactions(text, &case(Proto::Tcp, Job::Rr, 1)).unwrap();
        assert_eq!(
            (figure.rate, figure.latency_us),
            (23_971.90, Some([12.0, 96.0]))
        );
        let text = include_str!("../data/netperf-crr.txt");
        let figure = read_transactions(text, &case(Proto::Tcp, Job::Crr, 1)).unwrap();
        assert_eq!(
            (figure.rate, figure.latency_us),
            (5640.86, Some([53.0, 3654.0]))
        );
        assert!(read_transactions("establish control", &case(Proto::Tcp, Job::Rr, 1)).is_err());
    }
}
