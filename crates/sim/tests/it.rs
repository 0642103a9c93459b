//! What threads of one daemon do to each other.

mod it {
    mod threads;
}
