//! iperf3. It reads and writes exactly a message at a time, and its receiver's figures are those
//! of the receiver.

use anyhow::Result;

use super::super::super::namespace::Listens;
use super::super::case::{Case, Job, Mode, Proto};
use super::{Call, Figure, Peer, Setting, client, json, number, server};

pub(super) const PEER: Peer = Peer {
    name: "iperf3",
    program: ["iperf3", "--version"],
    calls,
};

const PORT: u16 = 5201;

/// Label, flags, and what `--help` must name for them.
type Way = (&'static str, &'static str, &'static str);

fn calls(setting: &Setting) -> Vec<Call> {
    let case = setting.case;
    let ways: &[Way] = match (case.proto, case.job, case.mode) {
        (Proto::Tcp, Job::Stream, Mode::Plain) => &[("iperf3", "", "--json")],
        (Proto::Udp, Job::Stream, Mode::Plain) => &[("iperf3", " -u -b 0", "--json")],
        (Proto::Tcp, Job::Stream, Mode::Discard) => &[
            ("iperf3 --skip-rx-copy", " --skip-rx-copy", "--skip-rx-copy"),
            (
                "iperf3 -Z --skip-rx-copy",
                " -Z --skip-rx-copy",
                "--skip-rx-copy",
            ),
        ],
        (Proto::Udp, Job::Stream, Mode::Offload) => {
            &[("iperf3 --gsro", " -u -b 0 --gsro", "--gsro")]
        }
        _ => &[],
    };
    let Some(path) = setting.programs.find("iperf3") else {
        return Vec::new();
    };
    let help = setting.programs.says(&path, "--help");
    ways.iter()
        .filter(|(_, _, needed)| help.contains(needed))
        .map(|(label, flags, _)| Call {
            label,
            server: server(&format!("{path} -s -1 -p {PORT}")),
            listens: Listens::Tcp(PORT),
            client: client(&format!(
                "{path} -c {} -p {PORT} -J -t {} -l {} -P {}{flags}",
                setting.address, setting.seconds, case.size, case.flows
            )),
            lead_s: 0.0,
            read,
        })
        .collect()
}

fn read(text: &str, case: &Case) -> Result<Figure> {
    let document = json(text)?;
    let bytes = number(&document, "/end/sum_received/bytes")?;
    let seconds = number(&document, "/end/sum_received/seconds")?;
    Ok(Figure::received(bytes / seconds / f64::from(case.size)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::case;
    use super::*;

    #[test]
    fn streams_are_what_the_receiver_got() {
        let text = include_str!("../data/iperf3-tcp.json");
        let figure = read(text, &case(Proto::Tcp, Job::Stream, 64)).unwrap();
        let bytes = number(&json(text).unwrap(), "/end/sum_received/bytes").unwrap();
        assert!(
            (figure.rate * 64.0 / bytes - 1.0).abs() < 0.05,
            "{figure:?}"
        );
        let several = include_str!("../data/iperf3-skip.json");
        assert!(
            read(several, &case(Proto::Tcp, Job::Stream, 131_072))
                .unwrap()
                .rate
                > 1e3
        );
    }

    #[test]
    fn datagrams_are_those_received_not_those_sent() {
        let text = include_str!("../data/iperf3-udp.json");
        let figure = read(text, &case(Proto::Udp, Job::Stream, 64)).unwrap();
        assert_eq!(
            figure.rate.round(),
            (8_869_312.0_f64 / 1.001_462 / 64.0).round()
        );
        let merged = include_str!("../data/iperf3-gsro.json");
        let figure = read(merged, &case(Proto::Udp, Job::Stream, 1472)).unwrap();
        assert_eq!(
            figure.rate.round(),
            (215_094_528.0_f64 / 1.031_358 / 1472.0).round()
        );
    }

    #[test]
    fn an_error_is_no_figure() {
        assert!(read("{\"error\": \"busy\"}", &case(Proto::Tcp, Job::Stream, 64)).is_err());
        assert!(read("iperf3: error", &case(Proto::Tcp, Job::Stream, 64)).is_err());
    }
}
