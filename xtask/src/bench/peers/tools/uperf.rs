//! uperf: a thread per flow, and a profile that says what each does. The time that it divides by
//! is longer than its test, so its rate is taken from the mean time of a transaction.

use anyhow::{Context, Result, bail};

use super::super::super::namespace::Listens;
use super::super::case::{Case, Job, Mode, Proto};
use super::{Basis, Call, Figure, Peer, Setting, client, server};

pub(super) const PEER: Peer = Peer {
    name: "uperf",
    program: ["uperf", "-V"],
    calls,
};

const PORT: u16 = 20001;

/// Profiles, which take their values from the environment.
const PROFILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bench/peers/data");

fn calls(setting: &Setting) -> Vec<Call> {
    let case = setting.case;
    let (profile, read): (_, super::Read) = match case.job {
        Job::Stream => ("uperf-stream.xml", read_stream),
        Job::Rr => ("uperf-rr.xml", read_transactions),
        Job::Crr => return Vec::new(),
    };
    let Some(path) = setting.programs.find("uperf") else {
        return Vec::new();
    };
    if case.mode != Mode::Plain || PROFILES.contains(char::is_whitespace) {
        return Vec::new();
    }
    let proto = match case.proto {
        Proto::Tcp => "tcp",
        Proto::Udp => "udp",
    };
    vec![Call {
        label: "uperf",
        server: server(&format!("{path} -s -P {PORT}")),
        listens: Listens::Tcp(PORT),
        client: client(&format!(
            "env threads={} host={} proto={proto} seconds={}s size={} {path} -P {PORT} -R -a \
             -i 1 -m {PROFILES}/{profile}",
            case.flows, setting.address, setting.seconds, case.size
        )),
        lead_s: 0.0,
        read,
    }]
}

fn read_stream(text: &str, case: &Case) -> Result<Figure> {
    Ok(Figure {
        rate: rate(text, case)?,
        basis: Basis::Sent,
        latency_us: None,
    })
}

fn read_transactions(text: &str, case: &Case) -> Result<Figure> {
    Ok(Figure::received(rate(text, case)?))
}

/// Transactions per second: every flow begins the next one when one has ended.
fn rate(text: &str, case: &Case) -> Result<f64> {
    let row = |name: &str| {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .find(|words| words.first() == Some(&name))
    };
    let sum = row("master").context("uperf prints no sum")?;
    if sum.last().is_none_or(|errors| *errors != "0.00") {
        bail!("uperf had errors: {sum:?}");
    }
    // Txn0 connects, Txn1 is the test, Txn2 disconnects.
    let test = row("Txn1").context("uperf prints no transactions")?;
    let mean = test.get(2).and_then(|word| seconds(word));
    let mean = mean.filter(|mean| *mean > 0.0).context("no mean time")?;
    Ok(f64::from(case.flows) / mean)
}

/// `117.50us` in seconds.
fn seconds(text: &str) -> Option<f64> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit);
    let scale = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::super::tests::case;
    use super::*;

    #[test]
    fn the_rate_is_of_the_mean_time() {
        let text = include_str!("../data/uperf-rr.txt");
        let ten = Case {
            flows: 10,
            ..case(Proto::Tcp, Job::Rr, 14)
        };
        let figure = read_transactions(text, &ten).unwrap();
        // 85152 within the second that the profile asks for.
        assert!((figure.rate / 85_152.0 - 1.0).abs() < 0.01, "{figure:?}");
    }

    #[test]
    fn errors_are_no_figure() {
        let text = include_str!("../data/uperf-rr.txt").replace("170334        0.00", "9 3.00");
        assert!(read_transactions(&text, &case(Proto::Tcp, Job::Rr, 14)).is_err());
        assert!(read_transactions("", &case(Proto::Tcp, Job::Rr, 14)).is_err());
        assert_eq!((seconds("2.50ms"), seconds("7.00h")), (Some(0.0025), None));
    }
}
