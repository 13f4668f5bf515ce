use super::*;

const SNMP: &str = "\
Ip: Forwarding DefaultTTL FragOKs FragFails FragCreates
Ip: 2 64 5 0 11
Tcp: RtoAlgorithm MaxConn InSegs OutSegs RetransSegs InErrs
Tcp: 1 -1 3788 2420 17 0
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
Udp: 45 2 9 46 7 1
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
UdpLite: 99 99 99 99 99 99
";
const NETSTAT: &str = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPSynRetrans
TcpExt: 0 3 4 6
IpExt: InNoRoutes InTruncatedPkts
IpExt: 0 0
";
const SNMP6: &str = "\
Ip6InReceives                   \t1
Ip6FragCreates                  \t100
Udp6NoPorts                     \t20
Udp6RcvbufErrors                \t70
UdpLite6RcvbufErrors            \t9
";

#[test]
fn both_families_are_added_and_names_are_matched_whole() {
    let counters = NetCounters::parse(SNMP, NETSTAT, SNMP6);
    assert_eq!(
        counters,
        NetCounters {
            tcp_syn_retransmits: Some(6),
            tcp_retransmits: Some(17),
            listen_overflows: Some(3),
            listen_drops: Some(4),
            udp_receive_buffer_errors: Some(77),
            udp_send_buffer_errors: Some(1),
            udp_no_ports: Some(22),
            fragments_created: Some(111),
        }
    );
}

#[test]
fn what_a_kernel_does_not_have_is_none() {
    let counters = NetCounters::parse("Udp: NoPorts\nUdp: x\n", "TcpExt: A B\nTcpExt: 1\n", "");
    assert_eq!(counters, NetCounters::default());
    let only6 = NetCounters::parse("", "", SNMP6);
    assert_eq!(only6.udp_no_ports, Some(20));
}

#[test]
fn differences_are_per_counter() {
    let before = NetCounters::parse(SNMP, NETSTAT, SNMP6);
    let after = NetCounters {
        udp_no_ports: Some(30),
        listen_drops: None,
        ..before
    };
    let since = after.since(&before);
    assert_eq!(since.udp_no_ports, Some(8));
    assert_eq!(since.listen_drops, None);
    assert_eq!(since.tcp_syn_retransmits, Some(0));
}

#[test]
fn the_running_kernel_is_understood() {
    let before = NetCounters::read(Path::new("/")).expect("this host has /proc");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let unused = {
        let other = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        other.local_addr().expect("bound")
    };
    socket
        .send_to(b"nobody is there", unused)
        .expect("taken by the kernel");
    let since = NetCounters::read(Path::new("/"))
        .expect("still there")
        .since(&before);
    assert!(
        since.udp_no_ports.is_some_and(|count| count >= 1),
        "{since:?}"
    );
    assert!(since.tcp_syn_retransmits.is_some() && since.fragments_created.is_some());
}

#[test]
fn a_missing_file_is_named() {
    let error = NetCounters::read(Path::new("/nonexistent")).expect_err("no such root");
    assert!(
        error.to_string().contains("/nonexistent/proc/net/snmp"),
        "{error}"
    );
}
