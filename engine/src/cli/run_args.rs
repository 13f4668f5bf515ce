//! The flags of `run`, in the groups of its help.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use crate::plan::{
    CloseKind, Engine, Family, ProbeUse, Proto, Receive, ReceiveBuffers, RingFlags, SizeSpec,
    SourcePorts, Test, TypedHost, Wait, ZeroCopy,
};
use crate::units::{
    CpuList, ParseError, PerSecond, parse_address, parse_bitrate, parse_count, parse_duration,
    parse_number, parse_size,
};

/// What can be typed after `run`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RunArgs {
    /// Server: a name, 192.0.2.1, ::1 or [::1]; with a port name:PORT, 192.0.2.1:PORT or
    /// [::1]:PORT [default: none, both sides in this process over loopback]
    #[arg(value_name = "HOST[:PORT]")]
    pub(super) host: Option<TypedHost>,

    /// Port of the server, 1 to 65535 [default: 5301]
    #[arg(short, long, value_name = "PORT")]
    pub(super) port: Option<u16>,

    #[command(flatten)]
    pub(super) matrix: MatrixArgs,
    #[command(flatten)]
    pub(super) time: TimeArgs,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) sockets: SocketArgs,
    #[command(flatten)]
    pub(super) messages: MessageArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

const AFTER_HELP: &str = "\
Sizes: bytes, K M G T = 1024. Rates and bitrates: per second, K M G T = 1000.
Durations: ns us ms s m h d; a bare number is seconds.
An option applies to both sides unless its name says which.
Exit codes: 0 ok; 1 a comparison or threshold failed; 2 usage or plan error, or a value beyond
what the host has; 3 no data; 4 the other side, a case or the own output failed; 5 this host
cannot run it (a limit or privilege is missing); 130 ended by Ctrl-C; 143 by SIGTERM.";

/// `on` or `off`.
fn on_off(text: &str) -> Result<bool, ParseError> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(ParseError::new("a switch", text, "choose on or off")),
    }
}

/// Microseconds, or `off`, which is 0.
fn min_wait(text: &str) -> Result<u32, ParseError> {
    if text == "off" {
        return Ok(0);
    }
    let wrong = || ParseError::new("a wait", text, "write microseconds from 1, or off");
    let us = text.parse().map_err(|_| wrong())?;
    (us > 0).then_some(us).ok_or_else(wrong)
}

/// Bytes, `off`, which is 0, or `auto`, which is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct LowWater(pub(super) Option<u32>);

fn low_water(text: &str) -> Result<LowWater, ParseError> {
    let wrong = || ParseError::new("a low-water mark", text, "write bytes from 1, auto or off");
    match text {
        "auto" => Ok(LowWater(None)),
        "off" => Ok(LowWater(Some(0))),
        _ => {
            let bytes = u32::try_from(parse_size(text)?).map_err(|_| wrong())?;
            (bytes > 0)
                .then_some(LowWater(Some(bytes)))
                .ok_or_else(wrong)
        }
    }
}

/// A number that may be a DSCP code point; the plan's rules have its bounds.
fn dscp(text: &str) -> Result<u8, ParseError> {
    let wide = ParseError::new("a code point", text, "it must be from 0 to 63");
    u8::try_from(parse_number(text)?).map_err(|_| wide)
}

/// The dimensions.
#[derive(Args, Debug)]
#[command(next_help_heading = "What traffic: each may be a list, every combination is a case")]
pub(super) struct MatrixArgs {
    /// Transports: tcp, udp [default: tcp]
    #[arg(long, value_name = "PROTO,..", value_delimiter = ',')]
    pub(super) proto: Vec<Proto>,

    /// The same as --proto udp
    #[arg(short = 'u', long = "udp", conflicts_with = "proto")]
    pub(super) udp: bool,

    /// stream (to the server), reverse (from it), bidir (both at once), rr (request and
    /// response), crr (connect, rr, close) [default: stream]
    #[arg(long, value_name = "TEST,..", value_delimiter = ',')]
    pub(super) test: Vec<Test>,

    /// The same as --test reverse
    #[arg(short = 'R', long = "reverse", conflicts_with = "test")]
    pub(super) reverse: bool,

