//! Tests of the client against a scripted daemon, whose replies each test chooses.

mod it {
    mod behavior;
    mod daemon;
}
