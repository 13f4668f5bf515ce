//! Counters of the network namespace that explain what sockets cannot.

use std::io;
use std::path::Path;

/// Counters since the namespace was made, or with [`NetCounters::since`] over a time. A counter
/// is none where this kernel does not have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetCounters {
    /// SYN and SYN-ACK retransmissions (TcpExtTCPSynRetrans).
    pub tcp_syn_retransmits: Option<u64>,
    /// Segments retransmitted by any socket (TcpRetransSegs).
    pub tcp_retransmits: Option<u64>,
    /// Connections dropped because a listener's queue was full (TcpExtListenOverflows).
    pub listen_overflows: Option<u64>,
    /// Connections dropped at a listener for any reason (TcpExtListenDrops).
    pub listen_drops: Option<u64>,
    /// Datagrams dropped because a receive buffer was full, IPv4 and IPv6 (UdpRcvbufErrors).
    pub udp_receive_buffer_errors: Option<u64>,
    /// Datagrams dropped because a send buffer was full, IPv4 and IPv6 (UdpSndbufErrors).
    pub udp_send_buffer_errors: Option<u64>,
    /// Datagrams to ports that nobody listens on, IPv4 and IPv6 (UdpNoPorts).
    pub udp_no_ports: Option<u64>,
    /// Fragments made of outgoing datagrams, IPv4 and IPv6 (IpFragCreates).
    pub fragments_created: Option<u64>,
}

impl NetCounters {
    /// Reads `proc/net/{snmp,netstat,snmp6}` below a root path: the namespace of the process.
    /// Without IPv6 there is no `snmp6`, and nothing is missing.
    ///
    /// # Errors
    ///
    /// Where `snmp` or `netstat` cannot be read.
    pub fn read(root: &Path) -> io::Result<NetCounters> {
        let net = root.join("proc/net");
        let read = |name: &str| {
            let path = net.join(name);
            std::fs::read_to_string(&path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        };
        let (snmp, netstat) = (read("snmp")?, read("netstat")?);
        let snmp6 = match read("snmp6") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other?,
        };
        Ok(NetCounters::parse(&snmp, &netstat, &snmp6))
    }

    fn parse(snmp: &str, netstat: &str, snmp6: &str) -> NetCounters {
        let both = |name4: &str, name6: &str| {
            let v4 = in_pairs(snmp, name4.split_once('.')?);
            let v6 = in_lines(snmp6, name6);
            v4.map_or(v6, |v4| Some(v4 + v6.unwrap_or(0)))
        };
        NetCounters {
            tcp_syn_retransmits: in_pairs(netstat, ("TcpExt", "TCPSynRetrans")),
            tcp_retransmits: in_pairs(snmp, ("Tcp", "RetransSegs")),
            listen_overflows: in_pairs(netstat, ("TcpExt", "ListenOverflows")),
            listen_drops: in_pairs(netstat, ("TcpExt", "ListenDrops")),
            udp_receive_buffer_errors: both("Udp.RcvbufErrors", "Udp6RcvbufErrors"),
            udp_send_buffer_errors: both("Udp.SndbufErrors", "Udp6SndbufErrors"),
            udp_no_ports: both("Udp.NoPorts", "Udp6NoPorts"),
            fragments_created: both("Ip.FragCreates", "Ip6FragCreates"),
        }
    }

    /// What was counted since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &NetCounters) -> NetCounters {
        let grown = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
        NetCounters {
            tcp_syn_retransmits: grown(self.tcp_syn_retransmits, earlier.tcp_syn_retransmits),
            tcp_retransmits: grown(self.tcp_retransmits, earlier.tcp_retransmits),
            listen_overflows: grown(self.listen_overflows, earlier.listen_overflows),
            listen_drops: grown(self.listen_drops, earlier.listen_drops),
            udp_receive_buffer_errors: grown(
                self.udp_receive_buffer_errors,
                earlier.udp_receive_buffer_errors,
            ),
            udp_send_buffer_errors: grown(
                self.udp_send_buffer_errors,
                earlier.udp_send_buffer_errors,
            ),
            udp_no_ports: grown(self.udp_no_ports, earlier.udp_no_ports),
            fragments_created: grown(self.fragments_created, earlier.fragments_created),
        }
    }
}

/// A counter of `snmp` and `netstat`, which have a line of names and a line of values per group.
fn in_pairs(text: &str, (group, name): (&str, &str)) -> Option<u64> {
    let of_group = |line: &&str| line.split(':').next() == Some(group);
    let mut lines = text.lines().filter(of_group);
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let at = names
            .split_ascii_whitespace()
            .position(|field| field == name);
        if let Some(value) = at.and_then(|at| values.split_ascii_whitespace().nth(at)) {
            return value.parse().ok();
        }
    }
    None
}

/// A counter of `snmp6`, which has a line with a name and a value for each.
fn in_lines(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        (fields.next() == Some(name)).then(|| fields.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests;