    /// Bytes of a message, 1 to 64M (UDP to 65507); rr and crr: of request and response, A/B
    /// where they differ [default: TCP streams 128K, UDP streams the path's MTU less headers,
    /// rr and crr 1]
    #[arg(short = 'l', long, value_name = "SIZE,..", value_delimiter = ',')]
    pub(super) size: Vec<SizeSpec>,

    /// Flows per direction, 1 to 1000000 [default: 1]
    #[arg(short = 'P', long, value_name = "N,..", value_delimiter = ',')]
    #[arg(value_parser = parse_number)]
    pub(super) flows: Vec<u32>,

    /// Pinned threads of each side, each with its own ring and its share of the flows,
    /// 1 to 1024 [default: 1]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = parse_number)]
    pub(super) workers: Vec<u32>,

    /// Workers of the client only, 1 to 1024 [default: --workers]
    #[arg(long, value_name = "N", value_parser = parse_number)]
    pub(super) client_workers: Option<u32>,

    /// Workers of the server only, 1 to 1024 [default: --workers]
    #[arg(long, value_name = "N", value_parser = parse_number)]
    pub(super) server_workers: Option<u32>,

    /// Per flow, requests outstanding [default: 1] or sends in flight [default: the engine's
    /// choice], 1 to 65536
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = parse_number)]
    pub(super) depth: Vec<u32>,

    /// Open loop: messages or transactions per second, 0.001 to 1T, of each flow (1000/flow) or of
    /// all flows of a direction together (100K/total, also without a word) [default: closed loop]
    #[arg(long, value_name = "RATE,..", value_delimiter = ',')]
    pub(super) rate: Vec<PerSecond>,

    /// Open loop: payload bits per second of all flows of a direction together, 1 to 1000T
    /// [default: closed loop]
    #[arg(long, value_name = "BITS,..", value_delimiter = ',', value_parser = parse_bitrate)]
    pub(super) bitrate: Vec<u64>,

    /// The same as --bitrate, one value (iperf3's -b is per stream)
    #[arg(short = 'b', value_name = "BITS", conflicts_with = "bitrate")]
    #[arg(value_parser = parse_bitrate)]
    pub(super) iperf_bitrate: Option<u64>,

    /// Address families: 4, 6 [default: what HOST resolves to first]
    #[arg(long, value_name = "4,6", value_delimiter = ',')]
    pub(super) family: Vec<Family>,
}

/// What ends a sample.
#[derive(Args, Debug)]
#[command(next_help_heading = "How long")]
pub(super) struct TimeArgs {
    /// Measured time of a sample, 10ms to 365d [default: 10s; tour: 2s]
    #[arg(short = 't', long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) duration: Option<u64>,

    /// Exactly so many payload bytes per direction, 1 to 8192T, in place of a duration (streams)
    /// [default: none]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) bytes: Option<u64>,

    /// Exactly so many transactions (streams: messages per direction), 1 to 9007199254740992,
    /// in place of a duration [default: none]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(super) transactions: Option<u64>,

    /// Uncounted traffic before it, 0s to 365d [default: 1s; tour: 0.5s; none with exact amounts]
    #[arg(short = 'O', long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) warmup: Option<u64>,

    /// Timed repetitions of each case, 1 to 1000000 [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_number)]
    pub(super) samples: Option<u32>,

    /// Interval of the reports, 100ms to 365d [default: 1s]
    #[arg(short = 'i', long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) interval: Option<u64>,
}

/// CPUs and waiting.
#[derive(Args, Debug)]
#[command(next_help_heading = "Where it runs")]
pub(super) struct PlaceArgs {
    /// Worker i runs on the i-th of these CPUs, such as 0,2-5; without HOST the client takes the
    /// first and the server the next ones [default: the allowed ones]
    #[arg(long, value_name = "LIST")]
    pub(super) cpus: Option<CpuList>,

    /// CPUs of the client only [default: --cpus]
    #[arg(long, value_name = "LIST")]
    pub(super) client_cpus: Option<CpuList>,

    /// CPUs of the server only [default: --cpus]
    #[arg(long, value_name = "LIST")]
    pub(super) server_cpus: Option<CpuList>,

    /// How workers wait: sleep, spin (burns the CPU), adaptive [default: sleep]
    #[arg(long, value_name = "HOW")]
    pub(super) wait: Option<Wait>,

    /// How the client's workers wait [default: --wait]
    #[arg(long, value_name = "HOW")]
    pub(super) client_wait: Option<Wait>,

