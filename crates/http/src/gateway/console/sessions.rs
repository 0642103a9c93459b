//! Sessions of browsers. A session has a token, which the browser exchanged for a cookie.
//!
//! The cookie is a random number, which is invalid on another daemon and after a restart. The token never reaches the
//! browser's disk. The daemon makes the calls of a session with the token, so a revoked or expired token ends its
//! sessions at once.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderValue, header};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use kent_engine::host::{
    clock::Clock,
    entropy::{self, Entropy},
};
use subtle::ConstantTimeEq;

/// The longest lifetime of a session, about a working day.
pub(super) const LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// The maximum number of sessions.
pub(super) const SESSIONS_MAX: usize = 4096;
/// The maximum number of sessions of one principal.
const SESSIONS_OF_ONE_MAX: usize = 16;

/// The sessions of this daemon.
pub(crate) struct Sessions {
    /// The name of the cookie. The name differs between daemons, because browsers send cookies to every port of a host.
    name: String,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// Whether the HTTP port uses TLS.
    is_secure: bool,
    open: Mutex<HashMap<u64, Session>>,
}

struct Session {
    secret: [u8; 16],
    /// The header `authorization` of the token.
    header: HeaderValue,
    principal: String,
    /// The end of the session on the steady clock.
    ends: Duration,
}

/// There are too many sessions.
#[derive(Debug)]
pub(super) struct TooMany;

