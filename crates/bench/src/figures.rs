//! Repeated measurements, their medians, and their formatting.

use std::time::{Duration, Instant};

/// Reads the clock. All measurements use this function.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Repeated measurements of one quantity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Vec<f64>);

impl Figures {
    /// Records a rate: `count` items in the time `took`.
    pub(crate) fn record(&mut self, count: u64, took: Duration) {
        // OK because measured counts are far below 2^53.
        self.0.push(count as f64 / took.as_secs_f64());
    }

    pub(crate) fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// Returns all measurements in order.
    pub(crate) fn all(&self) -> &[f64] {
        &self.0
    }

    /// Returns the median, or 0 if there are no measurements.
    pub(crate) fn median(&self) -> f64 {
        median(&self.0)
    }

    /// Returns the median, or `None` if there are no measurements.
    pub(crate) fn if_any(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.median())
    }

    /// Returns the smallest and the largest measurement.
    pub(crate) fn extremes(&self) -> (f64, f64) {
        let fold = |pick: fn(f64, f64) -> f64| self.0.iter().copied().reduce(pick).unwrap_or_default();
        (fold(f64::min), fold(f64::max))
    }
}

/// Returns the median of `figures`, or 0 for an empty slice.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        even if even % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// Returns a number rounded to an integer, with its digits in groups of three.
pub(crate) fn rate(figure: f64) -> String {
    let whole = format!("{figure:.0}");
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_median_is_the_middle() {
        let mut figures = Figures::default();
        assert!(figures.median().abs() < f64::EPSILON);
        for count in [100, 300, 200] {
            figures.record(count, Duration::from_secs(1));
        }
        assert!((figures.median() - 200.0).abs() < 1e-9);
        figures.record(400, Duration::from_secs(1));
        assert!((figures.median() - 250.0).abs() < 1e-9);
        assert_eq!(figures.extremes(), (100.0, 400.0));
    }

    #[test]
    fn ok_digits_are_grouped_by_three() {
        assert_eq!([rate(7.0), rate(1234.4), rate(1_234_567.0)], ["7", "1 234", "1 234 567"]);
    }
}
