//! Tests of rhumb beside the real thing. Everything is under `tests/`; run them with `cargo xtask interop`.
