//! nuttcp. Its figures are the receiver's.

use anyhow::Result;

use super::super::super::namespace::Listens;
use super::super::case::{Case, Job, Mode, Proto};
use super::{Call, Figure, Peer, Setting, after, client, server};

pub(super) const PEER: Peer = Peer {
    name: "nuttcp",
    program: ["nuttcp", "-V"],
    calls,
};

const CONTROL: u16 = 5000;
const DATA: u16 = 5101;

fn calls(setting: &Setting) -> Vec<Call> {
    let case = setting.case;
    let Some(path) = setting.programs.find("nuttcp") else {
        return Vec::new();
    };
    if case.job != Job::Stream || case.mode != Mode::Plain {
        return Vec::new();
    }
    let kind = match (case.proto, case.flows) {
        (Proto::Udp, _) => " -u -Ru".to_string(),
        (Proto::Tcp, 1) => String::new(),
        (Proto::Tcp, flows) => format!(" -N {flows}"),
    };
    vec![Call {
        label: "nuttcp",
        server: server(&format!("{path} -S --nofork -P {CONTROL}")),
        listens: Listens::Tcp(CONTROL),
        client: client(&format!(
            "{path} -P {CONTROL} -p {DATA} -fparse -T {} -l {}{kind} {}",
            setting.seconds, case.size, setting.address
        )),
        lead_s: 0.0,
        read,
    }]
}

fn read(text: &str, case: &Case) -> Result<Figure> {
    let bits = after(text, "rate_Mbps")? * 1e6;
    Ok(Figure::received(bits / 8.0 / f64::from(case.size)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::case;
    use super::*;

    #[test]
    fn rates_are_the_receivers() {
        let text = include_str!("../data/nuttcp-tcp.txt");
        let figure = read(text, &case(Proto::Tcp, Job::Stream, 64)).unwrap();
        assert_eq!(figure.rate.round(), (439_038_600.0_f64 / 512.0).round());
        let text = include_str!("../data/nuttcp-tcp8.txt");
        assert!(
            read(text, &case(Proto::Tcp, Job::Stream, 131_072))
                .unwrap()
                .rate
                > 1e4
        );
        // Of 165131 datagrams 82588 were lost.
        let text = include_str!("../data/nuttcp-udp.txt");
        let figure = read(text, &case(Proto::Udp, Job::Stream, 64)).unwrap();
        assert!((figure.rate / 82_543.0 - 1.0).abs() < 0.01, "{figure:?}");
        assert!(read("nuttcp-t: Error", &case(Proto::Udp, Job::Stream, 64)).is_err());
    }
}
