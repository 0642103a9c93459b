//! Advice for a failed connection to a Unix socket.

/// Returns a hint for this path and cause, if there is one.
pub(super) fn advice(path: &str, cause: &str) -> Option<String> {
    let advice = [
        (
            "No such file",
            "There is no such socket. A daemon on the embedded store serves kent.sock in its data directory, or the path of `kentd --listen \
             unix:PATH`.",
        ),
        ("Connection refused", "It is not a socket, or its daemon is not running."),
        (
            "Permission denied",
            "Only the user who runs the daemon can use its socket: run the command as that user, for example with sudo -u.",
        ),
    ];
    let known = advice.iter().find(|(known, _)| cause.contains(known));
    known.map(|(_, advice)| format!("{path}: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_cause_gets_advice() {
        for (cause, expected) in [
            ("No such file or directory (os error 2)", Some("/s: There is no such socket")),
            ("Connection refused (os error 111)", Some("/s: It is not a socket, or its daemon is not running")),
            ("Permission denied (os error 13)", Some("/s: Only the user who runs the daemon")),
            ("broken pipe", None),
        ] {
            let advice = advice("/s", cause);
            assert_eq!(advice.is_some(), expected.is_some(), "{cause}");
            assert!(advice.unwrap_or_default().contains(expected.unwrap_or_default()), "{cause}");
        }
    }
}
