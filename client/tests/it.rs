//! The client against a daemon that plays a part: what it answers, and when, is up to the test.

mod it {
    mod behaviour;
    mod daemon;
}
