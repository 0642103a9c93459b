//! `WatchConsole`: the figures of each second and the edits of tables, all in one stream.

use std::sync::Arc;

use futures_util::{
    Stream, StreamExt, future,
    stream::{self, BoxStream, select_all},
};
use kent_access::Action;
use kent_engine::{
    engine::{Engine, WATCHERS_MAX},
    status,
};
use kent_proto::{
    model::Invalid,
    v1::{
        WatchConsoleRequest, WatchConsoleResponse,
        watch_console_request::{Figures, Table},
        watch_console_response::{Begin, Edit, Event, Refused, Seconds, refused::Topic},
        watch_table_response,
    },
};
use kent_regions::Revision;
use kent_transport::callers::Session;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use super::{
    figures,
    watch::{self, Start},
};

/// The maximum number of tables in one stream.
const TABLES_MAX: usize = 64;

/// Watches what a request names. What the caller may not watch is refused inside the stream, so that the rest continues.
pub(super) async fn watch(
    engine: &Arc<Engine>,
    session: &Session,
    WatchConsoleRequest { figures, tables }: WatchConsoleRequest,
) -> Result<impl Stream<Item = WatchConsoleResponse> + Send + 'static, Status> {
    let problem = match (tables.len(), &figures) {
        (0, None) => Some("names no table, and there are no figures: name something to watch".to_owned()),
        (count, _) if count > TABLES_MAX => Some(format!("has {count} tables, but may have at most {TABLES_MAX}")),
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(status::from_invalid(&Invalid::new("tables", problem)));
    }
    // All parts of the stream share this permit.
    let watching = engine.begin_watching().ok_or_else(|| status::too_many("WatchConsole", WATCHERS_MAX))?;
    let mut topics = Vec::with_capacity(tables.len() + 1);
    if let Some(Figures { after_unix_seconds }) = figures {
        topics.push(or_refused(seconds(engine, session, after_unix_seconds, &watching), Topic::Figures(true)));
    }
    for table in tables {
        let topic = Topic::Parent(table.parent.clone());
        topics.push(or_refused(edits(engine, session, table, &watching).await, topic));
    }
    Ok(select_all(topics).map(|event| WatchConsoleResponse { event: Some(event) }))
}

/// The events of a topic, or why there are none.
type Events = Result<BoxStream<'static, Result<Event, Status>>, Status>;

fn seconds(engine: &Arc<Engine>, session: &Session, after: i64, watching: &Arc<OwnedSemaphorePermit>) -> Events {
    session.caller().check_daemon(Action::Operate).map_err(|denied| status::from_denied(&denied))?;
    let seconds = figures::watch(engine.clone(), after, watching.clone());
    let seconds = seconds.map(|seconds| Ok(Event::Seconds(Seconds { seconds })));
    Ok(session.clone().while_operator(engine.clone(), seconds).boxed())
}

async fn edits(
    engine: &Arc<Engine>,
    session: &Session,
    Table { parent, after_revision }: Table,
    watching: &Arc<OwnedSemaphorePermit>,
) -> Events {
    let start = after_revision.map_or(Start::Now, |after| Start::After(Revision(after)));
    let (space, after) = watch::find(engine, session.caller(), &parent, start).await?;
    // OK because only a snapshot has no revision.
    let begin = Begin { parent: parent.clone(), revision: after.unwrap_or_default().0 };
    let events = watch::watch(engine.clone(), (space, after), (session.clone(), watching.clone()));
    let edits = events.filter_map(move |event| {
        let edit = match event.map(|response| response.event) {
            Ok(Some(watch_table_response::Event::Change(entry))) => {
                Some(Ok(Event::Edit(Edit { parent: parent.clone(), entry: Some(entry) })))
            }
            // A page asks the daemon for the table and its seals.
            Ok(_) => None,
            Err(status) => Some(Err(status)),
        };
        future::ready(edit)
    });
    Ok(stream::once(future::ready(Ok(Event::Begin(begin)))).chain(edits).boxed())
}

/// Turns the error that ends a topic into an event.
fn or_refused(events: Events, topic: Topic) -> BoxStream<'static, Event> {
    let events = events.unwrap_or_else(|status| stream::once(future::ready(Err(status))).boxed());
    let refused =
        move |status| Event::Refused(Refused { topic: Some(topic.clone()), status: Some(status::to_wire(&status)) });
    events.map(move |event| event.unwrap_or_else(&refused)).boxed()
}
