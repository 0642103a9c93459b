//! The calls for budgets.

use futures_util::future::try_join_all;
use kent_access::{Budget, BudgetId, Holder};
use kent_engine::{
    access::NewTotal,
    audit::{Event, Outcome},
    records::failure::StoreFailure,
    status,
};
use kent_proto::{
    model::{self, Invalid},
    v1::{
        self, AccessChanged, DeleteBudgetRequest, ListBudgetsRequest, ListBudgetsResponse, SetBudgetRequest,
        SetBudgetResponse, set_budget_request::Change,
    },
};
use kent_transport::callers::{Author, author, caller};
use tonic::{Request, Response, Status};

use super::AccessService;
use crate::service::audited::record;

impl AccessService {
    pub(super) async fn put_budget(
        &self,
        request: Request<SetBudgetRequest>,
    ) -> Result<Response<SetBudgetResponse>, Status> {
        let Author { caller, by, .. } = author(&self.engine, &request)?;
        let SetBudgetRequest { holder, resource, change } = request.into_inner();
        let holder = parse_holder(&holder)?;
        let (total, note) = match change {
            Some(Change::Total(total)) => (NewTotal::Of(total), format!("{resource}: {total}")),
            Some(Change::Add(more)) => (NewTotal::More(more), format!("{resource}: {more} more")),
            None => return Err(status::from_invalid(&Invalid::new("total", "is missing, and so is add"))),
        };
        let (access, subject) = (self.access().clone(), holder.to_string());
        let set = self.change(async move { access.set_budget(&caller, holder, &resource, total).await }).await;
        record(Event::new("budget.set", &by, subject).note(&note), &set, Outcome::Done);
        let (budget, version) = set?;
        let changed = self.changed(version).await;
        let budget = self.budget(&budget).await.map_err(|failure| status::from_read(&failure))?;
        Ok(Response::new(SetBudgetResponse { budget: Some(budget), changed: Some(changed) }))
    }

    pub(super) async fn page_of_budgets(
        &self,
        request: Request<ListBudgetsRequest>,
    ) -> Result<Response<ListBudgetsResponse>, Status> {
        let caller = caller(&self.engine, &request)?;
        let ListBudgetsRequest { holder, page_size, page_token } = request.into_inner();
        let page = model::parse_page(page_size, &page_token).map_err(|invalid| status::from_invalid(&invalid))?;
        let after = page.after.as_deref().map(parse_place).transpose()?;
        let holder = (!holder.is_empty()).then(|| parse_holder(&holder)).transpose()?;
        let budgets = self.access().budgets(&caller, holder.as_ref(), after, page.size + 1);
        let mut budgets = budgets.map_err(|error| status::from_access(&error))?;
        let more = budgets.len() > page.size;
        budgets.truncate(page.size);
        let next_page_token = budgets.last().filter(|_| more).map(|last| model::page_token(&place(last)));
        let budgets = try_join_all(budgets.iter().map(|budget| self.budget(budget))).await;
        let budgets = budgets.map_err(|failure| status::from_read(&failure))?;
        Ok(Response::new(ListBudgetsResponse { budgets, next_page_token: next_page_token.unwrap_or_default() }))
    }

    pub(super) async fn remove_budget(
        &self,
        request: Request<DeleteBudgetRequest>,
    ) -> Result<Response<AccessChanged>, Status> {
        let Author { caller, by, .. } = author(&self.engine, &request)?;
        let DeleteBudgetRequest { holder, resource } = request.into_inner();
        let holder = parse_holder(&holder)?;
        let (access, subject, note) = (self.access().clone(), holder.to_string(), resource.clone());
        let removed = self.change(async move { access.delete_budget(&caller, holder, &resource).await }).await;
        record(Event::new("budget.delete", &by, subject).note(&note), &removed, Outcome::Done);
        Ok(Response::new(self.changed(removed?).await))
    }

    async fn budget(&self, budget: &Budget) -> Result<v1::Budget, StoreFailure> {
        let spent = self.access().spent(budget).await?;
        let (left, lately) = (spent.left(budget.total()), spent.lately(self.engine.auth().unix_ms()));
        Ok(v1::Budget {
            holder: budget.holder().to_string(),
            resource: self.access().describe_resource(budget.right()),
            total: budget.total(),
            used: spent.used,
            left,
            used_per_day: lately.map_or(0.0, |lately| lately.per_day()),
            days_left: lately.map(|lately| lately.days(left)),
            restored_unix_ms: spent.restored.unwrap_or(0),
        })
    }
}

fn parse_holder(text: &str) -> Result<Holder, Status> {
    text.parse().map_err(|bad: kent_access::BadHolder| status::from_invalid(&Invalid::new("holder", bad)))
}

/// The page token of a budget: its position in the list of all budgets.
fn place(budget: &Budget) -> String {
    format!("{}/{}", budget.holder(), budget.id())
}

fn parse_place(text: &str) -> Result<(Holder, BudgetId), Status> {
    let place = text.rsplit_once('/').and_then(|(holder, id)| Some((holder.parse().ok()?, id.parse().ok()?)));
    let bad = || Invalid::new("page_token", "is not a page token: use the next_page_token of the previous page");
    place.ok_or_else(|| status::from_invalid(&bad()))
}
