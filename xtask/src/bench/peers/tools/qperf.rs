//! qperf. Streams are what the server received; its latency is half a round trip.

use anyhow::Result;

use super::super::super::namespace::Listens;
use super::super::case::{Case, Job, Mode, Proto};
use super::{Call, Figure, Peer, Setting, after, client, server};

pub(super) const PEER: Peer = Peer {
    name: "qperf",
    program: ["qperf", "--version"],
    calls,
};

const PORT: u16 = 19765;

fn calls(setting: &Setting) -> Vec<Call> {
    let case = setting.case;
    let (test, read): (_, super::Read) = match (case.proto, case.job) {
        (Proto::Tcp, Job::Stream) => ("tcp_bw", read_stream),
        (Proto::Udp, Job::Stream) => ("udp_bw", read_datagrams),
        (Proto::Tcp, Job::Rr) => ("tcp_lat", read_transactions),
        (Proto::Udp, Job::Rr) => ("udp_lat", read_transactions),
        (_, Job::Crr) => return Vec::new(),
    };
    let Some(path) = setting.programs.find("qperf") else {
        return Vec::new();
    };
    if case.flows > 1 || case.mode != Mode::Plain {
        return Vec::new();
    }
    vec![Call {
        label: "qperf",
        server: server(&format!("{path} -lp {PORT}")),
        listens: Listens::Tcp(PORT),
        client: client(&format!(
            "{path} -lp {PORT} {} -t {} -m {} -vv -uu {test}",
            setting.address, setting.seconds, case.size
        )),
        lead_s: 0.0,
        read,
    }]
}

fn read_stream(text: &str, case: &Case) -> Result<Figure> {
    Ok(Figure::received(after(text, "bw")? / f64::from(case.size)))
}

fn read_datagrams(text: &str, case: &Case) -> Result<Figure> {
    Ok(Figure::received(
        after(text, "recv_bw")? / f64::from(case.size),
    ))
}

/// No percentiles: it has none.
fn read_transactions(text: &str, _: &Case) -> Result<Figure> {
    Ok(Figure::received(1e9 / (2.0 * after(text, "latency")?)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::case;
    use super::*;

    #[test]
    fn streams_and_datagrams_are_what_arrived() {
        let stream = include_str!("../data/qperf-tcp_bw.txt");
        let figure = read_stream(stream, &case(Proto::Tcp, Job::Stream, 64)).unwrap();
        assert_eq!(figure.rate, 32_230_273.0 / 64.0);
        let datagrams = include_str!("../data/qperf-udp_bw.txt");
        let figure = read_datagrams(datagrams, &case(Proto::Udp, Job::Stream, 64)).unwrap();
        assert_eq!(figure.rate, 97_675.0);
    }

    #[test]
    fn a_transaction_is_two_of_its_latencies() {
        let text = include_str!("../data/qperf-tcp_lat.txt");
        let figure = read_transactions(text, &case(Proto::Tcp, Job::Rr, 64)).unwrap();
        // It counts both directions: 50278 came back in the second.
        assert!((figure.rate / 50_278.0 - 1.0).abs() < 0.001, "{figure:?}");
        let text = include_str!("../data/qperf-udp_lat.txt");
        let figure = read_transactions(text, &case(Proto::Udp, Job::Rr, 64)).unwrap();
        assert!((figure.rate / 73_574.0 - 1.0).abs() < 0.001, "{figure:?}");
        assert!(read_transactions("", &case(Proto::Udp, Job::Rr, 64)).is_err());
    }
}
