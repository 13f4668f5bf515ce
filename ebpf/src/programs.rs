//! The programs of the object, by what they are for.

use crate::layout::Stamp;

/// A tracepoint and the programs that can sit on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Tracepoint.
    pub tracepoint: &'static str,
    /// Programs of the object to try in this order: the tracepoint's arguments changed between
    /// kernels, and a program that asks for one too many does not verify.
    pub programs: &'static [&'static str],
    /// First kernel that has what the last of the programs needs.
    pub since: &'static str,
    /// Stamps of a record that nobody else writes.
    pub stamps: &'static [Stamp],
}

/// On slow paths only: they run when something goes wrong, so they may stay attached while
/// figures are taken.
pub const SLOW_PATH: &[Probe] = &[
    Probe {
        tracepoint: "kfree_skb",
        programs: &["kfree_skb__4", "kfree_skb__3", "kfree_skb__2"],
        since: "5.11",
        stamps: &[],
    },
    Probe {
        tracepoint: "tcp_retransmit_skb",
        programs: &["tcp_retransmit_skb__3", "tcp_retransmit_skb__2"],
        since: "5.11",
        stamps: &[],
    },
    Probe {
        tracepoint: "tcp_retransmit_synack",
        programs: &["tcp_retransmit_synack__1"],
        since: "5.11",
        stamps: &[],
    },
    Probe {
        tracepoint: "tcp_send_reset",
        programs: &["tcp_send_reset__2"],
        since: "5.11",
        stamps: &[],
    },
    Probe {
        tracepoint: "tcp_receive_reset",
        programs: &["tcp_receive_reset__1"],
        since: "5.11",
        stamps: &[],
    },
    Probe {
        tracepoint: "sock_rcvqueue_full",
        programs: &["sock_rcvqueue_full__1"],
        since: "5.11",
        stamps: &[],
    },
    Probe {
        tracepoint: "udp_fail_queue_rcv_skb",
        programs: &["udp_fail_queue_rcv_skb__2"],
        since: "5.11",
        stamps: &[],
    },
    Probe {
        tracepoint: "io_uring_queue_async_work",
        programs: &["io_uring_queue_async_work__0"],
        since: "5.11",
        stamps: &[],
    },
    Probe {
        tracepoint: "io_uring_cqe_overflow",
        programs: &["io_uring_cqe_overflow__0"],
        since: "6.1",
        stamps: &[],
    },
];

/// On every packet: they cost about 0.15 microseconds each time, so figures taken with them
/// attached are figures of a probed run.
pub const STAGES: &[Probe] = &[
    Probe {
        tracepoint: "tcp_sendmsg_locked",
        programs: &["tcp_sendmsg_locked__1"],
        since: "6.16",
        stamps: &[Stamp::Sent],
    },
    Probe {
        tracepoint: "net_dev_queue",
        programs: &["net_dev_queue__1"],
        since: "5.11",
        stamps: &[Stamp::Queued],
    },
    Probe {
        tracepoint: "net_dev_start_xmit",
        programs: &["net_dev_start_xmit__1"],
        since: "5.11",
        stamps: &[Stamp::Driven],
    },
    Probe {
        tracepoint: "netif_receive_skb",
        programs: &["netif_receive_skb__1"],
        since: "5.11",
        stamps: &[Stamp::Arrived],
    },
    Probe {
        tracepoint: "sk_data_ready",
        programs: &["sk_data_ready__1"],
        since: "6.3",
        stamps: &[Stamp::Ready],
    },
    Probe {
        tracepoint: "sock_recv_length",
        programs: &["sock_recv_length__3"],
        since: "6.3",
        stamps: &[Stamp::Copied],
    },
    Probe {
        tracepoint: "sched_waking",
        programs: &["sched_waking__1"],
        since: "5.11",
        stamps: &[Stamp::Runnable],
    },
    Probe {
        tracepoint: "sched_switch",
        programs: &["sched_switch__3"],
        since: "5.11",
        stamps: &[Stamp::Running],
    },
    Probe {
        tracepoint: "io_uring_task_work_run",
        programs: &["io_uring_task_work_run__0"],
        since: "6.1",
        stamps: &[],
    },
    Probe {
        tracepoint: "io_uring_local_work_run",
        programs: &["io_uring_local_work_run__0"],
        since: "6.1",
        stamps: &[],
    },
];