    /// How the server's workers wait [default: --wait]
    #[arg(long, value_name = "HOW")]
    pub(super) server_wait: Option<Wait>,

    /// What drives the sockets: io_uring, sockets (plain calls and epoll), auto [default: auto,
    /// which is io_uring unless the host refuses it, and sockets for rr and crr in closed loop
    /// with one transaction at a time a worker]
    #[arg(long, value_name = "ENGINE")]
    pub(super) engine: Option<Engine>,

    /// What drives the client's sockets [default: --engine]
    #[arg(long, value_name = "ENGINE")]
    pub(super) client_engine: Option<Engine>,

    /// What drives the server's sockets [default: --engine]
    #[arg(long, value_name = "ENGINE")]
    pub(super) server_engine: Option<Engine>,

    /// Microseconds that the kernel polls the NIC before it sleeps (SO_BUSY_POLL), 1 to 1000000
    /// [default: the system's]
    #[arg(long, value_name = "USEC", value_parser = parse_number)]
    pub(super) busy_poll: Option<u32>,

    /// Busy polling of the client only, 1 to 1000000 [default: --busy-poll]
    #[arg(long, value_name = "USEC", value_parser = parse_number)]
    pub(super) client_busy_poll: Option<u32>,

    /// Busy polling of the server only, 1 to 1000000 [default: --busy-poll]
    #[arg(long, value_name = "USEC", value_parser = parse_number)]
    pub(super) server_busy_poll: Option<u32>,

    /// What of the kernel is watched, on both sides: auto (drops, retransmissions, resets, where
    /// permitted, and one more sample with the stages), on (the stages of each packet's way in
    /// every sample, which slows it), off, only (nothing but the one sample with the stages)
    /// [default: auto]
    #[arg(long, value_name = "auto|on|off|only")]
    pub(super) probes: Option<ProbeUse>,

    /// A diagnostic: leave one tracepoint of the probes alone, to see what is lost without it
    /// [default: none is]
    #[arg(long, value_name = "TRACEPOINT", hide_short_help = true)]
    pub(super) probes_without: Option<String>,

    /// Plain buffers and a wake-up per arrival: nothing that the engine chooses by itself
    #[arg(long)]
    pub(super) as_application: bool,
}

/// Choices of the engine, for a comparison.
#[derive(Args, Debug)]
#[command(next_help_heading = "What the engine chooses by itself, unless given")]
pub(super) struct EngineArgs {
    /// Microseconds for which a ring gathers completions once one is there, 1 to 1000000, or off
    /// [default: 100 for receivers of unpaced UDP streams or of more than 16 TCP streams, else
    /// off]
    #[arg(long, value_name = "USEC|off", value_parser = min_wait)]
    pub(super) min_wait: Option<u32>,

    /// Bytes that wake a receiver of a TCP stream (SO_RCVLOWAT), 1 to 1G, or auto or off [default:
    /// auto, about a millisecond of the rate]
    #[arg(long, value_name = "BYTES|auto|off", value_parser = low_water)]
    pub(super) low_water: Option<LowWater>,

    /// Receive buffers of each worker: 1xSIZE is one for all flows, 64x16K one of 64 for each
    /// arrival [default: the engine's, by flows and size]
    #[arg(long, value_name = "COUNTxSIZE")]
    pub(super) receive_buffers: Option<ReceiveBuffers>,

    /// Sockets in the ring's own table of files: on, off [default: on]
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    pub(super) fixed_files: Option<bool>,

    /// Set-up flags of the ring: defer (SINGLE_ISSUER, DEFER_TASKRUN), coop (COOP_TASKRUN), none
    /// [default: the most that the kernel knows]
    #[arg(long, value_name = "defer|coop|none")]
    pub(super) ring_flags: Option<RingFlags>,

    /// Payload and buffers in huge pages: reserved ones if the host has any, else transparent ones
    /// [default: off]
    #[arg(long)]
    pub(super) huge_pages: bool,
}

/// Socket options.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sockets")]
pub(super) struct SocketArgs {
    /// Source address of the client's flows [default: the route's]
    #[arg(short = 'B', long, value_name = "ADDR", value_parser = parse_address)]
    pub(super) bind: Option<IpAddr>,

    /// Interface of the client's flows (SO_BINDTODEVICE) [default: the route's]
    #[arg(long, value_name = "IFACE")]
    pub(super) device: Option<String>,

