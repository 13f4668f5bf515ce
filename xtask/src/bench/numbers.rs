//! Medians and paired ratios.

/// The median: of an even number of values the mean of the middle two. None of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The smallest and the largest value. None of none.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let smallest = values.iter().copied().min_by(f64::total_cmp)?;
    let largest = values.iter().copied().max_by(f64::total_cmp)?;
    Some((smallest, largest))
}

/// Round by round, ours over theirs: both of a round ran within seconds of each other, so that
/// what the machine does over minutes cancels out.
pub fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter()
        .zip(theirs)
        .map(|(ours, theirs)| ours / theirs)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!((median(&[]), range(&[])), (None, None));
        assert_eq!(range(&[2.0, 9.0, 1.0]), Some((1.0, 9.0)));
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        assert_eq!(ratios(&[10.0, 2.0], &[5.0, 4.0]), [2.0, 0.5]);
    }
}
