//! `kent budget`: shows, sets and removes budgets.

use kent_client::Daemon;
use kent_ids::{counted, grouped};
use kent_proto::v1::{Budget, DeleteBudgetRequest, ListBudgetsRequest, SetBudgetRequest, set_budget_request::Change};
use serde_json::{Value, json};

use super::{changed_to_json, json_time, time, unconfirmed};
use crate::args::{BudgetCommand, FormArg};
use crate::confirm;
use crate::connect::request;
use crate::failure::Failure;
use crate::output::{Out, Role};
use crate::table::{Cell, Table};

/// The maximum number of budgets per page.
const PAGE_SIZE: u32 = 1000;

pub(crate) async fn run(command: &BudgetCommand, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    match command {
        BudgetCommand::Show { holder, output } => {
            let budgets = all(holder.as_deref().unwrap_or_default(), daemon).await?;
            print(&budgets, *output, out)
        }
        BudgetCommand::Set { holder, resource, total } => {
            set(holder, resource, Change::Total(*total), daemon, out).await
        }
        BudgetCommand::Add { holder, resource, count } => set(holder, resource, Change::Add(*count), daemon, out).await,
        BudgetCommand::Rm { holder, resource, yes } => {
            let question =
                format!("{holder} may then take any number of identifiers from {resource}. Remove the budget?");
            if !yes && confirm::is_possible() && !confirm::ask(&question)? {
                return Err(Failure::NotConfirmed);
            }
            let message = DeleteBudgetRequest { holder: holder.clone(), resource: resource.clone() };
            let changed = daemon.access().delete_budget(request(message)).await?.into_inner();
            if out.is_json() {
                let mut value = changed_to_json(("holder", holder), &changed);
                value["resource"] = json!(resource);
                return out.json(&value);
            }
            let removed = format!("removed the budget of {holder} for {resource}\n");
            out.text(&(removed + &unconfirmed(&changed, out.palette())))
        }
    }
}

async fn all(holder: &str, daemon: &Daemon) -> Result<Vec<Budget>, Failure> {
    let (mut budgets, mut page_token) = (Vec::new(), String::new());
    loop {
        let message = ListBudgetsRequest { holder: holder.to_owned(), page_size: PAGE_SIZE, page_token };
        let page = daemon.access().list_budgets(request(message)).await?.into_inner();
        budgets.extend(page.budgets);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(budgets);
        }
    }
}

async fn set(holder: &str, resource: &str, change: Change, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let (holder, resource, change) = (holder.to_owned(), resource.to_owned(), Some(change));
    let message = SetBudgetRequest { holder, resource, change };
    let set = daemon.access().set_budget(request(message)).await?.into_inner();
    let (budget, changed) = (set.budget.unwrap_or_default(), set.changed.unwrap_or_default());
    if out.is_json() {
        let mut value = to_json(&budget);
        value["unconfirmed"] = json!(changed.unconfirmed);
        value["effective_within_ms"] = json!(changed.effective_within_ms);
        return out.json(&value);
    }
    let text = table(&[budget]).render(out.palette()) + &unconfirmed(&changed, out.palette());
    out.text(&text)
}

fn print(budgets: &[Budget], output: FormArg, out: &mut Out) -> Result<(), Failure> {
    match output {
        _ if out.is_json() || output == FormArg::Json => {
            budgets.iter().try_for_each(|budget| out.json(&to_json(budget)))
        }
        FormArg::Name => budgets.iter().try_for_each(|budget| out.text(&format!("{}\n", budget.holder))),
        _ if budgets.is_empty() => Ok(()),
        _ => {
            let text = table(budgets).render(out.palette()) + &restored(budgets);
            out.text(&text)
        }
    }
}

/// Returns a line that explains "at least" if a restore has made the use of a budget uncertain. Otherwise, returns an
/// empty string.
fn restored(budgets: &[Budget]) -> String {
    match budgets.iter().map(|budget| budget.restored_unix_ms).max().and_then(time) {
        None => String::new(),
        Some(at) => format!(
            "\"at least\": the store was restored from a backup at {at}, so the use since that backup is unknown\n"
        ),
    }
}

