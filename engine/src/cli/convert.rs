//! What was typed to a `plan::Spec`, without any rule.

use std::path::Path;

use super::run_args::{EngineArgs, OutputArgs, RunArgs};
use crate::plan::{JsonTarget, Proto, Spec, Test, Tuning};
use crate::units::CpuList;

fn cpus(typed: Option<CpuList>) -> Vec<u32> {
    typed.unwrap_or_default().0
}

/// One element where a letter was typed that stands for it, else the list.
fn or_letter<T>(list: Vec<T>, letter: Option<T>) -> Vec<T> {
    letter.map_or(list, |value| vec![value])
}

fn tuning(typed: EngineArgs) -> Tuning {
    Tuning {
        min_wait_us: typed.min_wait,
        low_water_bytes: typed.low_water.and_then(|given| given.0),
        receive_buffers: typed.receive_buffers,
        fixed_files: typed.fixed_files,
        ring_flags: typed.ring_flags,
        huge_pages: typed.huge_pages,
    }
}

/// The plan as typed.
pub(super) fn spec(args: RunArgs) -> Spec {
    let (matrix, time, place) = (args.matrix, args.time, args.place);
    let (sockets, messages, session) = (args.sockets, args.messages, args.session);
    Spec {
        host: args.host,
        port: args.port,
        protos: or_letter(matrix.proto, matrix.udp.then_some(Proto::Udp)),
        tests: or_letter(matrix.test, matrix.reverse.then_some(Test::Reverse)),
        sizes: matrix.size,
        flows: matrix.flows,
        workers: matrix.workers,
        client_workers: matrix.client_workers,
        server_workers: matrix.server_workers,
        depths: matrix.depth,
        rates: matrix.rate,
        bitrates: or_letter(matrix.bitrate, matrix.iperf_bitrate),
        families: matrix.family,
        duration: time.duration,
        bytes: time.bytes,
        transactions: time.transactions,
        warmup: time.warmup,
        samples: time.samples,
        interval: time.interval,
        cpus: cpus(place.cpus),
        client_cpus: cpus(place.client_cpus),
        server_cpus: cpus(place.server_cpus),
        bind: sockets.bind,
        device: sockets.device,
        congestion: sockets.congestion,
        mss: sockets.mss,
        window: sockets.window,
        rcvbuf: sockets.rcvbuf,
        pacing: sockets.pacing,
        nodelay: sockets.nodelay,
        close: sockets.close,
        dscp: sockets.dscp,
        source_ports: sockets.source_ports,
        receive: messages.receive,
        coalesce: messages.coalesce,
        zerocopy: messages.zerocopy,
        gso: messages.gso,
        gro: messages.gro,
        fragment: messages.fragment,
        wait: place.wait,
        client_wait: place.client_wait,
        server_wait: place.server_wait,
        engine: place.engine,
        client_engine: place.client_engine,
        server_engine: place.server_engine,
        busy_poll: place.busy_poll,
        client_busy_poll: place.client_busy_poll,
        server_busy_poll: place.server_busy_poll,
        think: messages.think,
        verify: messages.verify,
        as_application: place.as_application,
        tuning: tuning(args.engine),
        probes: place.probes,
        probes_without: place.probes_without.clone(),
        wait_for_server: session.wait_for_server,
        timeout: session.timeout,
        peer_timeout: session.peer_timeout,
        title: args.output.title,
    }
}

/// Where the document goes, where one was asked for.
pub(super) fn json(output: &OutputArgs) -> Option<JsonTarget> {
    if output.json_stdout {
        return Some(JsonTarget::Stdout);
    }
    output.json.as_deref().map(target)
}

/// What stands after `--json`.
pub(super) fn target(path: &Path) -> JsonTarget {
    match path.as_os_str() == "-" {
        true => JsonTarget::Stdout,
        false => JsonTarget::Path(path.to_path_buf()),
    }
}