impl Sessions {
    /// Creates the sessions of a daemon. `is_secure` says whether the HTTP port uses TLS.
    pub(crate) fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, is_secure: bool) -> Self {
        let name = format!("kent-console-{:08x}", entropy::number(&*entropy) >> 32);
        Self { name, clock, entropy, is_secure, open: Mutex::default() }
    }

    /// Opens a session for up to `life`, and returns the value of `set-cookie`.
    ///
    /// # Errors
    ///
    /// [`TooMany`] if the daemon has the maximum number of sessions. If the principal has the maximum number of
    /// sessions, the session that ends first is closed instead.
    pub(super) fn open(
        &self,
        header: HeaderValue,
        principal: &str,
        life: Duration,
        headers: &HeaderMap,
    ) -> Result<HeaderValue, TooMany> {
        let now = self.clock.steady();
        let (key, secret) = (entropy::number(&*self.entropy), entropy::bytes(&*self.entropy));
        let session = Session { secret, header, principal: principal.to_owned(), ends: now + life };
        let mut open = self.lock();
        open.retain(|_, session| session.ends > now);
        let own = open.iter().filter(|(_, session)| session.principal == principal);
        if own.clone().count() >= SESSIONS_OF_ONE_MAX {
            let first = own.min_by_key(|(_, session)| session.ends).map(|(key, _)| *key);
            if let Some(first) = first {
                open.remove(&first);
            }
        }
        if open.len() >= SESSIONS_MAX {
            return Err(TooMany);
        }
        open.insert(key, session);
        drop(open);
        let value = URL_SAFE_NO_PAD.encode([&key.to_be_bytes()[..], &secret].concat());
        self.cookie(&value, life, headers).ok_or(TooMany)
    }

    /// Ends the session of a request. Returns the principal, and the value of `set-cookie` that removes the cookie.
    pub(super) fn close(&self, headers: &HeaderMap) -> Option<(HeaderValue, String)> {
        let key = self.key(headers)?;
        let session = self.lock().remove(&key)?;
        Some((self.cookie("", Duration::ZERO, headers)?, session.principal))
    }

    /// Returns the header `authorization` of a request's session, and the remaining time of the session.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<(HeaderValue, Duration)> {
        let key = self.key(headers)?;
        let open = self.lock();
        let session = open.get(&key)?;
        Some((session.header.clone(), session.ends.saturating_sub(self.clock.steady())))
    }

    /// The key of the session that a request's cookie names, if the session has not ended.
    fn key(&self, headers: &HeaderMap) -> Option<u64> {
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = values.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let (_, value) = cookies.find(|(name, _)| *name == self.name)?;
        let bytes = URL_SAFE_NO_PAD.decode(value).ok()?;
        let (key, secret) = bytes.split_first_chunk()?;
        let key = u64::from_be_bytes(*key);
        let open = self.lock();
        let session = open.get(&key)?;
        let is_valid = bool::from(session.secret.as_slice().ct_eq(secret)) && session.ends > self.clock.steady();
        is_valid.then_some(key)
    }

    /// Returns the value of `set-cookie`. The path is `/`, because a proxy may have added a prefix that the daemon does
    /// not know.
    fn cookie(&self, value: &str, life: Duration, headers: &HeaderMap) -> Option<HeaderValue> {
        // A proxy that terminates TLS sets this header. A forged header only keeps the cookie off connections without
        // TLS.
        let by_proxy = headers.get("x-forwarded-proto").is_some_and(|proto| proto.as_bytes() == b"https");
        let secure = if self.is_secure || by_proxy { "; Secure" } else { "" };
        let (name, seconds) = (&self.name, life.as_secs());
        HeaderValue::try_from(format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"))
            .ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints no secrets.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("name", &self.name).field("open", &self.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use kent_engine::host::entropy::SystemEntropy;
    use kent_ids::UnixNanos;

    use super::*;

    #[derive(Debug, Default)]
    struct Seconds(AtomicU64);

    impl Clock for Seconds {
        fn wall(&self) -> UnixNanos {
            UnixNanos::new(0)
        }

        fn steady(&self) -> Duration {
            Duration::from_secs(self.0.load(Relaxed))
        }
    }

    fn sessions(is_secure: bool) -> (Sessions, Arc<Seconds>) {
        let clock = Arc::new(Seconds::default());
        (Sessions::new(clock.clone(), Arc::new(SystemEntropy), is_secure), clock)
    }

    fn bearer(text: &'static str) -> HeaderValue {
        HeaderValue::from_static(text)
    }

    fn shown(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().expect("ASCII").split(';').next().expect("a pair").to_owned();
        let value = HeaderValue::try_from(format!("theme=dark; {pair}; x=y")).expect("a value");
        HeaderMap::from_iter([(header::COOKIE, value)])
    }

    #[test]
    fn ok_a_cookie_finds_its_token_until_the_session_ends() {
        let ((sessions, clock), life) = (sessions(false), Duration::from_secs(60));
        let cookie = sessions.open(bearer("Bearer a"), "a", life, &HeaderMap::new()).expect("a session");
        let text = cookie.to_str().expect("ASCII");
        assert!(text.ends_with("; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"), "{text}");
        assert!(!text.contains("Bearer"));
        let headers = shown(&cookie);
        assert_eq!(sessions.find(&headers), Some((bearer("Bearer a"), life)));
        clock.0.store(59, Relaxed);
        assert_eq!(sessions.find(&headers), Some((bearer("Bearer a"), Duration::from_secs(1))));
        clock.0.store(60, Relaxed);
        assert_eq!(sessions.find(&headers), None);
    }

    #[test]
    fn ok_a_closed_session_is_gone() {
        let (sessions, _) = sessions(true);
        let cookie = sessions.open(bearer("Bearer a"), "a", LIFE, &HeaderMap::new()).expect("a session");
        assert!(cookie.to_str().expect("ASCII").ends_with("; Secure"));
        let (removal, principal) = sessions.close(&shown(&cookie)).expect("it was open");
        assert!(removal.to_str().expect("ASCII").contains("=; Path=/; Max-Age=0;"));
        assert_eq!(principal, "a");
        assert!(sessions.find(&shown(&cookie)).is_none() && sessions.close(&shown(&cookie)).is_none());
    }

    #[test]
    fn ok_a_cookie_is_secure_behind_a_proxy_with_tls() {
        let (sessions, _) = sessions(false);
        for (proto, expected) in [("https", true), ("http", false)] {
            let headers = HeaderMap::from_iter([(
                header::HeaderName::from_static("x-forwarded-proto"),
                HeaderValue::from_static(proto),
            )]);
            let cookie = sessions.open(bearer("Bearer a"), "a", LIFE, &headers).expect("a session");
            assert_eq!(cookie.to_str().expect("ASCII").ends_with("; Secure"), expected);
        }
    }

    #[test]
    fn err_other_cookies_find_nothing() {
        let (sessions, _) = sessions(false);
        let cookie = sessions.open(bearer("Bearer a"), "a", LIFE, &HeaderMap::new()).expect("a session");
        let text = cookie.to_str().expect("ASCII").split(';').next().expect("a pair").to_owned();
        let last = if text.ends_with('A') { "Q" } else { "A" };
        let changed = format!("{}{last}", &text[..text.len() - 1]);
        let other = text.replacen("kent-console-", "kent-console-x", 1);
        for text in [changed, other, format!("{}=", sessions.name), format!("{}=%", sessions.name), String::new()] {
            let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(&text).expect("a value"))]);
            assert!(sessions.find(&headers).is_none(), "{text}");
        }
    }

    #[test]
    fn ok_a_principal_loses_its_oldest_session_and_no_other_principal_does() {
        let (sessions, clock) = sessions(false);
        let other = sessions.open(bearer("Bearer b"), "b", LIFE, &HeaderMap::new()).expect("a session");
        let own: Vec<_> = (0..=SESSIONS_OF_ONE_MAX as u64)
            .map(|at| {
                clock.0.store(at, Relaxed);
                sessions.open(bearer("Bearer a"), "a", LIFE, &HeaderMap::new()).expect("a session")
            })
            .collect();
        let is_open: Vec<_> = own.iter().map(|cookie| sessions.find(&shown(cookie)).is_some()).collect();
        assert!(!is_open[0] && is_open[1..].iter().all(|open| *open), "{is_open:?}");
        assert!(sessions.find(&shown(&other)).is_some());
    }
}
