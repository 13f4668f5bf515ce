//! What the engine's choices may be where they are given.

use super::Errors;
use crate::plan::matrix::Matrix;
use crate::plan::{Engine, Proto, Receive, ReceiveBuffers, Spec, Test};
use crate::units::print_size;

/// Most receive buffers that io_uring takes (2^15 entries of a buffer ring).
const MAX_BUFFERS: u32 = 1 << 15;
/// Most memory of a worker's receive buffers.
const MAX_MEMORY: u64 = 1 << 30;
/// Fewest bytes of one.
const LEAST_BUFFER: u32 = 64;
/// What the kernel merges into one with `--gro`.
const MERGED_BYTES: u64 = 65_536;

pub(super) fn check(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    bounds(spec, errors);
    ring_only(spec, errors);
    low_water(spec, matrix, errors);
    if let Some(buffers) = spec.tuning.receive_buffers {
        fits(spec, matrix, buffers, errors);
    }
}

fn bounds(spec: &Spec, errors: &mut Errors) {
    let tuning = &spec.tuning;
    if let Some(us) = tuning.min_wait_us.filter(|us| *us > 1_000_000) {
        let reason = "it must be from 1 to 1000000, or off";
        errors.push([format!("--min-wait {us}")], reason);
    }
    if let Some(bytes) = tuning.low_water_bytes.filter(|bytes| *bytes > 1 << 30) {
        let reason = "it must be from 1 to 1G, or auto or off";
        errors.push(
            [format!("--low-water {}", print_size(u64::from(bytes)))],
            reason,
        );
    }
    let Some(buffers) = tuning.receive_buffers else {
        return;
    };
    let mut wrong = |reason: String| {
        errors.push([format!("--receive-buffers {buffers}")], reason);
    };
    let ReceiveBuffers { count, bytes } = buffers;
    if !count.is_power_of_two() || count > MAX_BUFFERS {
        wrong(format!(
            "their number must be a power of two, {MAX_BUFFERS} at most"
        ));
    }
    if bytes < LEAST_BUFFER || u64::from(count) * u64::from(bytes) > MAX_MEMORY {
        let most = print_size(MAX_MEMORY);
        wrong(format!(
            "each must have {LEAST_BUFFER} bytes at least, and all together {most} at most"
        ));
    }
}

/// Choices that only a ring has, where no side may have one.
fn ring_only(spec: &Spec, errors: &mut Errors) {
    let sockets = |own: Option<Engine>| own.or(spec.engine) == Some(Engine::Sockets);
    if !sockets(spec.client_engine) || !sockets(spec.server_engine) {
        return;
    }
    let engine = match spec.engine {
        Some(Engine::Sockets) => "--engine sockets".to_string(),
        _ => "--client-engine sockets".to_string(),
    };
    let tuning = &spec.tuning;
    let flags = [
        tuning.min_wait_us.map(|_| "--min-wait"),
        tuning.fixed_files.map(|_| "--fixed-files"),
        tuning.ring_flags.map(|_| "--ring-flags"),
    ];
    for flag in flags.into_iter().flatten() {
        let reason = "plain calls have no ring that it could be about";
        errors.push([flag.to_string(), engine.clone()], reason);
    }
}

fn low_water(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    if spec.tuning.low_water_bytes.is_none() {
        return;
    }
    let flag = || "--low-water".to_string();
    if matrix.kinds.iter().any(|kind| kind.0 == Proto::Udp) {
        let reason = "a datagram wakes its receiver whatever its size";
        errors.push([flag(), matrix.proto_flag(Proto::Udp)], reason);
    }
    for test in [Test::Rr, Test::Crr] {
        if matrix.kinds.iter().any(|kind| kind.1 == test) {
            let reason = "a request shorter than it would never be seen; it is for streams";
            errors.push([flag(), matrix.test_flag(test)], reason);
        }
    }
}

/// Whether what arrives finds room in the buffers.
fn fits(spec: &Spec, matrix: &Matrix<'_>, buffers: ReceiveBuffers, errors: &mut Errors) {
    let flag = || format!("--receive-buffers {buffers}");
    if spec.receive == Some(Receive::Discard) {
        let reason = "what the kernel throws away needs no buffer";
        errors.push([flag(), "--receive discard".to_string()], reason);
    }
    let datagrams = matrix.kinds.iter().any(|kind| kind.0 == Proto::Udp);
    let single = "one buffer for all is gone as soon as it is counted";
    if buffers.count == 1 && datagrams {
        errors.push([flag(), matrix.proto_flag(Proto::Udp)], single);
    } else if buffers.count == 1 && spec.verify {
        errors.push([flag(), "--verify".to_string()], single);
    }
    if datagrams && spec.gro && u64::from(buffers.bytes) < MERGED_BYTES {
        let reason = "merged datagrams are up to 64K; a smaller buffer cuts them";
        errors.push([flag(), "--gro".to_string()], reason);
    }
    let kinds = matrix.kinds.iter().filter(|kind| kind.0 == Proto::Udp);
    for size in kinds.flat_map(|kind| matrix.sizes_of(*kind)).flatten() {
        let largest = size.request.max(size.response.unwrap_or(0));
        if largest > u64::from(buffers.bytes) {
            let reason = "a larger datagram than the buffer is cut";
            errors.push([flag(), format!("--size {size}")], reason);
        }
    }
}
