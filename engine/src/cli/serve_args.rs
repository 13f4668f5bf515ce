//! The flags of `serve`.

use std::net::IpAddr;

use clap::Args;

use crate::plan::{DEFAULT_PORT, ServeOptions};
use crate::units::{
    Cidr, CpuList, PortRange, parse_address, parse_bitrate, parse_duration, parse_number,
};

/// What can be typed after `serve`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ServeArgs {
    /// Addresses to listen on [default: all]
    #[arg(short = 'B', long, value_name = "ADDR,..", value_delimiter = ',')]
    #[arg(value_parser = parse_address)]
    bind: Vec<IpAddr>,

    /// Port of control and data, 0 to 65535; 0 lets the kernel choose
    #[arg(short, long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    port: u16,

    /// Data on a port of its own, or on the first free one of a range, 1 to 65535
    /// [default: the control port]
    #[arg(long, value_name = "N[-M]")]
    data_port: Option<PortRange>,

    /// CPUs for workers where the client names none, such as 0,2-5 [default: the allowed ones]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// End after one session (a client's whole plan)
    #[arg(short = '1', long)]
    one_off: bool,

    /// Write a JSON object a line to stdout: that it listens, and each session's begin, end and
    /// refusal
    #[arg(long)]
    json_stream: bool,

    /// Sessions at once, 1 to 10000; others are told who is served and for how long
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = LIMITS)]
    #[arg(value_parser = parse_number)]
    max_sessions: u32,

    /// Refuse longer samples, warm-up included, 10ms to 365d [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = LIMITS)]
    max_duration: Option<u64>,

    /// Refuse cases with more flows, both directions together, 1 to 2000000 [default: no limit]
    #[arg(long, value_name = "N", help_heading = LIMITS, value_parser = parse_number)]
    max_flows: Option<u32>,

    /// Refuse more offered bits per second (K M G T = 1000), 1 to 1000T, and unpaced traffic
    /// [default: no limit]
    #[arg(long, value_name = "BITS", value_parser = parse_bitrate, help_heading = LIMITS)]
    max_bitrate: Option<u64>,

    /// Serve only clients with these addresses, such as 10.0.0.0/8,fd00::/8 [default: all]
    #[arg(long, value_name = "CIDR,..", value_delimiter = ',', help_heading = LIMITS)]
    allow: Vec<Cidr>,
}

const AFTER_HELP: &str = "\
The line `ringperf VERSION serving on ADDRESS` on stdout says that it listens; sessions are told on
stderr (-v, -vv: more).
Exit codes: 0 the one session of --one-off went well; 2 usage error, or an address that is not this
host's; 4 that session failed; 5 this host cannot run it (a port is taken, or below 1024 without
the privilege); 130 ended by Ctrl-C; 143 by SIGTERM.";

const LIMITS: &str = "Limits (refused by name before any traffic)";

impl ServeArgs {
    pub(super) fn options(self) -> ServeOptions {
        ServeOptions {
            bind: self.bind,
            port: self.port,
            data_ports: self.data_port,
            cpus: self.cpus.unwrap_or_default().0,
            one_off: self.one_off,
            json_stream: self.json_stream,
            max_sessions: self.max_sessions,
            max_duration_ns: self.max_duration,
            max_flows: self.max_flows,
            max_bitrate_bps: self.max_bitrate,
            allow: self.allow,
        }
    }
}
