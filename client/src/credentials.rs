//! The token that a client sends with each call, and the file that holds it.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::time::Instant;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
};
use tracing::warn;

/// Adds the token of a client to its calls.
#[derive(Clone, Default)]
pub struct Credentials(Option<Arc<Shared>>);

struct Shared {
    file: Option<PathBuf>,
    state: RwLock<State>,
}

struct State {
    /// `Bearer kent_ID_SECRET`, marked as sensitive: it is not printed, and header compression does not store it.
    header: MetadataValue<Ascii>,
    /// The stamp of the file when it was read.
    stamp: Option<Stamp>,
    /// The time of the last check of the file.
    looked: Instant,
    /// The number of times the token has changed.
    generation: u64,
}

/// Device, inode, length, and the time of the last change. The stamp changes when the file's content changes.
type Stamp = (u64, u64, u64, i64, i64);

/// The origin of a client's token.
#[derive(Clone)]
pub(crate) enum TokenFrom {
    Text(String),
    File(PathBuf),
}

/// The time between two checks of the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The maximum length of a token, in bytes. A daemon's tokens are shorter than 100 bytes.
const TOKEN_BYTES_MAX: usize = 1000;

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.0.as_ref().map(|shared| &shared.file);
        f.debug_struct("Credentials").field("file", &file).finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Credentials {
    /// Reads the token.
    ///
    /// # Errors
    ///
    /// A description of the problem, without the token itself.
    pub(crate) fn read(from: &TokenFrom) -> Result<Self, String> {
        let (file, read) = match from {
            TokenFrom::Text(text) => (None, header(text).map(|header| (header, None))),
            TokenFrom::File(path) => {
                let read = read(path).map(|(header, stamp)| (header, Some(stamp)));
                (Some(path), read.map_err(|problem| format!("{}: {problem}", path.display())))
            }
        };
        let (header, stamp) = read?;
        let state = RwLock::new(State { header, stamp, looked: Instant::now(), generation: 0 });
        Ok(Self(Some(Arc::new(Shared { file: file.cloned(), state }))))
    }

    /// Reads the file again, and returns the number of times the token has changed.
    pub(crate) fn refresh(&self) -> u64 {
        let Some(shared) = &self.0 else { return 0 };
        shared.look_again(true);
        self.generation()
    }

    /// Returns the number of times the token has changed.
    pub(crate) fn generation(&self) -> u64 {
        let shared = self.0.as_ref();
        shared.map_or(0, |shared| shared.state.read().unwrap_or_else(PoisonError::into_inner).generation)
    }
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(shared) = &self.0 {
            request.metadata_mut().insert("authorization", shared.header());
        }
        #[cfg(feature = "opentelemetry")]
        crate::trace::inject(request.metadata_mut());
        Ok(request)
    }
}

impl Shared {
    fn header(&self) -> MetadataValue<Ascii> {
        self.look_again(false);
        self.state.read().unwrap_or_else(PoisonError::into_inner).header.clone()
    }

