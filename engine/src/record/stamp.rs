//! Wall-clock instants as RFC 3339 text, UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// RFC 3339 with milliseconds, UTC: `2026-11-30T16:59:56.123Z`. Instants before 1970 print as
/// 1970's first.
pub fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let rest = seconds % 86_400;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Days since 1970-01-01 to year, month, day. Years begin in March here, so that the leap day is
/// a year's last and the months' lengths follow one formula.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970_FROM_MARCH_0: u64 = 719_468;
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days + DAYS_TO_1970_FROM_MARCH_0;
    let era = days / DAYS_IN_400_YEARS;
    let of_era = days % DAYS_IN_400_YEARS;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_instants() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(
            rfc3339(UNIX_EPOCH + Duration::from_millis(1)),
            "1970-01-01T00:00:00.001Z"
        );
        assert_eq!(
            rfc3339(UNIX_EPOCH - Duration::from_secs(1)),
            "1970-01-01T00:00:00.000Z"
        );
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut last = civil(0);
        for days in 1..146_097 {
            let now = civil(days);
            let by = |years: u64| last.0.is_multiple_of(years);
            let leap = by(4) && (!by(100) || by(400));
            let length = match last.1 {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let next = match (last.2 < length, last.1) {
                (true, _) => (last.0, last.1, last.2 + 1),
                (false, 12) => (last.0 + 1, 1, 1),
                (false, month) => (last.0, month + 1, 1),
            };
            assert_eq!(now, next);
            last = now;
        }
    }
}
