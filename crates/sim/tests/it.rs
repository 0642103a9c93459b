//! Interactions between the threads of one daemon.

mod it {
    mod threads;
}
