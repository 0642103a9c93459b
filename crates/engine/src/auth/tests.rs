use std::sync::atomic::{AtomicU64, Ordering};

use kent_access::{Action, Bound, Limits, Outdated, Refused, Right, Role, Target, Token, TokenId};
use kent_ids::{Format, UnixNanos};
use kent_store::{Change, MemoryStore, StoreId, Version, Versioned};

use super::*;
use crate::{
    host::entropy::SystemEntropy,
    records::{failure::StoreFailure, keys},
};

/// A clock that a test sets, in milliseconds.
#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn wall(&self) -> UnixNanos {
        UnixNanos::new(i128::from(self.0.load(Ordering::SeqCst)) * 1_000_000)
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

struct Daemon {
    auth: Auth,
    clock: Arc<ManualClock>,
    touch: Arc<Touch>,
    known: KnownCaller,
}

const WINDOW: Duration = Duration::from_secs(10);

impl Daemon {
    async fn start() -> Self {
        let store = Arc::new(MemoryStore::new(StoreId::new([3; 16])));
        let table = AccessTable::load(store.clone(), Arc::new(SystemEntropy)).await.expect("loaded");
        let clock = Arc::new(ManualClock::default());
        let budgets = Budgets::new(store, clock.clone());
        let touch = Arc::new(Touch::new(clock.clone(), WINDOW));
        touch.set(Duration::ZERO, 0);
        let auth = Auth::new(true, (Arc::new(table), budgets), clock.clone(), Some(touch.clone()), Limits::default());
        Self { auth, clock, touch, known: KnownCaller::default() }
    }

    fn advance(&self, to_ms: u64) {
        self.clock.0.store(to_ms, Ordering::SeqCst);
        self.touch.set(self.clock.steady(), i64::try_from(to_ms).expect("small"));
    }

    async fn write(&self, write: Write) {
        let made = self.auth.table().change::<StoreFailure>(|_| Ok(vec![write.clone()])).await;
        assert!(made.is_ok());
    }

    fn identify(&self, header: Option<&str>, certificate: Option<&str>) -> Result<Caller, Denied> {
        let header = header.map(str::as_bytes);
        // The certificate of a connection never changes, so calls with a certificate do not share the cached caller.
        let known = certificate.is_none().then_some(&self.known);
        let certificate = certificate.map(|name| NamedCertificate { name, expires: i64::MAX });
        let shown = Credentials { certificate, known, ..Credentials::unknown(header) };
        let fresh = self.auth.identify(&Credentials { known: None, ..shown }, self.clock.steady());
        let caller = self.auth.identify(&shown, self.clock.steady());
        // Caching the caller must not change the answer.
        assert_eq!(caller.as_ref().map(|it| it.name().to_owned()), fresh.as_ref().map(|it| it.name().to_owned()));
        caller
    }

    /// Whether a token may allocate UUIDs, or why it is refused.
    fn may(&self, token: &Presented) -> Result<bool, Denied> {
        let caller = self.identify(Some(&format!("Bearer {}", token.reveal())), None)?;
        let format = Format::by_token("uuidv7").expect("a format");
        Ok(caller.may(Action::Allocate, Target::Format(format)))
    }
}

fn right(text: &str) -> Right {
    Right::new(text.parse().expect("a permission"), Bound::Nothing).expect("bound")
}

fn presented(secret: u8) -> Presented {
    Presented::new(TokenId::new([7; 6]), [secret; 32])
}

fn token(rights: &[&str], roles: &[&str]) -> Token {
    Token {
        id: presented(1).id(),
        name: "orders".to_owned(),
        rights: rights.iter().map(|text| right(text)).collect(),
        roles: roles.iter().map(|name| (*name).to_owned()).collect(),
        limits: Limits::default(),
        created: 0,
        expires: None,
        created_by: "local".to_owned(),
        hash: presented(1).hash(),
        outdated: None,
        refused: None,
    }
}

fn written(token: Token) -> Write {
    Write::Token(Box::new(token))
}

