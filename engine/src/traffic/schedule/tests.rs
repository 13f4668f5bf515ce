use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

#[test]
fn a_rate_of_a_thousand_over_ten_flows_is_staggered_by_a_millisecond() {
    let own: Vec<u32> = (0..10).collect();
    let mut schedule = Schedule::new(1_000.0, 10, &own);
    schedule.start(5 * SECOND);
    for k in 0..100u64 {
        let due = 5 * SECOND + k * 1_000_000;
        assert_eq!(schedule.next_due(), Some(due));
        assert_eq!(schedule.pop_due(due - 1), None, "not before its time");
        assert_eq!(schedule.pop_due(due), Some(((k % 10) as usize, due)));
    }
}

#[test]
fn counts_are_exact_after_thirty_days() {
    for rate in [3.0, 7.0, 1_000.0, 999_983.0, 10_000_000.0] {
        let schedule = Schedule::new(rate, 1, &[0]);
        let month = 30 * DAY;
        let events = 30 * 86_400 * rate as u64;
        assert_eq!(schedule.due_before(0, month), events, "rate {rate}");
        assert_eq!(schedule.due_before(0, month + 1), events + 1, "rate {rate}");
        assert_eq!(schedule.intended(0, events), month, "rate {rate}");
    }
}

#[test]
fn one_per_minute_and_one_per_day_come_on_the_second() {
    let minute = Schedule::new(1.0 / 60.0, 1, &[0]);
    // 1/60 is not a binary fraction; the schedule follows the number given, to its last bit.
    for i in [1, 60, 1_440] {
        let off = minute.intended(0, i).abs_diff(i * 60 * SECOND);
        assert!(
            off <= 1 + i * 60 * SECOND / (1 << 53),
            "event {i} is off by {off} ns"
        );
    }
    let eighth = Schedule::new(0.125, 4, &[1, 3]);
    assert_eq!(eighth.intended(0, 0), 8 * SECOND);
    assert_eq!(eighth.intended(1, 2), (3 + 8) * 8 * SECOND);
}

#[test]
fn popping_for_long_equals_the_closed_form_at_ten_million_a_second() {
    let mut schedule = Schedule::new(1e7 / 3.0, 7, &[5, 2]);
    schedule.start(123);
    for k in 0..2_000_000u64 {
        let own = usize::from(k % 2 == 0);
        let intended = schedule.intended(own, k / 2);
        assert_eq!(schedule.pop_due(u64::MAX), Some((own, intended)));
    }
}

#[test]
fn the_workers_shares_make_the_whole() {
    let rate = 12_345.678;
    let all: u64 = {
        let schedule = Schedule::new(rate, 10, &(0..10).collect::<Vec<_>>());
        (0..10)
            .map(|own| schedule.due_before(own, 3 * SECOND))
            .sum()
    };
    assert_eq!(all, (3.0f64 * rate).ceil() as u64);
    let split: u64 = (0..3)
        .map(|worker| {
            let own: Vec<u32> = (0..10).filter(|flow| flow % 3 == worker).collect();
            let schedule = Schedule::new(rate, 10, &own);
            (0..own.len())
                .map(|flow| schedule.due_before(flow, 3 * SECOND))
                .sum::<u64>()
        })
        .sum();
    assert_eq!(split, all);
}

#[test]
fn a_late_caller_finds_the_backlog_at_its_intended_times() {
    let mut schedule = Schedule::new(1_000.0, 1, &[0]);
    schedule.start(SECOND);
    let late = 2 * SECOND;
    let mut taken = Vec::new();
    while let Some((_, intended)) = schedule.pop_due(late) {
        taken.push(intended);
    }
    assert_eq!(taken.len(), 1_001);
    assert!(
        taken
            .iter()
            .zip(0u64..)
            .all(|(&at, i)| at == SECOND + i * 1_000_000)
    );
    assert_eq!(schedule.next_due(), Some(late + 1_000_000));
}

#[test]
fn impossible_rates_have_no_events() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut schedule = Schedule::new(rate, 2, &[0, 1]);
        schedule.start(1);
        assert_eq!(schedule.next_due(), None);
        assert_eq!(schedule.pop_due(u64::MAX), None);
        assert_eq!(schedule.due_before(0, u64::MAX), 0);
        assert_eq!(schedule.intended(1, 3), u64::MAX);
    }
    assert_eq!(Schedule::new(10.0, 4, &[]).next_due(), None);
}

#[test]
fn events_beyond_64_bits_end_the_schedule() {
    let mut schedule = Schedule::new(1e-9, 1, &[0]);
    assert_eq!(schedule.pop_due(u64::MAX), Some((0, 0)));
    while let Some((own, intended)) = schedule.pop_due(u64::MAX) {
        assert_eq!(own, 0);
        assert!(intended >= 999_999_999 * SECOND);
    }
    assert_eq!(schedule.next_due(), None);
    assert_eq!(schedule.intended(0, u64::MAX), u64::MAX);
}

proptest! {
    #[test]
    fn order_counts_and_closed_form_agree(
        rate in prop_oneof![0.016f64..1.0, 1.0f64..1e4, 1e4f64..1e7],
        total in 1u32..50,
        workers in 1u32..5,
        start in 0u64..u64::MAX / 4,
        events in 1u64..300,
    ) {
        let own: Vec<u32> = (0..total).filter(|flow| flow % workers == 0).rev().collect();
        let mut schedule = Schedule::new(rate, total, &own);
        schedule.start(start);
        let mut taken = vec![0u64; own.len()];
        let mut last = (0, 0);
        for _ in 0..events {
            let due = schedule.next_due().expect("within 64 bits");
            let (flow, intended) = schedule.pop_due(due).expect("due");
            prop_assert_eq!(intended, due);
            prop_assert_eq!(intended, schedule.intended(flow, taken[flow]));
            let turn = f64::from(own[flow]) + taken[flow] as f64 * f64::from(total);
            let exact = turn / rate * 1e9;
            let off = ((intended - start) as f64 - exact).abs();
            prop_assert!(off <= 1.0 + exact * 1e-15 * 4.0, "off by {} ns", off);
            prop_assert!((intended, own[flow]) > last || last == (0, 0));
            last = (intended, own[flow]);
            prop_assert_eq!(schedule.due_before(flow, intended), {
                // Several events of a flow may share a nanosecond only above a rate of 1e9.
                taken[flow]
            });
            taken[flow] += 1;
            prop_assert_eq!(schedule.due_before(flow, intended + 1), taken[flow]);
        }
    }
}