fn table(budgets: &[Budget]) -> Table {
    let mut table = Table::new(["HOLDER", "RESOURCE", "TOTAL", "USED", "LEFT", "PER DAY", "LASTS"]);
    for budget in budgets {
        let least = if budget.restored_unix_ms > 0 { "at least " } else { "" };
        let left = match budget.left {
            0 => Cell::new(Role::Bad, "0"),
            left => Cell::from(grouped(left)),
        };
        table.row([
            Cell::from(&budget.holder),
            Cell::from(&budget.resource),
            Cell::from(grouped(budget.total)),
            Cell::from(format!("{least}{}", grouped(budget.used))),
            left,
            Cell::from(per_day(budget)),
            Cell::from(lasts(budget)),
        ]);
    }
    table
}

/// Returns the number of identifiers used per day at the current rate, or `-` if there is no forecast.
fn per_day(budget: &Budget) -> String {
    // OK because a rate of 2^64 per day or more is shown as 2^64 - 1.
    if budget.days_left.is_some() { grouped(budget.used_per_day.ceil() as u64) } else { "-".to_owned() }
}

/// Returns how long the rest of the budget lasts at the current rate.
fn lasts(budget: &Budget) -> String {
    match budget.days_left {
        Some(_) if budget.left == 0 => "used up".to_owned(),
        None => "-".to_owned(),
        Some(days) if days >= 36_500.0 => "over 100 years".to_owned(),
        Some(days) if days >= 2.0 => counted(days as u64, "day"),
        Some(days) => counted((days * 24.0) as u64, "hour"),
    }
}

fn to_json(budget: &Budget) -> Value {
    json!({
        "holder": budget.holder,
        "resource": budget.resource,
        "total": budget.total,
        "used": budget.used,
        "left": budget.left,
        "used_per_day": budget.used_per_day,
        "days_left": budget.days_left,
        "restored": json_time(budget.restored_unix_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    fn budget() -> Budget {
        Budget {
            holder: "role:shop".to_owned(),
            resource: "region:default/orders".to_owned(),
            total: 1_000_000,
            used: 250_000,
            left: 750_000,
            used_per_day: 99_999.5,
            days_left: Some(7.5),
            restored_unix_ms: 0,
        }
    }

    #[test]
    fn ok_budgets_for_people_and_programs() {
        let unused = Budget { used: 0, left: 1_000_000, used_per_day: 0.0, days_left: None, ..budget() };
        let spent =
            Budget { used: 1_000_000, left: 0, days_left: Some(0.0), restored_unix_ms: 1_800_000_000_000, ..budget() };
        let budgets = [budget(), unused, spent];
        assert_eq!(
            table(&budgets).render(Palette::PLAIN),
            "HOLDER     RESOURCE               TOTAL      USED                LEFT       PER DAY  LASTS\n\
             role:shop  region:default/orders  1_000_000  250_000             750_000    100_000  7 days\n\
             role:shop  region:default/orders  1_000_000  0                   1_000_000  -        -\n\
             role:shop  region:default/orders  1_000_000  at least 1_000_000  0          100_000  used up\n"
        );
        assert!(restored(&budgets).contains("2027-01-15T08:00:00Z"), "{}", restored(&budgets));
        assert_eq!(restored(&budgets[..2]), "");
        assert_eq!(lasts(&Budget { days_left: Some(1e9), ..budget() }), "over 100 years");
        assert_eq!(lasts(&Budget { days_left: Some(1.3), ..budget() }), "31 hours");
        let value = to_json(&budgets[1]);
        assert_eq!(
            (&value["left"], &value["days_left"], &value["restored"]),
            (&json!(1_000_000), &Value::Null, &Value::Null)
        );
        assert_eq!(to_json(&budgets[0])["days_left"], json!(7.5));
    }
}
