//! The mean rate of an event over the last five minutes.

use std::{collections::VecDeque, time::Duration};

/// The counts of the last five minutes, in steps of [`STEP`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Rate {
    /// The number of each step, and the count of events in the step.
    steps: VecDeque<(u64, f64)>,
}

/// The duration of a step.
const STEP: Duration = Duration::from_secs(10);
/// The number of steps that the mean covers: five minutes.
const STEPS: u64 = 30;

impl Rate {
    /// Counts `count` more events at `now`, on a clock that never goes back.
    pub(crate) fn add(&mut self, count: u64, now: Duration) {
        let step = number(now);
        self.forget(step);
        match self.steps.back_mut() {
            // OK because a rate does not need more digits than a float has.
            Some((last, sum)) if *last == step => *sum += count as f64,
            _ => self.steps.push_back((step, count as f64)),
        }
    }

    /// The mean rate per second since the first step that is kept.
    pub(crate) fn per_second(&mut self, now: Duration) -> f64 {
        self.forget(number(now));
        let Some((first, _)) = self.steps.front() else { return 0.0 };
        let began = STEP.as_secs_f64() * *first as f64; // OK because a rate needs few digits
        let sum: f64 = self.steps.iter().map(|(_, sum)| sum).sum();
        sum / (now.as_secs_f64() - began).max(1.0)
    }

    fn forget(&mut self, step: u64) {
        while self.steps.front().is_some_and(|(first, _)| first + STEPS <= step) {
            self.steps.pop_front();
        }
    }
}

fn number(now: Duration) -> u64 {
    now.as_secs() / STEP.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_rate_covers_the_last_minutes() {
        let (mut rate, at) = (Rate::default(), Duration::from_secs);
        assert!(rate.per_second(at(5)).abs() < f64::EPSILON);
        for second in 0..100 {
            rate.add(7, at(second));
        }
        assert!((rate.per_second(at(100)) - 7.0).abs() < 0.01);
        assert!((rate.per_second(at(200)) - 3.5).abs() < 0.01);
        assert!(rate.per_second(at(1000)).abs() < f64::EPSILON);
    }
}
