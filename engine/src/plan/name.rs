//! The name of a case: every dimension and every option that changes what the traffic is.
//!
//! Names are compared between runs and machines, so they are stable: what has a default that
//! the user left alone is absent, except for the dimensions that every table needs.

use super::{
    Case, CloseKind, DEFAULT_TIMEOUT_NS, Engine, Family, Load, Options, Proto, Receive,
    SourcePorts, Test, Wait,
};
use crate::units::{print_bitrate, print_duration, print_per_second, print_size};

/// The case's name, made of everything but [`Case::name`].
pub(super) fn name(case: &Case) -> String {
    let mut words = vec![case.proto.to_string(), case.test.to_string(), size(case)];
    words.push(format!("x{}", case.flows));
    words.push(match case.server_workers == case.workers {
        true => format!("w{}", case.workers),
        false => format!("w{}:{}", case.workers, case.server_workers),
    });
    if let Some(depth) = case.depth {
        words.push(format!("d{depth}"));
    }
    match case.load {
        Load::Closed => {}
        Load::Rate { per_second } => words.push(format!("rate={}", print_per_second(per_second))),
        Load::Bitrate { bits_per_second } => {
            words.push(format!("bitrate={}", print_bitrate(bits_per_second)));
        }
    }
    match case.family {
        Family::Any => {}
        family => words.push(format!("ipv{family}")),
    }
    sender(case, &mut words);
    receiver(&case.options, &mut words);
    waiting(case, &mut words);
    words.join(" ")
}

fn size(case: &Case) -> String {
    if case.size_from_path_mtu {
        "mtu".to_string()
    } else if case.test.is_rr() {
        format!(
            "{}/{}",
            print_size(case.request_bytes),
            print_size(case.response_bytes)
        )
    } else {
        print_size(case.request_bytes)
    }
}

/// What sets the sender and the packets apart.
fn sender(case: &Case, words: &mut Vec<String>) {
    let options = &case.options;
    if case.proto == Proto::Tcp && options.nodelay != case.test.is_rr() {
        words.push(format!(
            "nodelay={}",
            if options.nodelay { "on" } else { "off" }
        ));
    }
    words.extend(options.congestion.iter().map(|name| format!("cc={name}")));
    words.extend(options.mss.map(|bytes| format!("mss={bytes}")));
    words.extend(
        options
            .window
            .map(|bytes| format!("window={}", print_size(bytes))),
    );
    words.extend(
        options
            .rcvbuf
            .map(|bytes| format!("rcvbuf={}", print_size(bytes))),
    );
    words.extend(
        options
            .pacing
            .map(|bits| format!("pacing={}", print_bitrate(bits))),
    );
    words.extend(options.dscp.map(|dscp| format!("dscp={dscp}")));
    words.extend(
        options
            .coalesce
            .map(|messages| format!("coalesce={messages}")),
    );
    words.extend(options.zerocopy.map(|how| format!("zerocopy={how}")));
    words.extend(options.gso.map(|segments| format!("gso={segments}")));
    if options.fragment {
        words.push("fragment".to_string());
    }
    if options.close == CloseKind::Rst {
        words.push("close=rst".to_string());
    }
    if options.source_ports != SourcePorts::Fresh {
        words.push(format!("ports={}", options.source_ports));
    }
    if (case.proto, case.test) == (Proto::Udp, Test::Rr)
        && options.timeout_ns != DEFAULT_TIMEOUT_NS
    {
        words.push(format!("timeout={}", print_duration(options.timeout_ns)));
    }
}

/// What sets the receiver and the answer apart.
fn receiver(options: &Options, words: &mut Vec<String>) {
    if options.gro {
        words.push("gro".to_string());
    }
    if options.receive == Receive::Discard {
        words.push("discard".to_string());
    }
    if options.verify {
        words.push("verify".to_string());
    }
    if options.think_ns != 0 {
        words.push(format!("think={}", print_duration(options.think_ns)));
    }
    if options.probes.wants_stages() {
        words.push("probed".to_string());
    }
    if let Some(tracepoint) = &options.probes_without {
        words.push(format!("without={tracepoint}"));
    }
    words.extend(options.tuning.words());
    if options.as_application {
        words.push("as-application".to_string());
    }
}

/// How the workers wait; where both sides do the same, once.
fn waiting(case: &Case, words: &mut Vec<String>) {
    let options = &case.options;
    let (client, server) = (options.client_wait, options.server_wait);
    let wait = |wait: Wait| (wait != Wait::Sleep).then(|| wait.to_string());
    both_or_each(wait(client), wait(server), words);
    // Zero-copy has its engine, which its own word tells.
    let engine = |client: bool, engine: Engine| {
        let implied = case.zerocopy_of(client).is_some();
        (engine != Engine::Auto && !implied).then(|| engine.to_string())
    };
    both_or_each(
        engine(true, options.client_engine),
        engine(false, options.server_engine),
        words,
    );
    let poll = |us: Option<u32>| us.map(|us| format!("busy-poll={us}us"));
    both_or_each(
        poll(options.client_busy_poll),
        poll(options.server_busy_poll),
        words,
    );
}

fn both_or_each(client: Option<String>, server: Option<String>, words: &mut Vec<String>) {
    if client == server {
        words.extend(client);
        return;
    }
    words.extend(client.map(|word| format!("client-{word}")));
    words.extend(server.map(|word| format!("server-{word}")));
}
