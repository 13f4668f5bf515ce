//! The log-linear buckets of the histograms: exact below 8, then 8 buckets for each power of two,
//! so that a bucket is never wider than an eighth of its values.

/// Number of buckets that a `u64` can fall into.
pub const BUCKETS: usize = 496;

/// The bucket of `value`.
pub const fn bucket(value: u64) -> usize {
    if value < 8 {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    ((exponent - 2) * 8) as usize + ((value >> (exponent - 3)) & 7) as usize
}

/// The smallest value of bucket `index`.
///
/// # Panics
///
/// Where `index` is not below [`BUCKETS`].
pub const fn lowest(index: usize) -> u64 {
    assert!(index < BUCKETS, "no such bucket");
    if index < 8 {
        return index as u64;
    }
    (8 + (index % 8) as u64) << (index / 8 - 1)
}

/// The largest value of bucket `index`.
///
/// # Panics
///
/// Where `index` is not below [`BUCKETS`].
pub const fn highest(index: usize) -> u64 {
    if index + 1 == BUCKETS {
        u64::MAX
    } else {
        lowest(index + 1) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_value_once() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for index in 0..BUCKETS {
            assert_eq!(bucket(lowest(index)), index);
            assert_eq!(bucket(highest(index)), index);
        }
    }

    #[test]
    fn a_bucket_is_narrower_than_an_eighth() {
        for index in 8..BUCKETS {
            let width = highest(index) - lowest(index);
            assert!(width <= lowest(index) / 8, "bucket {index}");
        }
    }
}