#[tokio::test]
async fn err_bad_credentials_get_one_answer() {
    let daemon = Daemon::start().await;
    daemon.write(written(token(&["allocate:uuidv7"], &[]))).await;
    assert_eq!(daemon.may(&presented(1)), Ok(true));
    assert!(matches!(daemon.identify(None, None), Err(Denied::NoCredential(_))));
    let good = presented(1).reveal();
    let unknown = Presented::new(TokenId::new([8; 6]), [1; 32]).reveal();
    let wrong = presented(2).reveal();
    let headers = [
        good.clone(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer kent_".to_owned(),
        format!("Basic {good}"),
        format!("Bearer {good}x"),
        format!("Bearer {}", &good[..good.len() - 1]),
        format!("Bearer {unknown}"),
        format!("Bearer {wrong}"),
        format!("Bearer {}", good.to_uppercase()),
        String::new(),
    ];
    for header in headers {
        // A token takes precedence over a certificate.
        for certificate in [None, Some("spiffe://example/orders")] {
            let denied = daemon.identify(Some(&header), certificate).expect_err("refused");
            assert!(matches!(denied, Denied::BadCredential(_)), "{header}: {denied}");
        }
    }
    assert_eq!(
        daemon.identify(Some(&format!("bearer   {good} ")), None).expect("known").name(),
        "token:070707070707 (orders)"
    );
}

#[tokio::test]
async fn ok_a_change_takes_effect_with_the_next_call() {
    let daemon = Daemon::start().await;
    daemon.write(written(token(&[], &["ops"]))).await;
    assert_eq!(daemon.may(&presented(1)), Ok(false), "the role does not exist yet");
    let role = |rights: &[&str]| {
        let rights = rights.iter().map(|text| right(text)).collect();
        Write::Role(Role { name: "ops".to_owned(), rights, certificates: Vec::new(), limits: Limits::default() })
    };
    daemon.write(role(&["allocate:*"])).await;
    assert_eq!(daemon.may(&presented(1)), Ok(true));
    daemon.write(role(&["lease:*"])).await;
    assert_eq!(daemon.may(&presented(1)), Ok(false));
    daemon.write(role(&["admin:*"])).await;
    assert_eq!(daemon.may(&presented(1)), Ok(true));
    daemon.write(Write::NoRole("ops".to_owned())).await;
    assert_eq!(daemon.may(&presented(1)), Ok(false));
    daemon.write(written(Token { refused: Some(Refused::Revoked), ..token(&[], &[]) })).await;
    assert!(matches!(daemon.may(&presented(1)), Err(Denied::Refused(_, Refused::Revoked))));
    assert!(
        matches!(daemon.may(&presented(2)), Err(Denied::BadCredential(_))),
        "only the holder of the token gets the reason"
    );
    daemon.write(Write::NoToken(presented(1).id())).await;
    assert!(matches!(daemon.may(&presented(1)), Err(Denied::BadCredential(_))));
}

#[tokio::test]
async fn ok_a_token_ends_on_time_also_on_a_connection_that_knows_it() {
    let daemon = Daemon::start().await;
    let outdated = Some(Outdated { hash: presented(2).hash(), until: 5000 });
    daemon.write(written(Token { expires: Some(10_000), outdated, ..token(&["allocate:*"], &[]) })).await;
    for (at, new, old) in
        [(0, true, true), (4999, true, true), (5000, true, false), (9999, true, false), (10_000, false, false)]
    {
        daemon.advance(at);
        assert_eq!(daemon.may(&presented(1)).is_ok(), new, "{at}");
        assert_eq!(daemon.may(&presented(2)).is_ok(), old, "{at}");
    }
    assert!(matches!(daemon.may(&presented(1)), Err(Denied::Refused(_, Refused::Expired))));
}

#[tokio::test]
async fn err_a_replica_out_of_touch_serves_only_its_own_user() {
    let daemon = Daemon::start().await;
    daemon.write(written(token(&["allocate:*"], &[]))).await;
    let local = Credentials { is_local: true, ..Credentials::unknown(None) };
    daemon.clock.0.store(9_999, Ordering::SeqCst);
    assert_eq!(daemon.may(&presented(1)), Ok(true));
    let caller = daemon.identify(Some(&format!("Bearer {}", presented(1).reveal())), None).expect("known");
    assert!(daemon.auth.is_current(&caller, daemon.clock.steady()));
    daemon.clock.0.store(10_000, Ordering::SeqCst);
    assert!(matches!(daemon.may(&presented(1)), Err(Denied::OutOfTouch(_))));
    assert!(!daemon.auth.is_current(&caller, daemon.clock.steady()), "also during a stream");
    assert!(matches!(daemon.identify(None, Some("spiffe://example/orders")), Err(Denied::OutOfTouch(_))));
    assert_eq!(daemon.auth.identify(&local, daemon.clock.steady()).expect("local").name(), "local");
    daemon.advance(10_001);
    assert_eq!(daemon.may(&presented(1)), Ok(true));
}

#[tokio::test]
async fn ok_a_certificate_has_the_roles_that_name_it() {
    let daemon = Daemon::start().await;
    let role = |name: &str, right_text: &str, pattern: &str| {
        let certificates = vec![pattern.parse().expect("a pattern")];
        let limits = Limits::default();
        Write::Role(Role { name: name.to_owned(), rights: vec![right(right_text)], certificates, limits })
    };
    daemon.write(role("a", "allocate:uuidv7", "spiffe://example/orders")).await;
    daemon.write(role("b", "inspect:*", "spiffe://example/*")).await;
    let format = Format::by_token("uuidv7").expect("a format");
    for (name, allocates, inspects) in [
        ("spiffe://example/orders", true, true),
        ("spiffe://example/other", false, true),
        ("spiffe://else/orders", false, false),
    ] {
        let caller = daemon.identify(None, Some(name)).expect("known");
        assert_eq!(caller.name(), format!("certificate:{name}"));
        assert_eq!(caller.may(Action::Allocate, Target::Format(format)), allocates, "{name}");
        assert_eq!(caller.may(Action::Inspect, Target::Daemon), inspects, "{name}");
    }
}

#[tokio::test]
async fn err_a_certificate_without_a_name_that_counts_is_mentioned() {
    let daemon = Daemon::start().await;
    let shown = Credentials { is_nameless: true, ..Credentials::unknown(None) };
    let refused = daemon.auth.identify(&shown, daemon.clock.steady()).expect_err("nameless");
    assert!(matches!(refused, Denied::NamelessCertificate(_)));
    assert!(refused.to_string().starts_with("your certificate has neither a URI nor a DNS name"), "{refused}");
}

#[tokio::test]
async fn err_an_empty_token_is_not_the_certificate_that_the_connection_remembers() {
    let daemon = Daemon::start().await;
    let shown = |header| Credentials {
        certificate: Some(NamedCertificate { name: "spiffe://example/orders", expires: i64::MAX }),
        known: Some(&daemon.known),
        ..Credentials::unknown(header)
    };
    let identify = |header| daemon.auth.identify(&shown(header), daemon.clock.steady());
    assert_eq!(identify(None).expect("known").name(), "certificate:spiffe://example/orders");
    assert!(matches!(identify(Some(b"")), Err(Denied::BadCredential(_))));
    assert!(identify(None).is_ok());
}

#[tokio::test]
async fn ok_changes_of_other_replicas_are_followed_in_any_order() {
    let daemon = Daemon::start().await;
    let table = daemon.auth.table();
    let put = |key, version, value| Change::Put(key, Versioned { version: Version::new(version), value });
    let record = |version, refused| {
        let token = Token { refused, ..token(&["allocate:*"], &[]) };
        put(keys::token(token.id), version, kent_proto::stored::encode_token(&token))
    };
    let last = |version| {
        let id = kent_proto::stored::EditId([1; 16]);
        put(keys::ACCESS_VERSION, version, kent_proto::stored::encode_access(id))
    };
    assert!(table.follow(&record(5, None)) && table.follow(&last(5)));
    assert_eq!((daemon.may(&presented(1)), table.snapshot().version().get()), (Ok(true), 5));
    assert!(table.follow(&record(7, Some(Refused::Revoked))) && table.follow(&last(7)));
    assert!(daemon.may(&presented(1)).is_err());
    // A late report of an earlier change does not undo a later one.
    assert!(table.follow(&record(5, None)) && table.follow(&last(5)));
    assert!(daemon.may(&presented(1)).is_err());
    assert_eq!(table.snapshot().version().get(), 7);
    // A replica does not confirm a change that it cannot follow.
    assert!(!table.follow(&put(keys::token(presented(1).id()), 8, b"\xff".to_vec())));
    assert!(table.follow(&last(8)));
    assert_eq!(table.snapshot().version().get(), 7);
    assert!(!table.follow(&Change::Missed));
}
