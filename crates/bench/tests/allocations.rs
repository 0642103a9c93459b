//! Checks that a grant allocates no memory to authorize its caller or to count the call toward the caller's limits.
//!
//! These tests are a separate program, because the crate that counts allocations replaces the allocator.

use std::hint::black_box;

use allocation_counter::{AllocationInfo, measure};
use kentd::probe::Authorizing;

const CALLS: u64 = 100;

/// Sets up a caller's connection, and counts the allocations in its calls.
fn allocations(of: impl FnOnce(&Authorizing) -> bool) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let authorizing = runtime.block_on(Authorizing::limited()).expect("the store is in memory");
    // The connection remembers its caller from the first call on.
    assert!(authorizing.authorize());
    let mut is_allowed = false;
    let AllocationInfo { count_total, .. } = measure(|| is_allowed = of(&authorizing));
    assert!(is_allowed);
    count_total
}

#[test]
fn ok_a_unary_grant_is_authorized_and_limited_without_allocation() {
    assert_eq!(allocations(|it| (0..CALLS).all(|_| it.authorize_limited())), 0);
}

#[test]
fn ok_a_message_of_a_stream_is_authorized_and_limited_without_allocation() {
    assert_eq!(allocations(|it| it.authorize_stream(CALLS) && it.charge_stream(CALLS)), 0);
}

#[test]
fn ok_an_allocation_would_be_counted() {
    assert_eq!(allocations(|it| *black_box(Box::new(it.authorize()))), 1);
}
