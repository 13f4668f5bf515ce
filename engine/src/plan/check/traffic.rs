//! What goes together with which traffic.

use super::Errors;
use crate::plan::matrix::Matrix;
use crate::plan::{
    MAX_MESSAGE_BYTES, MAX_UDP_BYTES, Proto, Receive, SizeSpec, Spec, Test, UDP_HEADER_BYTES,
};
use crate::units::{print_duration, print_size};

/// Most sends in flight or requests outstanding of a case.
const MAX_OUTSTANDING: u64 = 1 << 20;

pub(super) fn check(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    limits(spec, matrix, errors);
    loads(spec, matrix, errors);
    for proto in [Proto::Tcp, Proto::Udp] {
        if matrix.kinds.iter().any(|kind| kind.0 == proto) {
            protocol(spec, &matrix.proto_flag(proto), proto, errors);
        }
    }
    for test in [
        Test::Stream,
        Test::Reverse,
        Test::Bidir,
        Test::Rr,
        Test::Crr,
    ] {
        if matrix.kinds.iter().any(|kind| kind.1 == test) {
            kind_of_test(spec, &matrix.test_flag(test), test, errors);
        }
    }
    if matrix.kinds.contains(&(Proto::Udp, Test::Crr)) {
        errors.push(
            [matrix.proto_flag(Proto::Udp), matrix.test_flag(Test::Crr)],
            "UDP has no connection to open and close; use --test rr",
        );
    }
    somewhere(spec, matrix, errors);
    sizes(spec, matrix, errors);
    last_datagrams(spec, matrix, errors);
    outstanding(matrix, errors);
    numbers(matrix, errors);
    verify(spec, matrix, errors);
    if let (Some(window), Some(rcvbuf)) = (
        typed("--window", spec.window.map(print_size)),
        typed("--rcvbuf", spec.rcvbuf.map(print_size)),
    ) {
        errors.push(
            [window, rcvbuf],
            "both set the receive buffer; leave one out",
        );
    }
}

/// The flags of an option with a value, where it was typed.
fn typed<T: ToString>(flag: &str, value: Option<T>) -> Option<String> {
    value.map(|value| format!("{flag} {}", value.to_string()))
}

/// The flag of a switch, where it was typed.
fn switch(flag: &str, on: bool) -> Option<String> {
    on.then(|| flag.to_string())
}

fn limits(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    let duration = typed("--duration", spec.duration.map(print_duration));
    let bytes = typed("--bytes", spec.bytes.map(print_size));
    let transactions = typed("--transactions", spec.transactions);
    let pairs = [
        (&duration, &bytes),
        (&duration, &transactions),
        (&bytes, &transactions),
    ];
    for pair in pairs {
        if let (Some(one), Some(other)) = pair {
            errors.push(
                [one.clone(), other.clone()],
                "only one thing can end a sample",
            );
        }
    }
    let warmup = typed(
        "--warmup",
        spec.warmup.filter(|ns| *ns > 0).map(print_duration),
    );
    for limit in [&bytes, &transactions] {
        if let (Some(warmup), Some(limit)) = (&warmup, limit) {
            let reason = "an exact amount has no warm-up: all of it is counted";
            errors.push([warmup.clone(), limit.clone()], reason);
        }
    }
    for test in [Test::Rr, Test::Crr] {
        if let Some(bytes) = &bytes
            && matrix.kinds.iter().any(|kind| kind.1 == test)
        {
            let reason = "request and response have two sizes; use --transactions";
            errors.push([bytes.clone(), matrix.test_flag(test)], reason);
        }
    }
}

fn loads(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    let bitrate = spec
        .bitrates
        .first()
        .map(|bits| crate::units::print_bitrate(*bits));
    let Some(bitrate) = typed("--bitrate", bitrate) else {
        return;
    };
    if let Some(rate) = spec.rates.first() {
        let reason = "only one of them can set the pace";
        errors.push([format!("--rate {rate}"), bitrate.clone()], reason);
    }
    for test in [Test::Rr, Test::Crr] {
        if matrix.kinds.iter().any(|kind| kind.1 == test) {
            let reason = "transactions are paced by number; use --rate";
            errors.push([bitrate.clone(), matrix.test_flag(test)], reason);
        }
    }
}