    /// Reads the file if a check is due and the file has changed. With `at_once`, reads the file in any case. If the
    /// file cannot be used, the previous token stays in use, because another process may be replacing the file.
    fn look_again(&self, at_once: bool) {
        let Some(file) = &self.file else { return };
        let is_due = |state: &State| at_once || state.looked.elapsed() >= LOOK_EVERY;
        if !is_due(&self.state.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !is_due(&state) {
            return;
        }
        state.looked = Instant::now();
        if !at_once && fs::metadata(file).is_ok_and(|metadata| Some(stamp(&metadata)) == state.stamp) {
            return;
        }
        match read(file) {
            Ok((header, stamp)) => {
                if header != state.header {
                    state.generation += 1; // OK because a u64 does not overflow in practice
                    state.header = header;
                }
                state.stamp = Some(stamp);
            }
            Err(problem) => {
                warn!(file = %file.display(), problem, "the token file cannot be used; the previous token is kept");
            }
        }
    }
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    (metadata.dev(), metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec())
}

/// Reads a token from a file. Returns the token's header and the file's stamp.
fn read(path: &Path) -> Result<(MetadataValue<Ascii>, Stamp), String> {
    let file = || -> io::Result<(String, Stamp)> {
        // The stamp is taken before the text is read, so a change in between is noticed later.
        let stamp = stamp(&fs::metadata(path)?);
        Ok((fs::read_to_string(path)?, stamp))
    };
    let (text, stamp) = file().map_err(|error| error.to_string())?;
    Ok((header(&text)?, stamp))
}

/// Returns the header for a token. An error does not contain the text, because it may be a secret.
fn header(text: &str) -> Result<MetadataValue<Ascii>, String> {
    let text = text.trim();
    let is_token = text.starts_with("kent_")
        && text.len() <= TOKEN_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let header = is_token.then(|| format!("Bearer {text}").parse::<MetadataValue<Ascii>>().ok()).flatten();
    let mut header = header.ok_or(
        "a token is kent_ID_SECRET, as `kent token create NAME --allow ACTION:RESOURCE` prints it; a token file contains \
         nothing else"
            .to_owned(),
    )?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(credentials: &Credentials) -> Option<String> {
        let request = credentials.clone().call(Request::new(())).expect("never refused");
        request.metadata().get("authorization").map(|value| value.to_str().expect("ASCII").to_owned())
    }

    #[test]
    fn ok_a_token_is_sent_and_never_shown() {
        let from = TokenFrom::Text(" kent_id_SECRET\n".to_owned());
        let credentials = Credentials::read(&from).expect("valid");
        assert_eq!(sent(&credentials).as_deref(), Some("Bearer kent_id_SECRET"));
        let request = credentials.clone().call(Request::new(())).expect("never refused");
        for shown in [format!("{from:?}"), format!("{credentials:?}"), format!("{request:?}")] {
            assert!(!shown.contains("SECRET"), "{shown}");
        }
        assert_eq!(sent(&Credentials::default()), None);
    }

    #[test]
    fn err_other_texts_are_refused_and_not_quoted() {
        for text in ["", "kent", "SECRET", "Bearer kent_SECRET", "kent_SECRET\nkent_SECRET", "kent_SECRET \u{e9}"] {
            let error = Credentials::read(&TokenFrom::Text(text.to_owned())).expect_err(text);
            assert!(error.contains("kent_ID_SECRET, as") && !error.contains("SECRET\n"), "{error}");
        }
        let error = Credentials::read(&TokenFrom::File("/nonexistent/token".into())).expect_err("missing");
        assert!(error.contains("/nonexistent/token: No such file"), "{error}");
    }

    #[test]
    fn ok_a_file_is_read_again_when_it_changes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        fs::write(&path, "kent_a_1\n").expect("written");
        let credentials = Credentials::read(&TokenFrom::File(path.clone())).expect("valid");
        fs::write(&path, "kent_a_2\n").expect("written");
        assert_eq!(sent(&credentials).as_deref(), Some("Bearer kent_a_1"), "less than a second later");
        assert_eq!((credentials.refresh(), credentials.refresh()), (1, 1));
        assert_eq!(sent(&credentials).as_deref(), Some("Bearer kent_a_2"));
        fs::write(&path, "").expect("written");
        assert_eq!(credentials.refresh(), 1);
        assert_eq!(sent(&credentials).as_deref(), Some("Bearer kent_a_2"));
        fs::write(dir.path().join("new"), "kent_a_3").expect("written");
        fs::rename(dir.path().join("new"), &path).expect("replaced");
        std::thread::sleep(LOOK_EVERY);
        assert_eq!(sent(&credentials).as_deref(), Some("Bearer kent_a_3"));
        assert_eq!(credentials.generation(), 2);
    }
}
