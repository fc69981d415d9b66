//! feedsvc
