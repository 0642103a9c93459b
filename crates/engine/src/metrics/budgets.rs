//! The metrics of budgets: how much each allows in total, and how much is left.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Level;
use crate::access::{BudgetLeft, BudgetsLeft};

/// The metrics of budgets.
#[derive(Clone, Debug, Default)]
pub(crate) struct BudgetMetrics {
    capacity: Family<BudgetLabel, Level>,
    left: Family<BudgetLabel, Level>,
    omitted: Gauge,
}

/// The labels that name a budget.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BudgetLabel {
    holder: String,
    resource: String,
}

impl BudgetMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("budget_capacity", "Identifiers that the holder may take in total", self.capacity.clone());
        registry.register(
            "budget_left",
            "Identifiers that the holder may still take; absent if the store does not answer",
            self.left.clone(),
        );
        registry.register(
            "budget_metrics_omitted",
            "Budgets beyond the maximum number with metrics",
            self.omitted.clone(),
        );
    }

    /// Sets the metrics of these budgets, and removes those of all others.
    pub(crate) fn set(&self, budgets: &BudgetsLeft) {
        self.capacity.clear();
        self.left.clear();
        for BudgetLeft { holder, resource, total, left } in &budgets.shown {
            let label = BudgetLabel { holder: holder.to_string(), resource: resource.clone() };
            self.capacity.get_or_create(&label).set(*total as f64);
            if let Some(left) = left {
                self.left.get_or_create(&label).set(*left as f64);
            }
        }
        self.omitted.set(i64::try_from(budgets.omitted).unwrap_or(i64::MAX));
    }
}
