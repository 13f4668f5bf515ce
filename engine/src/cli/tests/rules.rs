//! Every rule of a plan, with the flags that its message names.

use super::refused;

/// Each line breaks exactly one rule, whose message begins with these flags.
const BROKEN: &[(&str, &str)] = &[
    (
        "run h --proto udp --test crr",
        "--proto udp with --test crr",
    ),
    (
        "run h --proto tcp,udp --test crr,rr",
        "--proto udp with --test crr",
    ),
    ("run h --gso 8", "--gso 8 with --proto tcp (the default)"),
    ("run h --gro --proto tcp", "--gro with --proto tcp"),
    (
        "run --gro --duration 1s --proto udp --test rr",
        "--gro with --test rr",
    ),
    (
        "run h --gso 2 --proto udp --test rr",
        "--gso 2 with --test rr",
    ),
    (
        "run h --receive discard --proto udp",
        "--receive discard with --proto udp",
    ),
    (
        "run h --coalesce 4 --proto udp",
        "--coalesce 4 with --proto udp",
    ),
    (
        "run h --coalesce 4 --test rr",
        "--coalesce 4 with --test rr",
    ),
    (
        "run h --nodelay on --proto tcp,udp",
        "--nodelay on with --proto udp",
    ),
    ("run h --mss 1000 -u", "--mss 1000 with --proto udp"),
    ("run h -C bbr -u", "--congestion bbr with --proto udp"),
    ("run h --close rst -u", "--close rst with --proto udp"),
    (
        "run h --zerocopy send --test rr",
        "--zerocopy send with --test rr",
    ),
    (
        "run h --zerocopy msg --test crr",
        "--zerocopy msg with --test crr",
    ),
    (
        "run h --zerocopy file -u",
        "--zerocopy file with --proto udp",
    ),
    (
        "run h --zerocopy send --engine sockets",
        "--zerocopy send with --engine sockets",
    ),
    (
        "run h --zerocopy msg --client-engine io_uring",
        "--zerocopy msg with --client-engine io_uring",
    ),
    (
        "run h --zerocopy file -R --engine sockets --server-engine io_uring",
        "--zerocopy file with --server-engine io_uring",
    ),
    (
        "run h --zerocopy send --test bidir --engine sockets",
        "--zerocopy send with --engine sockets",
    ),
    ("run h --min-wait 1000001", "--min-wait 1000001"),
    (
        "run h --min-wait 100 --engine sockets",
        "--min-wait with --engine sockets",
    ),
    (
        "run h --ring-flags coop --client-engine sockets --server-engine sockets",
        "--ring-flags with --client-engine sockets",
    ),
    (
        "run h --fixed-files off --engine sockets",
        "--fixed-files with --engine sockets",
    ),
    ("run h --low-water 2G", "--low-water 2G"),
    ("run h --low-water off -u", "--low-water with --proto udp"),
    (
        "run h --low-water 64K --test rr",
        "--low-water with --test rr",
    ),
    (
        "run h --low-water 64K --test crr",
        "--low-water with --test crr",
    ),
    ("run h --receive-buffers 3x64K", "--receive-buffers 3x64K"),
    (
        "run h --receive-buffers 65536x64",
        "--receive-buffers 65536x64",
    ),
    ("run h --receive-buffers 1x8", "--receive-buffers 1x8"),
    (
        "run h --receive-buffers 32768x64K",
        "--receive-buffers 32768x64K",
    ),
    (
        "run h --receive-buffers 64x64K --receive discard",
        "--receive-buffers 64x64K with --receive discard",
    ),
    (
        "run h --receive-buffers 1x64K -u",
        "--receive-buffers 1x64K with --proto udp",
    ),
    (
        "run h --receive-buffers 1x64K --verify",
        "--receive-buffers 1x64K with --verify",
    ),
    (
        "run h --receive-buffers 64x4K -u --gro",
        "--receive-buffers 64x4K with --gro",
    ),
    (
        "run h --receive-buffers 64x1K -u --size 1400",
        "--receive-buffers 64x1K with --size 1400",
    ),
    (
        "run h --rate 5 --bitrate 1M",
        "--rate 5/total with --bitrate 1M",
    ),
    (
        "run h --duration 1s --bytes 1M",
        "--duration 1s with --bytes 1M",
    ),
    (
        "run h --duration 1s --transactions 9",
        "--duration 1s with --transactions 9",
    ),
    (
        "run h --bytes 1M --transactions 9",
        "--bytes 1M with --transactions 9",
    ),
    ("run h --bytes 1M --test rr", "--bytes 1M with --test rr"),
    (
        "run h --bitrate 1M --test rr",
        "--bitrate 1M with --test rr",
    ),
    (
        "run h --bitrate 1M --test crr",
        "--bitrate 1M with --test crr",
    ),
    (
        "run h --warmup 1s --bytes 1M",
        "--warmup 1s with --bytes 1M",
    ),
    (
        "run h --warmup 1s --transactions 5",
        "--warmup 1s with --transactions 5",
    ),
    ("run h -u --size 65508", "--size 65508 with --proto udp"),
    (
        "run h -u --test rr --size 1/65508",
        "--size 1/65508 with --proto udp",
    ),
    (
        "run h --size 64/1K",
        "--size 64/1K with --test stream (the default)",
    ),
    (
        "run h --size 64/1K --test rr,bidir",
        "--size 64/1K with --test bidir",
    ),
    (
        "run h --verify --depth 2",
        "--verify with --depth 2 with --proto tcp (the default)",
    ),
    (
        "run h --verify --receive discard",
        "--verify with --receive discard",
    ),
    (
        "run h --verify -u --size 24",
        "--verify with --size 24 with --proto udp",
    ),
    (
        "run h --verify -u --test rr",
        "--verify with --size 1 with --proto udp",
    ),
    (
        "run h --verify -u --test rr --size 64/8",
        "--verify with --size 64/8 with --proto udp",
    ),
    ("run h -u --gso 50 --size 1400", "--gso 50 with --size 1400"),
    ("run h -u --gso 129", "--gso 129"),
    (
        "run h --coalesce 65536 --size 2K",
        "--coalesce 65536 with --size 2K",
    ),
    ("run h --depth 4 --test crr", "--depth 4 with --test crr"),
    (
        "run h --think 1ms",
        "--think 1ms with --test stream (the default)",
    ),
    (
        "run h --fragment",
        "--fragment with --proto tcp (the default)",
    ),
    (
        "run h --timeout 2s --test rr",
        "--timeout 2s with --proto tcp (the default) with --test rr",
    ),
    (
        "run h --timeout 2s -u --test stream",
        "--timeout 2s with --proto udp with --test stream",
    ),
    (
        "run h --window 1M --rcvbuf 1M",
        "--window 1M with --rcvbuf 1M",
    ),
    ("run h --dscp 64", "--dscp 64"),
    ("run h --interval 99ms", "--interval 99ms"),
    ("run h --peer-timeout 1s", "--peer-timeout 1s"),
    ("run h --mss 87", "--mss 87"),
    ("run h --mss 32768", "--mss 32768"),
    ("run h --size 0", "--size 0"),
    ("run h --test rr --size 1/0", "--size 0"),
    ("run h --size 65M", "--size 65M"),
    ("run h --flows 0", "--flows 0"),
    ("run h --flows 1000001", "--flows 1000001"),
    ("run h --workers 0", "--workers 0"),
    ("run h --client-workers 0", "--client-workers 0"),
    ("run h --server-workers 1025", "--server-workers 1025"),
    ("run h --depth 0", "--depth 0"),
    ("run h --rate 0", "--rate 0/total"),
    ("run h --rate 2T/flow", "--rate 2T/flow"),
    ("run h --bitrate 0", "--bitrate 0"),
    ("run h --duration 0", "--duration 0s"),
    ("run h --duration 366d", "--duration 366d"),
    ("run h --bytes 0", "--bytes 0"),
    ("run h --transactions 0", "--transactions 0"),
    ("run h --samples 0", "--samples 0"),
    ("run h --think 61s --test rr", "--think 61s"),
    ("run h --timeout 0 -u --test rr", "--timeout 0s"),
    ("run h --window 0", "--window 0"),
    ("run h --rcvbuf 2G", "--rcvbuf 2G"),
    ("run h --pacing 7", "--pacing 7"),
    ("run h --coalesce 0", "--coalesce 0"),
    ("run h --busy-poll 0", "--busy-poll 0"),
    ("run h --client-busy-poll 0", "--client-busy-poll 0"),
    (
        "run h --server-busy-poll 1000001",
        "--server-busy-poll 1000001",
    ),
    ("run h --wait-for-server 0", "--wait-for-server 0s"),
    ("run h --port 0", "--port 0"),
    ("run h --device a/b", "--device \"a/b\""),
    (
        "run h --congestion thisnameistoolong",
        "--congestion \"thisnameistoolong\"",
    ),
    ("run --wait-for-server 3s", "--wait-for-server 3s"),
    ("run --port 5302", "--port 5302"),
    ("run h:1 --port 2", "--port 2 with HOST h:1"),
    ("run ::1 --family 4", "HOST ::1 with --family 4"),
    (
        "run h --bind 10.0.0.1 --family 4,6",
        "--bind 10.0.0.1 with --family 6",
    ),
    ("run ::1 --bind 127.0.0.1", "HOST ::1 with --bind 127.0.0.1"),
    (
        "run h --wait spin --client-wait spin --server-wait sleep",
        "--wait with --client-wait with --server-wait",
    ),
    (
        "run h --workers 1 --client-workers 1 --server-workers 1",
        "--workers with --client-workers with --server-workers",
    ),
    (
        "run h --busy-poll 1 --client-busy-poll 1 --server-busy-poll 1",
        "--busy-poll with --client-busy-poll with --server-busy-poll",
    ),
    (
        "run h --cpus 0 --client-cpus 1 --server-cpus 2",
        "--cpus with --client-cpus with --server-cpus",
    ),
    (
        "run h --cpus 0-1 --workers 3 --flows 9",
        "--cpus 0-1 with --workers 3",
    ),
    (
        "run h --server-cpus 0 --workers 2 --flows 2",
        "--server-cpus 0 with --workers 2",
    ),
    (
        "run h --source-ports 7-9 --flows 4",
        "--source-ports 7-9 with --flows 4",
    ),
    (
        "run h --source-ports 7-9 --flows 2 --test bidir",
        "--source-ports 7-9 with --flows 2 with --test bidir",
    ),
    (
        "run h --source-ports fixed --test crr",
        "--source-ports fixed with --test crr",
    ),
    ("run --gso 4", "--gso 4 with --proto tcp (part of the tour)"),
    (
        "serve --data-port 5300-5302",
        "--data-port 5300-5302 with --port 5301",
    ),
    ("serve --max-sessions 0", "--max-sessions 0"),
    ("serve --max-duration 0", "--max-duration 0s"),
    ("serve --max-flows 0", "--max-flows 0"),
    ("serve --max-bitrate 0", "--max-bitrate 0"),
];

#[test]
fn every_rule_names_its_flags() {
    for (line, flags) in BROKEN {
        let lines = refused(line);
        let start = format!("error: {flags}: ");
        assert!(
            lines.iter().any(|text| text.starts_with(&start)),
            "{line}: {lines:#?}"
        );
        // The tour has four kinds of traffic, so that an option of one may fit several not.
        if !line.starts_with("run --gso") {
            assert_eq!(lines.len(), 1, "{line}: {lines:#?}");
        }
    }
}

#[test]
fn all_broken_rules_come_at_once() {
    let lines = refused("run h --proto udp --test crr,rr --nodelay on --dscp 99 --bitrate 1M");
    for flags in [
        "--dscp 99",
        "--proto udp with --test crr",
        "--nodelay on with --proto udp",
        "--bitrate 1M with --test rr",
        "--bitrate 1M with --test crr",
    ] {
        let start = format!("error: {flags}: ");
        assert!(
            lines.iter().any(|text| text.starts_with(&start)),
            "{flags}: {lines:#?}"
        );
    }
    assert_eq!(lines.len(), 5, "{lines:#?}");
}
