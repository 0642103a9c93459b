//! Advice for a failed connection to a Unix socket.

use std::path::Path;

/// Returns a hint for this path and cause, if there is one.
pub(super) fn advice(path: &str, cause: &str) -> Option<String> {
    let place = Path::new(path);
    if place.is_dir() {
        let socket = place.join("kent.sock");
        return Some(match socket.exists() {
            true => format!("{path} is a directory: use unix:{}", socket.display()),
            false => format!("{path} is a directory, and contains no socket kent.sock"),
        });
    }
    if place.is_file() {
        return Some(format!(
            "{path} is a file, not a socket. A daemon on the embedded store serves kent.sock in its data directory."
        ));
    }
    let advice = [
        (
            "No such file",
            "There is no such socket. A daemon on the embedded store serves kent.sock in its data directory, or the path of `kentd --listen \
             unix:PATH`.",
        ),
        ("Connection refused", "The daemon that served this socket is not running."),
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
    fn ok_a_path_that_is_no_socket_gets_advice() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_str().expect("UTF-8");
        let none = format!("{path} is a directory, and contains no socket kent.sock");
        assert_eq!(advice(path, "Connection refused"), Some(none));
        let file = format!("{path}/kent.sock");
        std::fs::write(&file, "").expect("written");
        assert_eq!(advice(path, "Connection refused"), Some(format!("{path} is a directory: use unix:{file}")));
        assert!(advice(&file, "Connection refused").is_some_and(|advice| advice.contains("is a file, not a socket")));
    }

    #[test]
    fn ok_a_cause_gets_advice() {
        for (cause, expected) in [
            ("No such file or directory (os error 2)", Some("/s: There is no such socket")),
            ("Connection refused (os error 111)", Some("/s: The daemon that served this socket is not running")),
            ("Permission denied (os error 13)", Some("/s: Only the user who runs the daemon")),
            ("broken pipe", None),
        ] {
            let advice = advice("/s", cause);
            assert_eq!(advice.is_some(), expected.is_some(), "{cause}");
            assert!(advice.unwrap_or_default().contains(expected.unwrap_or_default()), "{cause}");
        }
    }
}
