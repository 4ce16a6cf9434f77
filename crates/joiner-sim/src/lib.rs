//! A cluster around the embedded API server.