/// Options that one of the protocols does not have.
fn protocol(spec: &Spec, flag: &str, proto: Proto, errors: &mut Errors) {
    let (options, reason) = match proto {
        Proto::Tcp => (
            vec![typed("--gso", spec.gso), switch("--gro", spec.gro)],
            "it is an option of UDP; the kernel segments TCP by itself",
        ),
        Proto::Udp => (
            vec![
                typed(
                    "--nodelay",
                    spec.nodelay.map(|on| if on { "on" } else { "off" }),
                ),
                typed("--mss", spec.mss),
                typed("--congestion", spec.congestion.as_ref()),
                typed("--coalesce", spec.coalesce),
                typed(
                    "--receive",
                    spec.receive.filter(|how| *how == Receive::Discard),
                ),
            ],
            "it is an option of TCP",
        ),
    };
    for option in options.into_iter().flatten() {
        errors.push([option, flag.to_string()], reason);
    }
}

/// Options that one of the tests does not have.
fn kind_of_test(spec: &Spec, flag: &str, test: Test, errors: &mut Errors) {
    let (options, reason) = match test.is_rr() {
        true => (
            vec![
                typed("--gso", spec.gso),
                switch("--gro", spec.gro),
                typed("--coalesce", spec.coalesce),
            ],
            "a request is sent and taken by itself; it is for streams",
        ),
        false => (
            vec![
                typed(
                    "--think",
                    spec.think.filter(|ns| *ns > 0).map(print_duration),
                ),
                spec.sizes
                    .iter()
                    .find(|size| size.response.is_some())
                    .map(|size| format!("--size {size}")),
            ],
            "a stream has no response; it is for rr and crr",
        ),
    };
    for option in options.into_iter().flatten() {
        errors.push([option, flag.to_string()], reason);
    }
    if let Some(depth) = spec.depths.iter().find(|depth| **depth > 1)
        && test == Test::Crr
    {
        let reason = "a connection carries one transaction; more at once is --flows";
        errors.push([format!("--depth {depth}"), flag.to_string()], reason);
    }
}

/// Options that need at least one case to have an effect on.
fn somewhere(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    let any = |wanted: fn(Proto, Test) -> bool| {
        matrix
            .kinds
            .iter()
            .any(|(proto, test)| wanted(*proto, *test))
    };
    if !any(|proto, _| proto == Proto::Udp)
        && let Some(option) = switch("--fragment", spec.fragment)
    {
        errors.push([option, matrix.proto_flag(Proto::Tcp)], "no case uses UDP");
    }
    if !any(|proto, _| proto == Proto::Tcp)
        && let Some(option) = typed("--close", spec.close)
    {
        errors.push([option, matrix.proto_flag(Proto::Udp)], "no case uses TCP");
    }
    if !any(|proto, test| (proto, test) == (Proto::Udp, Test::Rr))
        && let Some(option) = typed("--timeout", spec.timeout.map(print_duration))
        && let Some((proto, test)) = matrix.kinds.first()
    {
        let reason = "only a UDP request can be given up: it needs --proto udp --test rr";
        errors.push(
            [option, matrix.proto_flag(*proto), matrix.test_flag(*test)],
            reason,
        );
    }
}

fn sizes(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    let typed_size = |size: &SizeSpec| format!("--size {size}");
    for &(proto, test) in &matrix.kinds {
        for size in matrix.sizes_of((proto, test)).iter().flatten() {
            if proto == Proto::Udp && size.exceeds_udp() {
                let reason = format!("a datagram holds at most {MAX_UDP_BYTES} bytes");
                errors.push([typed_size(size), matrix.proto_flag(proto)], reason);
                continue;
            }
            let per_send = |messages: u32| size.request.saturating_mul(u64::from(messages));
            if let Some(gso) = spec.gso
                && (proto, test.is_rr()) == (Proto::Udp, false)
                && per_send(gso) > MAX_UDP_BYTES
            {
                let reason = format!("one send holds at most {MAX_UDP_BYTES} bytes together");
                errors.push([format!("--gso {gso}"), typed_size(size)], reason);
            }
            if let Some(coalesce) = spec.coalesce
                && (proto, test.is_rr()) == (Proto::Tcp, false)
                && per_send(coalesce) > MAX_MESSAGE_BYTES
            {
                let most = print_size(MAX_MESSAGE_BYTES);
                let reason = format!("one send holds at most {most} bytes together");
                errors.push([format!("--coalesce {coalesce}"), typed_size(size)], reason);
            }
        }
    }
}

