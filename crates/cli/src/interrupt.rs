//! Ctrl-C during an edit. The daemon may still make the edit, so the command says how to find out.

use std::process;

use serde_json::json;

use crate::confirm;
use crate::failure::Edit;
use crate::notice;
use crate::reach::Reach;

/// The exit code of an interrupted command, as in shells: 128 plus the number of the signal.
const EXIT_CODE: i32 = 130;

/// Ends the process after Ctrl-C. Runs on a worker thread, because a question to the user blocks the main thread.
pub(crate) async fn watch(edit: Edit, reach: Reach, is_json: bool) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    let is_sent = !confirm::is_asking();
    let text = match (is_sent, is_json) {
        (true, false) => format!("interrupted\n{}", edit.how_to_find_out()),
        (false, false) => "\ninterrupted: nothing was changed\n".to_owned(),
        (is_sent, true) => {
            let message =
                if is_sent { "interrupted: the edit may have been made" } else { "interrupted: nothing was changed" };
            let details = if is_sent { json!({"find_out": edit.command}) } else { json!({}) };
            let error = json!({"code": "CANCELLED", "reason": "INTERRUPTED", "message": message, "details": details});
            format!("{}\n", json!({ "error": error }))
        }
    };
    notice::write(&reach.add_to(&text), is_json);
    process::exit(EXIT_CODE);
}
