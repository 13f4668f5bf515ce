//! What a single flag may be.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::Errors;
use crate::plan::{MAX_MESSAGE_BYTES, ServeOptions, Spec};
use crate::units::{print_bitrate, print_count, print_duration, print_size};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const HOUR: u64 = 3600 * SECOND;
const YEAR: u64 = 365 * 24 * HOUR;

/// More than any link carries, and far from what 64 bits hold.
const MAX_BITS: u64 = 1_000_000_000_000_000;

/// Exact in a float, so that no figure made of it is off.
const MAX_AMOUNT: u64 = 1 << 53;

/// What the kernel takes as TCP_MAXSEG: TCP_MIN_MSS to MAX_TCP_WINDOW.
const MSS: RangeInclusive<u64> = 88..=32_767;

/// Most segments of one send that any kernel takes (UDP_MAX_SEGMENTS).
const MAX_GSO: u64 = 128;

/// Longest name of an interface or a congestion control.
const MAX_NAME: usize = 15;

struct Bound {
    flag: &'static str,
    value: u64,
    range: RangeInclusive<u64>,
    print: fn(u64) -> String,
}

fn bound<T: Into<u64>>(
    flag: &'static str,
    value: impl IntoIterator<Item = T>,
    range: RangeInclusive<u64>,
    print: fn(u64) -> String,
) -> Vec<Bound> {
    let of = |value: T| Bound {
        flag,
        value: value.into(),
        range: range.clone(),
        print,
    };
    value.into_iter().map(of).collect()
}

fn plain(value: u64) -> String {
    value.to_string()
}

fn apply(bounds: impl IntoIterator<Item = Bound>, errors: &mut Errors) {
    for bound in bounds {
        if !bound.range.contains(&bound.value) {
            let (print, range) = (bound.print, &bound.range);
            let reason = format!(
                "it must be from {} to {}",
                print(*range.start()),
                print(*range.end())
            );
            errors.push([format!("{} {}", bound.flag, print(bound.value))], reason);
        }
    }
}

pub(super) fn check(spec: &Spec, errors: &mut Errors) {
    apply(dimensions(spec), errors);
    apply(times(spec), errors);
    apply(options(spec), errors);
    rates(spec, errors);
    repeated(spec, errors);
    names(spec, errors);
}

/// A value that stands twice in a list would be a case that runs twice.
fn repeated(spec: &Spec, errors: &mut Errors) {
    twice("--proto", &spec.protos, errors);
    twice("--test", &spec.tests, errors);
    twice("--size", &spec.sizes, errors);
    twice("--flows", &spec.flows, errors);
    twice("--workers", &spec.workers, errors);
    twice("--depth", &spec.depths, errors);
    twice("--rate", &spec.rates, errors);
    twice("--bitrate", &spec.bitrates, errors);
    twice("--family", &spec.families, errors);
}

fn twice<T: ToString>(flag: &str, values: &[T], errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for value in values.iter().map(T::to_string) {
        if let Some(value) = seen.replace(value) {
            let reason = "it is in the list twice; --samples repeats every case";
            errors.push([format!("{flag} {value}")], reason);
        }
    }
}

fn dimensions(spec: &Spec) -> Vec<Bound> {
    let sizes = spec
        .sizes
        .iter()
        .flat_map(|size| [Some(size.request), size.response]);
    let message = 1..=MAX_MESSAGE_BYTES;
    [
        bound("--size", sizes.flatten(), message, print_size),
        bound("--flows", spec.flows.iter().copied(), 1..=1_000_000, plain),
        bound("--workers", spec.workers.iter().copied(), 1..=1024, plain),
        bound("--client-workers", spec.client_workers, 1..=1024, plain),
        bound("--server-workers", spec.server_workers, 1..=1024, plain),
        bound("--depth", spec.depths.iter().copied(), 1..=65_536, plain),
        bound(
            "--bitrate",
            spec.bitrates.iter().copied(),
            1..=MAX_BITS,
            print_bitrate,
        ),
        bound("--bytes", spec.bytes, 1..=MAX_AMOUNT, print_size),
        bound(
            "--transactions",
            spec.transactions,
            1..=MAX_AMOUNT,
            print_count,
        ),
        bound("--samples", spec.samples, 1..=1_000_000, plain),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn times(spec: &Spec) -> Vec<Bound> {
    let time = |flag, value: Option<u64>, range| bound(flag, value, range, print_duration);
    [
        time("--duration", spec.duration, 10 * MS..=YEAR),
        time("--warmup", spec.warmup, 0..=YEAR),
        time("--interval", spec.interval, 100 * MS..=YEAR),
        time("--think", spec.think, 0..=60 * SECOND),
        time("--timeout", spec.timeout, MS..=60 * SECOND),
        // A heartbeat goes each way every second; one of them may be lost.
        time("--peer-timeout", spec.peer_timeout, 2 * SECOND..=HOUR),
        time("--wait-for-server", spec.wait_for_server, MS..=24 * HOUR),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn options(spec: &Spec) -> Vec<Bound> {
    let us = 1..=1_000_000;
    [
        bound("--mss", spec.mss, MSS, plain),
        bound("--window", spec.window, 1..=1 << 30, print_size),
        bound("--rcvbuf", spec.rcvbuf, 1..=1 << 30, print_size),
        bound("--pacing", spec.pacing, 8..=MAX_BITS, print_bitrate),
        bound("--dscp", spec.dscp, 0..=63, plain),
        bound("--coalesce", spec.coalesce, 1..=65_536, plain),
        bound("--gso", spec.gso, 1..=MAX_GSO, plain),
        bound("--busy-poll", spec.busy_poll, us.clone(), plain),
        bound(
            "--client-busy-poll",
            spec.client_busy_poll,
            us.clone(),
            plain,
        ),
        bound("--server-busy-poll", spec.server_busy_poll, us, plain),
        bound("--port", spec.port, 1..=65_535, plain),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn rates(spec: &Spec, errors: &mut Errors) {
    for rate in &spec.rates {
        if !(0.001..=1e12).contains(&rate.value) {
            errors.push(
                [format!("--rate {rate}")],
                "it must be from 0.001 to 1T per second",
            );
        }
    }
}

fn names(spec: &Spec, errors: &mut Errors) {
    let short = |name: &str| !name.is_empty() && name.len() <= MAX_NAME;
    if let Some(name) = &spec.device
        && (!short(name) || name.contains(|c: char| c == '/' || c.is_whitespace()))
    {
        errors.push(
            [format!("--device {name:?}")],
            format!("an interface's name has 1 to {MAX_NAME} characters, no slash, no space"),
        );
    }
    if let Some(name) = &spec.congestion
        && !(short(name)
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)))
    {
        errors.push(
            [format!("--congestion {name:?}")],
            "write a name of net.ipv4.tcp_available_congestion_control, such as cubic",
        );
    }
    if spec.title.as_ref().is_some_and(|title| title.len() > 1000) {
        errors.push(["--title".to_string()], "it is longer than 1000 bytes");
    }
}

pub(super) fn check_serve(options: &ServeOptions, errors: &mut Errors) {
    let sessions = Some(options.max_sessions);
    let duration = options.max_duration_ns;
    let bounds = [
        bound("--max-sessions", sessions, 1..=10_000, plain),
        bound("--max-duration", duration, 10 * MS..=YEAR, print_duration),
        bound("--max-flows", options.max_flows, 1..=2_000_000, plain),
        bound(
            "--max-bitrate",
            options.max_bitrate_bps,
            1..=MAX_BITS,
            print_bitrate,
        ),
    ];
    apply(bounds.into_iter().flatten(), errors);
}
