use super::*;

fn sample() -> TcpSample {
    TcpSample {
        congestion: Some("cubic".to_string()),
        rtt_us: 100,
        min_rtt_us: Some(40),
        cwnd: 10,
        snd_mss: 1448,
        rcv_mss: 536,
        total_retrans: 3,
        delivery_rate_bytes: Some(1_000),
        segs_out: Some(20),
        segs_in: Some(15),
        data_segs_out: Some(12),
        data_segs_in: Some(1),
        busy_us: Some(900),
        rwnd_limited_us: Some(90),
        sndbuf_limited_us: Some(9),
    }
}

#[test]
fn nothing_folds_to_nothing() {
    assert_eq!(TcpFold::new().report(), None);
}

#[test]
fn counters_add_up_and_states_are_averaged() {
    let mut fold = TcpFold::new();
    fold.add(&sample());
    fold.add(&TcpSample {
        congestion: Some("bbr".to_string()),
        rtt_us: 301,
        min_rtt_us: Some(u32::MAX),
        cwnd: 20,
        snd_mss: 1400,
        rcv_mss: 1448,
        ..sample()
    });
    fold.add(&TcpSample {
        min_rtt_us: Some(39),
        rtt_us: 0,
        cwnd: 0,
        ..sample()
    });
    let report = fold.report().expect("three sockets");
    assert_eq!(report.congestion, "cubic, bbr");
    assert_eq!(report.rtt_us, 401.0 / 3.0);
    assert_eq!(report.cwnd_segments, 10.0);
    assert_eq!(report.min_rtt_us, Some(39));
    assert_eq!((report.mss_send, report.mss_receive), (1400, 1448));
    assert_eq!(report.retransmits, 9);
    assert_eq!(report.delivery_rate_bps, 24_000);
    assert_eq!((report.segments_sent, report.segments_received), (60, 45));
    assert_eq!(
        (report.data_segments_sent, report.data_segments_received),
        (36, 3)
    );
    assert_eq!(report.busy_us, 2_700);
    assert_eq!(
        (report.receiver_limited_us, report.send_buffer_limited_us),
        (270, 27)
    );
}

#[test]
fn an_old_kernel_gives_what_it_has() {
    let mut fold = TcpFold::new();
    fold.add(&TcpSample {
        rtt_us: 7,
        total_retrans: 2,
        ..TcpSample::default()
    });
    let report = fold.report().expect("one socket");
    assert_eq!(
        (report.rtt_us, report.retransmits, report.min_rtt_us),
        (7.0, 2, None)
    );
    assert_eq!((report.congestion.as_str(), report.segments_sent), ("", 0));
}

#[test]
fn the_baseline_comes_off_counters_only_and_across_a_wrap() {
    let before = TcpSample {
        segs_out: Some(u32::MAX - 4),
        ..sample()
    };
    let after = TcpSample {
        segs_out: Some(5),
        total_retrans: 8,
        busy_us: Some(1_000),
        ..sample()
    };
    let since = after.since(&before);
    assert_eq!(since.segs_out, Some(10));
    assert_eq!(since.total_retrans, 5);
    assert_eq!(since.busy_us, Some(100));
    assert_eq!(since.segs_in, Some(0));
    assert_eq!(
        (since.rtt_us, since.min_rtt_us, since.cwnd),
        (100, Some(40), 10)
    );
    assert_eq!(since.delivery_rate_bytes, Some(1_000));
    let unknown = TcpSample {
        segs_in: None,
        ..sample()
    }
    .since(&before);
    assert_eq!(unknown.segs_in, None);
}
