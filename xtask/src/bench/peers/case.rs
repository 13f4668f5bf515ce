//! What is measured: the cases, and what each must reach.

use std::fmt;

/// Transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proto {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Kind of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    /// Messages one way.
    Stream,
    /// Request and response, one outstanding per flow.
    Rr,
    /// Connect, request, response, close; one under way per flow.
    Crr,
}

/// What is done beside plain sends and receives; tools are compared in like mode only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Every message is one send and is copied by the receiver; waits sleep.
    Plain,
    /// Waits never sleep, on both sides.
    Busy,
    /// The receiver has the kernel throw the payload away.
    Discard,
    /// UDP: the kernel cuts and merges datagrams (GSO and GRO).
    Offload,
}

/// One case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// Transport.
    pub proto: Proto,
    /// Traffic.
    pub job: Job,
    /// Bytes of a message; for transactions of request and of response.
    pub size: u32,
    /// Flows, or transactions under way.
    pub flows: u32,
    /// Mode.
    pub mode: Mode,
}

impl Case {
    const fn new(proto: Proto, job: Job, size: u32, flows: u32, mode: Mode) -> Case {
        Case {
            proto,
            job,
            size,
            flows,
            mode,
        }
    }

    /// Whether it is about bytes rather than messages or transactions.
    pub fn is_bulk(&self) -> bool {
        self.job == Job::Stream && self.proto == Proto::Tcp && self.size >= 16 * 1024
    }

    /// What a rate per second is shown in, and what it is multiplied by for that.
    pub fn unit(&self) -> (&'static str, f64) {
        match (self.job, self.proto) {
            (Job::Stream, _) if self.is_bulk() => ("Gbit/s", f64::from(self.size) * 8.0 / 1e9),
            (Job::Stream, Proto::Tcp) => ("M messages/s", 1e-6),
            (Job::Stream, Proto::Udp) => ("k datagrams/s", 1e-3),
            (Job::Rr | Job::Crr, _) => ("k transactions/s", 1e-3),
        }
    }

    /// What CPU time is shown per, and how many of the case's operations that is.
    pub fn cpu_unit(&self) -> (&'static str, f64) {
        match self.job {
            Job::Stream => ("s/Gbit", 1e9 / 8.0 / f64::from(self.size)),
            Job::Rr | Job::Crr => ("s/M transactions", 1e6),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proto = match self.proto {
            Proto::Tcp => "tcp",
            Proto::Udp => "udp",
        };
        let job = match self.job {
            Job::Stream => "stream",
            Job::Rr => "rr",
            Job::Crr => "crr",
        };
        let size = match self.size {
            bytes if bytes >= 1024 && bytes.is_multiple_of(1024) => format!("{}K", bytes / 1024),
            bytes => bytes.to_string(),
        };
        write!(f, "{proto} {job} {size} x{}", self.flows)?;
        f.write_str(match self.mode {
            Mode::Plain => "",
            Mode::Busy => " busy",
            Mode::Discard => " discard",
            Mode::Offload => " gso gro",
        })
    }
}

/// What a row asks of the tail of the latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    /// Nothing.
    Any,
    /// The 99th percentile is no higher than the best peer's.
    NoWorse,
    /// It is lower.
    Lower,
}

/// A case and what it must reach.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The case.
    pub case: Case,
    /// The least paired ratio to the best peer: over loopback, over veth.
    pub least: [f64; 2],
    /// The tail.
    pub tail: Tail,
    /// Peers that the row is about, one of each list; without them it is not measured.
    pub needs: &'static [&'static [&'static str]],
}

impl Row {
    /// The most of the best peer's CPU time that ours may be.
    pub fn most_cpu(&self) -> f64 {
        match self.case.mode {
            Mode::Busy => 1.05,
            Mode::Plain | Mode::Discard | Mode::Offload => 1.0,
        }
    }
}

const DEBIAN: &[&[&str]] = &[
    &["iperf3"],
    &["iperf"],
    &["sockperf"],
    &["qperf"],
    &["nuttcp"],
];
/// Those that send messages of more than 64 KiB.
const LARGE: &[&[&str]] = &[&["iperf3"], &["iperf"], &["qperf"], &["nuttcp"]];
const SEVERAL: &[&[&str]] = &[&["iperf3"], &["iperf"], &["nuttcp"]];
const ASLEEP: &[&[&str]] = &[&["sockperf"], &["qperf"]];
const AWAKE: &[&[&str]] = &[&["sockperf --nonblocked"]];
const MANY: &[&[&str]] = &[&["neper", "uperf"]];
const SKIP: &[&[&str]] = &[&["iperf3 --skip-rx-copy"], &["iperf3 -Z --skip-rx-copy"]];
const GSRO: &[&[&str]] = &[&["iperf3 --gsro"]];
const CONNECTS: &[&[&str]] = &[&["netperf", "neper"]];
const CONNECTS_MANY: &[&[&str]] = &[&["neper"]];

