//! A histogram of durations whose values can be read back for per-second statistics. An observation costs two atomic
//! additions.

use std::{
    array, fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric, histogram::exponential_buckets},
};

/// The number of buckets. Each bound is twice the previous one, and the last bucket has no bound.
const BUCKETS: usize = 24;
/// Prometheus gets every second bound, which keeps the number of time series small.
const STEP: usize = 2;
const BOUNDS: u16 = 12;

/// A histogram of durations. The first bound is `FIRST` microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency<const FIRST: u64>(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// The contents of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The number of durations in each bucket.
    buckets: [u64; BUCKETS],
    /// The sum of the durations.
    sum: Duration,
}

impl<const FIRST: u64> Latency<FIRST> {
    /// Counts a duration.
    pub(crate) fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // A bound belongs to the bucket below it.
        let periods = nanos.saturating_sub(1) / (FIRST * 1000);
        let at = (u64::BITS - periods.leading_zeros()) as usize; // OK because it is at most 64
        self.0.buckets[at.min(BUCKETS - 1)].fetch_add(1, Relaxed);
        self.0.nanos.fetch_add(nanos, Relaxed);
    }

    /// Returns what was observed until now.
    pub(crate) fn observed(&self) -> Observed {
        let buckets = array::from_fn(|at| self.0.buckets[at].load(Relaxed));
        Observed { buckets, sum: Duration::from_nanos(self.0.nanos.load(Relaxed)) }
    }
}

impl Observed {
    /// Returns the sum of two histograms.
    pub fn plus(self, other: &Self) -> Self {
        Self { buckets: array::from_fn(|at| self.buckets[at] + other.buckets[at]), sum: self.sum + other.sum }
    }

    /// Returns what was observed since an earlier time.
    pub fn since(self, earlier: &Self) -> Self {
        let buckets = array::from_fn(|at| self.buckets[at].saturating_sub(earlier.buckets[at]));
        Self { buckets, sum: self.sum.saturating_sub(earlier.sum) }
    }

    /// Returns the number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the mean; `None` without durations.
    pub(crate) fn mean(&self) -> Option<Duration> {
        self.sum
            .as_nanos()
            .checked_div(self.count().into())
            .and_then(|mean| u64::try_from(mean).ok())
            .map(Duration::from_nanos)
    }

    /// Estimates the quantile `share` of the durations, in microseconds, by interpolation between the bounds of a
    /// bucket. The first bound is `first` microseconds. Returns `None` without durations.
    pub(crate) fn quantile(&self, share: f64, first: u64) -> Option<f64> {
        let count = self.count();
        let rank = (share * count as f64).max(1.0);
        let mut below = 0;
        for (at, in_bucket) in self.buckets.iter().enumerate() {
            let within = rank - below as f64;
            below += in_bucket;
            if below as f64 >= rank && *in_bucket > 0 {
                let upper = first as f64 * 2f64.powi(i32::try_from(at).unwrap_or(i32::MAX));
                let lower = if at == 0 { 0.0 } else { upper / 2.0 };
                return Some(lower + (upper - lower) * within / *in_bucket as f64);
            }
        }
        None
    }
}

impl<const FIRST: u64> TypedMetric for Latency<FIRST> {
    const TYPE: MetricType = MetricType::Histogram;
}

impl<const FIRST: u64> EncodeMetric for Latency<FIRST> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let observed = self.observed();
        let bounds = exponential_buckets(FIRST as f64 * 1e-6, 4.0, BOUNDS);
        // Each bucket passed to Prometheus counts only the durations above the previous bound.
        let up_to =
            |at: usize| -> u64 { observed.buckets[(at * STEP).saturating_sub(STEP - 1)..=at * STEP].iter().sum() };
        let mut buckets: Vec<(f64, u64)> = bounds.enumerate().map(|(at, bound)| (bound, up_to(at))).collect();
        buckets.push((f64::INFINITY, observed.buckets[BUCKETS - 1]));
        encoder.encode_histogram::<NoLabelSet>(observed.sum.as_secs_f64(), observed.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    #[test]
    fn ok_a_duration_is_in_the_bucket_of_its_bound() {
        for (nanos, bucket) in [
            (0, 0),
            (1000, 0),
            (1001, 1),
            (2000, 1),
            (2001, 2),
            (4000, 2),
            (4_194_304_000, 22),
            (4_194_304_001, 23),
            (u64::MAX, 23),
        ] {
            let latency = Latency::<1>::default();
            latency.observe(Duration::from_nanos(nanos));
            assert_eq!(latency.observed().buckets[bucket], 1, "{nanos} ns");
        }
    }

    #[test]
    fn ok_prometheus_gets_the_bounds_and_counts_of_every_second_bucket() {
        let latency = Latency::<1>::default();
        [500, 1500, 3000, 5000, 5_000_000_000]
            .into_iter()
            .for_each(|nanos| latency.observe(Duration::from_nanos(nanos)));
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register("x", "X", latency);
        encode(&mut text, &registry).expect("text");
        for line in ["x_sum 5.00001", "x_count 5", "x_bucket{le=\"0.000001\"} 1", "x_bucket{le=\"+Inf\"} 5"] {
            assert!(text.contains(line), "{text}");
        }
        let counts: Vec<&str> = text.lines().filter(|line| line.starts_with("x_bucket")).collect();
        let counts: Vec<_> = counts.iter().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(counts, ["1", "3", "4", "4", "4", "4", "4", "4", "4", "4", "4", "4", "5"]);
    }

    #[test]
    fn ok_quantiles_are_within_a_factor_of_two() {
        let latency = Latency::<16>::default();
        let none = latency.observed();
        assert_eq!((none.quantile(0.5, 16), none.mean(), none.count()), (None, None, 0));
        (1..=1000).for_each(|millis| latency.observe(Duration::from_millis(millis)));
        let all = latency.observed();
        for (share, exact) in [(0.01, 10_000.0), (0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = all.quantile(share, 16).expect("durations");
            assert!(found >= exact / 2.0 && found <= exact * 2.0, "{found} for {share}");
        }
        assert_eq!(all.mean(), Some(Duration::from_micros(500_500)));
        assert_eq!(all.since(&all), none);
        assert_eq!(none.plus(&all), all);
    }
}
