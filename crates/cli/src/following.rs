//! What `kent watch` and `kent layout watch` share: they follow changes until interrupted, and reconnect.

use std::pin::pin;
use std::time::Duration;

use kent_client::{Client, Daemon};
use tokio::time::{self, Instant};

use crate::failure::Failure;
use crate::notice::{self, Repeated};
use crate::output::Out;

/// The time between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// Follows changes until interrupted. `follow` prints the changes of one daemon until its stream ends, and keeps the last
/// printed revision. If the connection is lost, reconnects, to this daemon or another, and resumes after the last change.
pub(crate) async fn keep(
    mut after: u64,
    what: &str,
    client: &Client,
    out: &mut Out,
    mut follow: impl AsyncFnMut(&Daemon, &str, &mut u64, &mut Out) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut daemon = client.connect().await?;
    let mut lost = Repeated::default();
    let mut is_resuming = false;
    loop {
        match follow(&daemon, &client.endpoint(), &mut after, out).await {
            Ok(()) => {}
            Err(Failure::Refused(refusal)) if refusal.is_transient() || (is_resuming && refusal.needs_snapshot()) => {
                if refusal.needs_snapshot() {
                    let missed =
                        format!("changes after revision {after} were missed; printing all current {what} again");
                    notice::warn(&missed, out.is_json());
                    after = 0;
                }
            }
            Err(failure) => return Err(failure),
        }
        lost.warn(
            &format!("lost the connection to the daemon; resuming after revision {after} once a daemon answers"),
            out.is_json(),
        );
        is_resuming = true;
        daemon.leave();
        daemon = loop {
            time::sleep(PAUSE).await;
            match client.connect().await {
                Ok(daemon) => break daemon,
                Err(kent_client::Error::Unavailable { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        };
    }
}

/// Waits for the first answer from an endpoint, and prints warnings until it arrives.
pub(crate) async fn saying<T>(endpoint: &str, is_json: bool, answer: impl Future<Output = T>) -> T {
    let (began, mut pause) = (Instant::now(), FIRST_AFTER);
    let mut answer = pin!(answer);
    loop {
        if let Ok(answer) = time::timeout(pause, answer.as_mut()).await {
            return answer;
        }
        let seconds = began.elapsed().as_secs();
        let text = format!(
            "{endpoint} accepted the connection but has not answered for {seconds} s; still waiting (`kent status --endpoint {endpoint}` \
             shows its health)"
        );
        notice::warn(&text, is_json);
        pause = (pause * 2).min(EVERY_MAX);
    }
}

/// The time without an answer after which the first message is printed. The interval doubles after each message.
const FIRST_AFTER: Duration = Duration::from_secs(2);

/// The longest time between two messages.
const EVERY_MAX: Duration = Duration::from_secs(60);
