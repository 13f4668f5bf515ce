//! iperf 2. Its client says what it sent, so the kernel's count of what arrived is compared.

use anyhow::{Context, Result, bail};

use super::super::super::namespace::Listens;
use super::super::case::{Case, Job, Mode, Proto};
use super::{Basis, Call, Figure, Peer, Setting, client, server};

pub(super) const PEER: Peer = Peer {
    name: "iperf",
    program: ["iperf", "--version"],
    calls,
};

const PORT: u16 = 5001;

fn calls(setting: &Setting) -> Vec<Call> {
    let case = setting.case;
    let Some(path) = setting.programs.find("iperf") else {
        return Vec::new();
    };
    if case.job != Job::Stream || case.mode != Mode::Plain {
        return Vec::new();
    }
    let (kind, listens, load) = match case.proto {
        Proto::Tcp => ("", Listens::Tcp(PORT), ""),
        Proto::Udp => (" -u", Listens::Udp(PORT), " -u -b 10G"),
    };
    vec![Call {
        label: "iperf",
        server: server(&format!("{path} -s -p {PORT}{kind}")),
        listens,
        client: client(&format!(
            "{path} -c {} -p {PORT} -y C -t {} -l {} -P {}{load}",
            setting.address, setting.seconds, case.size, case.flows
        )),
        lead_s: 0.0,
        read,
    }]
}

/// The lines of the flows, or of the one line of their sum: bytes are the eighth field, bits per
/// second the ninth, the flow's number the sixth, and the sum's is -1.
fn read(text: &str, case: &Case) -> Result<Figure> {
    let mut flows = 0.0;
    let mut sum = None;
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split(',').collect();
        let Some([number, _, _, bits]) = fields.get(5..9) else {
            continue;
        };
        let bits: f64 = bits.parse().context("iperf prints no rate")?;
        match *number {
            "-1" => sum = Some(bits),
            _ => flows += bits,
        }
    }
    let bits = sum.unwrap_or(flows);
    if bits <= 0.0 {
        bail!("iperf prints no flow");
    }
    Ok(Figure {
        rate: bits / 8.0 / f64::from(case.size),
        basis: Basis::Sent,
        latency_us: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::case;
    use super::*;

    #[test]
    fn flows_are_added_up() {
        let text = include_str!("../data/iperf-tcp2.csv");
        let figure = read(text, &case(Proto::Tcp, Job::Stream, 131_072)).unwrap();
        let expected = (45_970_775_986.0 + 54_235_740_500.0) / 8.0 / 131_072.0;
        assert_eq!((figure.rate, figure.basis), (expected, Basis::Sent));
        let with_sum = format!("{text}0,,0,,0,-1,0.0-1.0,1,1048576\n");
        let figure = read(&with_sum, &case(Proto::Tcp, Job::Stream, 131_072)).unwrap();
        assert_eq!(figure.rate, 1.0);
    }

    #[test]
    fn datagrams_are_those_sent() {
        let text = include_str!("../data/iperf-udp.csv");
        let figure = read(text, &case(Proto::Udp, Job::Stream, 64)).unwrap();
        assert_eq!(figure.rate.round(), (152_533_403.0_f64 / 512.0).round());
        assert!(read("connect failed\n", &case(Proto::Udp, Job::Stream, 64)).is_err());
    }
}