    /// Source ports: fresh (the kernel's choice), fixed (the same in every sample), or A-B
    /// [default: fresh]
    #[arg(long, value_name = "HOW")]
    pub(super) source_ports: Option<SourcePorts>,

    /// TCP congestion control, such as cubic [default: the system's]
    #[arg(short = 'C', long, value_name = "NAME")]
    pub(super) congestion: Option<String>,

    /// TCP maximum segment size, bytes, 88 to 32767 [default: the path's]
    #[arg(short = 'M', long, value_name = "BYTES", value_parser = parse_number)]
    pub(super) mss: Option<u32>,

    /// Send and receive buffers of fixed size, bytes, 1 to 1G [default: the kernel tunes them]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) window: Option<u64>,

    /// Receive buffer of fixed size beyond the system's limit (needs CAP_NET_ADMIN), bytes,
    /// 1 to 1G [default: the kernel tunes it]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) rcvbuf: Option<u64>,

    /// Highest bits per second of a flow, paced by the kernel (SO_MAX_PACING_RATE), 8 to 1000T
    /// [default: no limit]
    #[arg(long, value_name = "BITS", value_parser = parse_bitrate)]
    pub(super) pacing: Option<u64>,

    /// TCP_NODELAY: on, off [default: on for rr and crr, off for streams]
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    pub(super) nodelay: Option<bool>,

    /// How TCP connections end: fin, rst [default: fin]
    #[arg(long, value_name = "HOW")]
    pub(super) close: Option<CloseKind>,

    /// DSCP code point of the packets, 0 to 63 [default: 0]
    #[arg(long, value_name = "N", value_parser = dscp)]
    pub(super) dscp: Option<u8>,
}

/// How messages are sent, received and answered.
#[derive(Args, Debug)]
#[command(next_help_heading = "Messages")]
pub(super) struct MessageArgs {
    /// What a TCP receiver does: copy, discard (in the kernel) [default: copy]
    #[arg(long, value_name = "HOW")]
    pub(super) receive: Option<Receive>,

    /// Messages per send operation (TCP streams), 1 to 65536 [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_number)]
    pub(super) coalesce: Option<u32>,

    /// Send streams without copies: send (io_uring's SEND_ZC), msg (MSG_ZEROCOPY), file (sendfile
    /// from memory, TCP); the engine follows, and what was copied after all is counted
    /// [default: the kernel copies]
    #[arg(long, value_name = "send|msg|file")]
    pub(super) zerocopy: Option<ZeroCopy>,

    /// Datagrams per send operation, cut by the kernel (UDP streams), 1 to 128 [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_number)]
    pub(super) gso: Option<u32>,

    /// Let the kernel merge datagrams for the receiver (UDP streams)
    #[arg(long)]
    pub(super) gro: bool,

    /// Let datagrams larger than the path's MTU be fragmented
    #[arg(long)]
    pub(super) fragment: bool,

    /// Time between a complete request and its answer (rr, crr), 0s to 1m [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) think: Option<u64>,

    /// Check every byte at the receiver (one send at a time on TCP streams)
    #[arg(long)]
    pub(super) verify: bool,
}

/// Patience.
#[derive(Args, Debug)]
#[command(next_help_heading = "Session")]
pub(super) struct SessionArgs {
    /// Try to reach the server for this long, 1ms to 1d [default: try once]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) wait_for_server: Option<u64>,

    /// After this long a UDP request counts as lost, 1ms to 1m [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) timeout: Option<u64>,

    /// End when nothing at all came from the other side for this long, 2s to 1h [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) peer_timeout: Option<u64>,
}

/// Where results go.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Free text that stands in the result, 1000 bytes at most [default: none]
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,

    /// No line per interval on stderr
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Write the result as one JSON document to a file beside the table, or with - to stdout in
    /// place of it [default: the table alone]
    #[arg(long, value_name = "PATH|-")]
    pub(super) json: Option<PathBuf>,

    /// The same as --json -
    #[arg(short = 'J', conflicts_with = "json")]
    pub(super) json_stdout: bool,

    /// Write a JSON object per interval to stdout, and the document last, in place of the table
    #[arg(long)]
    pub(super) json_stream: bool,

    /// Keep every run as UUID.json in this directory, interrupted ones too [default: not kept]
    #[arg(long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
}
