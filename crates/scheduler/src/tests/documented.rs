//! Examples that documentation gives.