/// sockperf's smallest message.
const SMALLEST: u32 = 14;

const fn stream(size: u32, flows: u32, least: [f64; 2], needs: Needs) -> Row {
    Row {
        case: Case::new(Proto::Tcp, Job::Stream, size, flows, Mode::Plain),
        least,
        tail: Tail::Any,
        needs,
    }
}

const fn rr(proto: Proto, flows: u32, mode: Mode, least: f64, tail: Tail, needs: Needs) -> Row {
    Row {
        case: Case::new(proto, Job::Rr, SMALLEST, flows, mode),
        least: [least, least],
        tail,
        needs,
    }
}

const fn plain(case: Case, least: f64, needs: Needs) -> Row {
    Row {
        case,
        least: [least, least],
        tail: Tail::Any,
        needs,
    }
}

type Needs = &'static [&'static [&'static str]];

const K: u32 = 1024;

/// Every case with what it must reach. A tie is 0.97.
pub const ROWS: [Row; 20] = [
    stream(64, 1, [1.7, 1.1], DEBIAN),
    stream(K, 1, [1.4, 1.1], DEBIAN),
    stream(16 * K, 1, [1.25, 1.25], DEBIAN),
    stream(128 * K, 1, [1.2, 1.2], LARGE),
    plain(discard(16 * K), 1.3, SKIP),
    plain(discard(128 * K), 1.3, SKIP),
    stream(128 * K, 8, [1.1, 1.1], SEVERAL),
    rr(Proto::Tcp, 1, Mode::Plain, 0.97, Tail::NoWorse, ASLEEP),
    rr(Proto::Tcp, 1, Mode::Busy, 0.97, Tail::NoWorse, AWAKE),
    rr(Proto::Tcp, 10, Mode::Plain, 1.05, Tail::Lower, MANY),
    rr(Proto::Tcp, 100, Mode::Plain, 1.25, Tail::Lower, MANY),
    rr(Proto::Tcp, 500, Mode::Plain, 1.2, Tail::Lower, MANY),
    plain(datagrams(64, Mode::Plain), 1.2, DEBIAN),
    plain(datagrams(1472, Mode::Plain), 1.2, DEBIAN),
    plain(datagrams(64, Mode::Offload), 1.0, GSRO),
    plain(datagrams(1472, Mode::Offload), 1.0, GSRO),
    rr(Proto::Udp, 1, Mode::Plain, 0.97, Tail::Any, ASLEEP),
    rr(Proto::Udp, 1, Mode::Busy, 0.97, Tail::Any, AWAKE),
    plain(connections(1), 0.97, CONNECTS),
    plain(connections(64), 1.5, CONNECTS_MANY),
];

const fn discard(size: u32) -> Case {
    Case::new(Proto::Tcp, Job::Stream, size, 1, Mode::Discard)
}

const fn datagrams(size: u32, mode: Mode) -> Case {
    Case::new(Proto::Udp, Job::Stream, size, 1, mode)
}

const fn connections(under_way: u32) -> Case {
    Case::new(Proto::Tcp, Job::Crr, 1, under_way, Mode::Plain)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: BTreeSet<String> = ROWS.iter().map(|row| row.case.to_string()).collect();
        assert_eq!(names.len(), ROWS.len());
        assert!(names.contains("tcp stream 64 x1"));
        assert!(names.contains("tcp stream 128K x8"));
        assert!(names.contains("udp stream 1472 x1 gso gro"));
        assert!(names.contains("tcp rr 14 x1 busy"));
    }

    #[test]
    fn units_follow_the_case() {
        let bulk = discard(128 * K);
        assert_eq!(bulk.unit(), ("Gbit/s", 131_072.0 * 8.0 / 1e9));
        let (unit, operations) = bulk.cpu_unit();
        assert_eq!((unit, operations.round()), ("s/Gbit", 954.0));
        assert_eq!(connections(1).cpu_unit(), ("s/M transactions", 1e6));
        assert_eq!(datagrams(64, Mode::Plain).unit().0, "k datagrams/s");
    }
}