/// A datagram of a size that has room for the header must have one, the last of a flow too.
fn last_datagrams(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    let Some(bytes) = spec.bytes else { return };
    let streams = matrix
        .kinds
        .iter()
        .filter(|(proto, test)| (*proto, test.is_rr()) == (Proto::Udp, false));
    for &kind in streams {
        for size in matrix.sizes_of(kind) {
            let message = size.map_or(MAX_UDP_BYTES, |size| size.request);
            // One number of flows speaks for all of a size.
            for &flows in &matrix.flows {
                let share = bytes / u64::from(flows.max(1));
                let shares = [
                    share,
                    share + u64::from(bytes % u64::from(flows.max(1)) > 0),
                ];
                let Some(share) = shares.into_iter().find(|s| !ends_well(*s, message)) else {
                    continue;
                };
                let reason = format!(
                    "a flow's {share} bytes end in a datagram without room for its \
                     {UDP_HEADER_BYTES}-byte header; give a multiple of --size, or more"
                );
                let flags = [format!("--bytes {bytes}"), matrix.proto_flag(Proto::Udp)];
                errors.push(flags, reason);
                break;
            }
        }
    }
}

/// Whether so many bytes can be cut into datagrams of this size with a shorter one or two at the
/// end that have room for the header.
fn ends_well(share: u64, message: u64) -> bool {
    let rest = share % message;
    let short = message >= UDP_HEADER_BYTES && rest > 0 && rest < UDP_HEADER_BYTES;
    !short || share > message && message + rest >= 2 * UDP_HEADER_BYTES
}

/// Each outstanding request and each send in flight has its memory from the beginning.
fn outstanding(matrix: &Matrix<'_>, errors: &mut Errors) {
    // The largest pair speaks for all: a long list of each has millions of pairs.
    let flows = matrix.flows.iter().copied().max().unwrap_or(0);
    let depth = matrix.depths.iter().flatten().copied().max().unwrap_or(0);
    if u64::from(flows) * u64::from(depth) > MAX_OUTSTANDING {
        let reason =
            format!("that is more than {MAX_OUTSTANDING} sends or requests outstanding at once");
        let flags = [format!("--flows {flows}"), format!("--depth {depth}")];
        errors.push(flags, reason);
    }
}

/// A datagram's answer names its request by as much of its number as fits. Half of the numbers
/// are for requests whose answers may still come late.
fn numbers(matrix: &Matrix<'_>, errors: &mut Errors) {
    let asking = (Proto::Udp, Test::Rr);
    let Some(depth) = matrix.depths.iter().flatten().max() else {
        return;
    };
    if !matrix.kinds.contains(&asking) {
        return;
    }
    let least = |size: &SizeSpec| size.response.unwrap_or(size.request).min(size.request);
    // The smallest and the deepest stand for all, since a matrix may be of any size.
    let sizes = matrix.sizes_of(asking).into_iter().flatten();
    let Some(size) = sizes.min_by_key(least) else {
        return;
    };
    let bytes = least(&size);
    let most = match bytes {
        0..=3 => (1_u64 << (8 * bytes)) / 2,
        _ => u64::MAX,
    };
    if u64::from(*depth) > most {
        let reason = format!(
            "datagrams of {bytes} bytes can tell {most} outstanding requests apart; lower the \
             depth or give a larger --size"
        );
        let flags = [
            format!("--depth {depth}"),
            format!("--size {size}"),
            matrix.proto_flag(Proto::Udp),
        ];
        errors.push(flags, reason);
    }
}

fn verify(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    if !spec.verify {
        return;
    }
    let flag = || "--verify".to_string();
    if let Some(receive) = spec.receive.filter(|how| *how == Receive::Discard) {
        let reason = "what the kernel throws away cannot be checked";
        errors.push([flag(), format!("--receive {receive}")], reason);
    }
    for &(proto, test) in &matrix.kinds {
        match proto {
            Proto::Tcp => {
                for depth in spec.depths.iter().filter(|depth| **depth > 1) {
                    let reason = "on TCP the pattern is checked in the order of the bytes, which \
                                  needs --depth 1";
                    let flags = [flag(), format!("--depth {depth}"), matrix.proto_flag(proto)];
                    errors.push(flags, reason);
                }
            }
            Proto::Udp => {
                for size in matrix.sizes_of((proto, test)).iter().flatten() {
                    let least = size.response.unwrap_or(size.request).min(size.request);
                    if least <= UDP_HEADER_BYTES {
                        let reason = format!(
                            "the first {UDP_HEADER_BYTES} bytes of a datagram are its header; \
                             give a larger --size"
                        );
                        let flags = [flag(), format!("--size {size}"), matrix.proto_flag(proto)];
                        errors.push(flags, reason);
                    }
                }
            }
        }
    }
}
